"""Fencing: nothing that an old owner tries to write is ever stored."""

# A test's name says what it claims.
# ruff: noqa: D102

from __future__ import annotations

import pytest

from calandria.errors import StaleLease
from calandria.ports.run_store import Changes, Lease, RunHeader, RunStore, StepProgress, StepUpdate
from calandria.statuses import RunStatus, StepStatus
from calandria.testing.conformance.harness import NOW, TTL, StoreTests, event, leased, step
from calandria.testing.conformance.leasing import take_when_lapsed

_DONE = StepProgress(StepStatus.COMPLETED, 1, completed_order=1, result='"stale"')

_WRITES = {
    "header": Changes(header=RunHeader(RunStatus.FAILED, outcome='"stale"'), now=NOW + 9),
    "new step": Changes(steps=[step("stale")], now=NOW + 9),
    "replaced step": Changes(steps=[step("a", progress=_DONE)], now=NOW + 9),
    "step update": Changes(updates=[StepUpdate("a", _DONE)], now=NOW + 9),
    "event": Changes(events=[event(2)], now=NOW + 9),
    "release": Changes(release=True, now=NOW + 9),
    "nothing": Changes(now=NOW + 9),
}


class FencingConformance(StoreTests):
    """What `commit` promises about epochs."""

    @pytest.mark.parametrize("write", _WRITES)
    def test_a_stale_owner_writes_nothing(
        self, store: RunStore, other: RunStore, write: str
    ) -> None:
        stale = leased(store, ttl=0.0)
        store.commit(stale, Changes(steps=[step("a")], events=[event(1)], now=NOW))
        live = take_when_lapsed(other).lease
        before = _everything(store)

        with pytest.raises(StaleLease, match="run-1"):
            store.commit(stale, _WRITES[write])
        assert _everything(store) == before
        other.commit(live, Changes(events=[event(2, "live")], now=NOW))
        assert [each.kind for each in store.read_events("run-1")] == ["step.started", "live"]

    def test_a_lapsed_lease_still_writes_while_no_one_took_it(self, store: RunStore) -> None:
        lease = leased(store, ttl=0.0)
        store.commit(lease, Changes(events=[event(1)], now=NOW))
        assert len(store.read_events("run-1")) == 1

    def test_an_epoch_from_the_future_is_refused(self, store: RunStore) -> None:
        lease = leased(store)
        with pytest.raises(StaleLease):
            store.commit(Lease(lease.run_id, lease.owner, 2), Changes(events=[event(1)]))

    def test_a_run_that_is_gone_takes_no_commit(self, store: RunStore) -> None:
        with pytest.raises(StaleLease, match="nothing"):
            store.commit(Lease("nothing", "first", 1), Changes(steps=[step("a")], now=NOW))
        assert store.read_step("nothing", "a") is None

    def test_a_run_pruned_under_its_owner_takes_no_commit(self, store: RunStore) -> None:
        lease = leased(store)
        end = RunHeader(RunStatus.COMPLETED, finished_at=NOW)
        store.commit(lease, Changes(header=end, release=True, now=NOW))
        assert store.prune(finished_before=NOW + 1) == 1
        with pytest.raises(StaleLease):
            store.commit(lease, Changes(events=[event(1)], now=NOW))
        assert list(store.read_events("run-1")) == []

    def test_epochs_never_repeat(self, store: RunStore) -> None:
        leased(store, ttl=0.0)
        epochs = []
        for _ in range(5):
            taken = take_when_lapsed(store)
            epochs.append(taken.lease.epoch)
            store.commit(taken.lease, Changes(release=True, now=NOW))
        assert epochs == [2, 3, 4, 5, 6]
        assert store.take_lease("nothing", owner="x", ttl=TTL) is None


def _everything(store: RunStore) -> object:
    return (
        store.load_run("run-1"),
        list(store.read_steps("run-1", "")),
        list(store.read_events("run-1")),
    )
