"""Pruning: what is over goes whole, what needs someone stays, keys remember."""

# A test's name says what it claims.
# ruff: noqa: D102

from __future__ import annotations

import pytest

from calandria.ports.run_store import (
    Changes,
    KeyedRun,
    RunFilter,
    RunHeader,
    RunStore,
)
from calandria.statuses import FINISHED, RollbackState, RunStatus
from calandria.testing.conformance.harness import (
    NOW,
    TTL,
    StoreTests,
    event,
    finished,
    leased,
    new_run,
    step,
)

_KEPT = {
    "pending": RunHeader(RunStatus.PENDING),
    "running": RunHeader(RunStatus.RUNNING),
    "paused": RunHeader(RunStatus.PAUSED),
    "rolling back": RunHeader(RunStatus.ROLLING_BACK, finished_at=NOW),
    "aborted": RunHeader(RunStatus.ABORTED, finished_at=NOW),
    "incomplete": RunHeader(RunStatus.FAILED, RollbackState.INCOMPLETE, finished_at=NOW),
    "compensation pending": RunHeader(
        RunStatus.CANCELLED, pending_compensation="charge", finished_at=NOW
    ),
}


class PruningConformance(StoreTests):
    """What `prune` promises."""

    @pytest.mark.parametrize("status", sorted(FINISHED - {RunStatus.ABORTED}))
    def test_a_finished_run_goes_with_everything_of_its(
        self, store: RunStore, other: RunStore, status: RunStatus
    ) -> None:
        lease = leased(store)
        end = RunHeader(status, RollbackState.COMPLETE, outcome='"x"', finished_at=NOW)
        store.commit(lease, Changes(end, [step("a")], (), [event(1)], True, NOW))
        finished(store, new_run("run-2"), at=NOW + 5)

        assert store.prune(finished_before=NOW + 1) == 1
        assert other.load_run("run-1") is None
        assert list(other.read_steps("run-1", "")) == []
        assert other.read_step("run-1", "a") is None
        assert list(other.read_events("run-1")) == []
        assert [each.run.id for each in other.list_runs(RunFilter())] == ["run-2"]

    @pytest.mark.parametrize("kind", _KEPT)
    def test_a_run_that_is_not_done_with_stays(self, store: RunStore, kind: str) -> None:
        finished(store, new_run(), header=_KEPT[kind])
        assert store.prune(finished_before=NOW + 1e9) == 0
        assert store.load_run("run-1") is not None

    @pytest.mark.parametrize("kind", _KEPT)
    def test_a_run_stays_while_one_below_it_is_not_done_with(
        self, store: RunStore, kind: str
    ) -> None:
        finished(store, new_run("root"))
        finished(store, new_run("child", parent_id="root"))
        finished(
            store, new_run("grandchild", parent_id="child", root_id="root"), header=_KEPT[kind]
        )
        assert store.prune(finished_before=NOW + 1e9) == 0
        assert store.load_run("child") is not None

    def test_a_run_goes_with_its_tree(self, store: RunStore) -> None:
        finished(store, new_run("root"))
        for run_id, parent in (("child", "root"), ("grandchild", "child")):
            lease = leased(store, new_run(run_id, parent_id=parent, root_id="root"))
            end = RunHeader(RunStatus.COMPLETED, finished_at=NOW + 100)
            store.commit(lease, Changes(end, [step("a")], (), [event(1)], True, NOW))

        assert store.prune(finished_before=NOW + 1) == 1
        for run_id in ("root", "child", "grandchild"):
            assert store.load_run(run_id) is None
            assert list(store.read_steps(run_id, "")) == []
            assert list(store.read_events(run_id)) == []

    def test_a_child_is_never_pruned_by_itself(self, store: RunStore) -> None:
        leased(store, new_run("root"))
        finished(store, new_run("child", parent_id="root"))
        assert store.prune(finished_before=NOW + 1e9) == 0
        assert store.load_run("child") is not None

    def test_a_run_that_someone_has_leased_stays(self, store: RunStore) -> None:
        lease = finished(store, new_run())
        store.take_lease("run-1", owner="undoing", ttl=TTL)
        assert store.prune(finished_before=NOW + 1e9) == 0
        assert store.renew_leases([lease], ttl=TTL).lost == {"run-1"}

    def test_the_key_keeps_the_outcome(self, store: RunStore) -> None:
        finished(store, new_run(idempotency_key="order-42"))
        finished(store, new_run("run-2", idempotency_key="order-43"))
        finished(store, new_run("run-3", reactor="Refund", idempotency_key="order-42"), at=NOW + 9)
        store.prune(finished_before=NOW + 1)

        kept = KeyedRun("run-1", "digest-1", RunStatus.COMPLETED, '"done"')
        assert store.find_key("Checkout", "order-42") == kept
        again = new_run("run-4", idempotency_key="order-42")
        assert store.create_run(again, Changes(), owner="x", ttl=TTL) == kept
        assert store.load_run("run-4") is None
        refund = store.find_key("Refund", "order-42")
        assert refund == KeyedRun("run-3", "digest-1", RunStatus.COMPLETED, None)

    def test_the_oldest_go_first(self, store: RunStore) -> None:
        for number in (4, 1, 3, 0, 2):
            finished(store, new_run(f"run-{number}"), at=NOW + number)
        assert store.prune(finished_before=NOW + 4, limit=3) == 3
        left = [each.run.id for each in store.list_runs(RunFilter())]
        assert left == ["run-4", "run-3"]
        assert store.prune(finished_before=NOW + 4, limit=3) == 1
        assert store.prune(finished_before=NOW + 4, limit=3) == 0

    def test_the_bound_is_exclusive(self, store: RunStore) -> None:
        finished(store, new_run())
        assert store.prune(finished_before=NOW) == 0
        assert store.prune(finished_before=NOW + 0.001) == 1
