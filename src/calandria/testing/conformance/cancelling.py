"""Cancel requests: made by anyone, seen by the owner, gone when the run is over."""

# A test's name says what it claims.
# ruff: noqa: D102

from __future__ import annotations

import pytest

from calandria.ports.run_store import Changes, Renewal, RunHeader, RunStore
from calandria.statuses import FINISHED, RunStatus
from calandria.testing.conformance.harness import NOW, TTL, StoreTests, event, leased, new_run
from calandria.testing.conformance.leasing import take_when_lapsed

_ACCEPTING = [RunStatus.PENDING, RunStatus.RUNNING, RunStatus.PAUSED]


class CancellingConformance(StoreTests):
    """What `request_cancel` promises, and what commits and renewals tell of it."""

    def test_the_owner_is_told_at_every_commit(self, store: RunStore, other: RunStore) -> None:
        lease = leased(store)
        assert store.commit(lease, Changes(now=NOW)) is None
        other.request_cancel("run-1", "not wanted")

        assert store.commit(lease, Changes(events=[event(1)], now=NOW)) == "not wanted"
        header = RunHeader(RunStatus.RUNNING, waits_for="retry")
        assert store.commit(lease, Changes(header=header, now=NOW)) == "not wanted"

    def test_the_owner_is_told_at_renewal(self, store: RunStore, other: RunStore) -> None:
        lease, quiet = leased(store), leased(store, new_run("run-2"))
        other.request_cancel("run-1", "not wanted")
        assert store.renew_leases([lease, quiet], ttl=TTL) == Renewal(
            cancel_requested=frozenset({"run-1"})
        )

    def test_a_taker_is_told(self, store: RunStore) -> None:
        leased(store, ttl=0.0)
        store.request_cancel("run-1", "not wanted")
        assert take_when_lapsed(store).stored.cancel_requested == "not wanted"

    def test_the_first_reason_stays(self, store: RunStore) -> None:
        leased(store)
        store.request_cancel("run-1", "first")
        stored = store.request_cancel("run-1", "second")
        assert stored is not None
        assert stored.cancel_requested == "first"

    def test_an_empty_reason_is_a_request(self, store: RunStore) -> None:
        lease = leased(store)
        store.request_cancel("run-1", "")
        assert store.commit(lease, Changes(now=NOW)) == ""
        assert store.renew_leases([lease], ttl=TTL).cancel_requested == {"run-1"}

    @pytest.mark.parametrize("status", [*RunStatus])
    def test_only_a_run_that_goes_forward_accepts(self, store: RunStore, status: RunStatus) -> None:
        leased(store, new_run(status=status))
        stored = store.request_cancel("run-1", "not wanted")
        assert stored is not None
        assert stored.header.status is status
        expected = "not wanted" if status in _ACCEPTING else None
        assert stored.cancel_requested == expected

    def test_an_unknown_run_is_none(self, store: RunStore) -> None:
        assert store.request_cancel("nothing", "not wanted") is None

    @pytest.mark.parametrize("status", sorted(FINISHED))
    def test_the_end_of_the_run_clears_the_request(
        self, store: RunStore, status: RunStatus
    ) -> None:
        lease = leased(store)
        store.request_cancel("run-1", "not wanted")
        end = RunHeader(status, finished_at=NOW)
        assert store.commit(lease, Changes(header=end, now=NOW)) is None
        stored = store.load_run("run-1")
        assert stored is not None
        assert stored.cancel_requested is None

    def test_a_request_changes_nothing_else(self, store: RunStore) -> None:
        leased(store)
        before = store.load_run("run-1")
        after = store.request_cancel("run-1", "not wanted")
        assert before is not None
        assert after is not None
        assert after.run == before.run
        assert (after.epoch, after.lease_owner) == (before.epoch, before.lease_owner)
