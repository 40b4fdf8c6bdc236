"""Creation of runs, and the idempotency keys that make a second creation harmless."""

# A test's name says what it claims.
# ruff: noqa: D102

from __future__ import annotations

from dataclasses import replace

import pytest

from calandria.errors import StorageError
from calandria.ports.run_store import (
    Changes,
    KeyedRun,
    Lease,
    RunFilter,
    RunHeader,
    RunStore,
    StepProgress,
    TakenLease,
)
from calandria.statuses import RunStatus, StepStatus
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


class CreatingConformance(StoreTests):
    """What `create_run` and `find_key` promise."""

    def test_a_run_created_with_an_owner_is_leased_at_epoch_1(
        self, store: RunStore, other: RunStore
    ) -> None:
        lease = store.create_run(new_run(), Changes(now=NOW + 1), owner="first", ttl=TTL)

        assert lease == Lease("run-1", "first", 1)
        stored = other.load_run("run-1")
        assert stored is not None
        assert stored.run == new_run()
        assert (stored.epoch, stored.lease_owner, stored.lease_live) == (1, "first", True)
        assert stored.cancel_requested is None
        assert stored.updated_at == NOW + 1

    def test_a_run_created_without_an_owner_has_no_lease(self, store: RunStore) -> None:
        run = new_run(status=RunStatus.PENDING)
        assert store.create_run(run, Changes(now=NOW), owner=None, ttl=TTL) is None

        stored = store.load_run("run-1")
        assert stored is not None
        assert (stored.epoch, stored.lease_owner, stored.lease_live) == (0, None, False)

    def test_every_field_of_a_run_comes_back(self, store: RunStore) -> None:
        header = RunHeader(
            status=RunStatus.ROLLING_BACK,
            trigger="failure",
            end_status=RunStatus.FAILED,
            outcome='{"error":"no"}',
            pending_compensation="booking/charge",
            waits_for="retry",
            wake_at=NOW + 5.000001,
            finished_at=NOW + 7,
        )
        run = new_run(header=header, idempotency_key="key", correlation_id="req-1")
        child = replace(new_run("child", header=header, parent_id="run-1"), inputs_digest="d")
        for each in (run, child):
            store.create_run(each, Changes(now=NOW), owner=None, ttl=TTL)
            stored = store.load_run(each.id)
            assert stored is not None
            assert stored.run == each
            assert stored.header == header

    def test_first_records_are_written_with_the_run(self, store: RunStore) -> None:
        first = step("charge", position=3)
        changes = Changes(steps=[first], events=[event(1, "run.started"), event(2)], now=NOW)
        store.create_run(new_run(), changes, owner="first", ttl=TTL)

        assert store.read_step("run-1", "charge") == first
        assert [each.sequence for each in store.read_events("run-1")] == [1, 2]

    def test_a_used_id_is_refused_and_harms_nothing(self, store: RunStore) -> None:
        leased(store)
        with pytest.raises(StorageError):
            store.create_run(
                new_run(inputs='"other"'), Changes(events=[event(1)]), owner="second", ttl=TTL
            )
        stored = store.load_run("run-1")
        assert stored is not None
        assert stored.run == new_run()
        assert list(store.read_events("run-1")) == []

    def test_an_unknown_run_is_none(self, store: RunStore) -> None:
        assert store.load_run("nothing") is None
        assert store.read_step("nothing", "charge") is None
        assert list(store.read_steps("nothing", "")) == []
        assert list(store.read_events("nothing")) == []
        assert store.find_key("Checkout", "nothing") is None

    def test_a_used_key_gives_its_run_and_writes_nothing(
        self, store: RunStore, other: RunStore
    ) -> None:
        leased(store, new_run(idempotency_key="order-42"))
        again = replace(new_run("run-2", idempotency_key="order-42"), inputs_digest="digest-2")
        made = other.create_run(
            again, Changes(steps=[step("a")], events=[event(1)]), owner="second", ttl=TTL
        )

        assert made == KeyedRun("run-1", "digest-1", RunStatus.RUNNING, None)
        assert store.load_run("run-2") is None
        assert store.read_step("run-2", "a") is None
        assert list(store.read_events("run-2")) == []

    def test_a_key_belongs_to_one_reactor(self, store: RunStore) -> None:
        leased(store, new_run(idempotency_key="order-42"))
        leased(store, new_run("run-2", reactor="Refund", idempotency_key="order-42"))

        found = store.find_key("Refund", "order-42")
        assert found is not None
        assert found.run_id == "run-2"

    def test_runs_without_a_key_never_meet(self, store: RunStore) -> None:
        leased(store)
        leased(store, new_run("run-2"))
        assert len(store.list_runs(RunFilter())) == 2

    def test_a_key_tells_how_its_run_stands(self, store: RunStore) -> None:
        finished(store, new_run(idempotency_key="order-42"))
        found = store.find_key("Checkout", "order-42")
        assert found is not None
        assert (found.run_id, found.status) == ("run-1", RunStatus.COMPLETED)

    def test_a_refused_creation_leaves_the_key_free(self, store: RunStore) -> None:
        leased(store)
        with pytest.raises(StorageError):
            store.create_run(
                new_run(idempotency_key="order-42"), Changes(), owner="second", ttl=TTL
            )
        assert store.find_key("Checkout", "order-42") is None

    def test_first_records_count_for_the_next_owner(self, store: RunStore) -> None:
        done = step("a", progress=StepProgress(StepStatus.COMPLETED, 1, completed_order=1))
        changes = Changes(steps=[done], events=[event(1), event(2)], now=NOW)
        store.create_run(new_run(), changes, owner=None, ttl=TTL)
        taken = store.take_lease("run-1", owner="second", ttl=TTL)
        assert isinstance(taken, TakenLease)
        assert taken.last_sequence == 2
