"""Leases: one owner at a time, lapsing by themselves, renewed together."""

# A test's name says what it claims.
# ruff: noqa: D102

from __future__ import annotations

from calandria.ports.run_store import (
    Changes,
    Lease,
    Renewal,
    RunHeader,
    RunStore,
    StepProgress,
    StepUpdate,
    StoredRun,
    TakenLease,
)
from calandria.statuses import RunStatus, StepStatus
from calandria.testing.conformance.harness import (
    NOW,
    SHORT_TTL,
    TTL,
    StoreTests,
    event,
    eventually,
    leased,
    new_run,
    step,
)


def take(store: RunStore, run_id: str = "run-1", *, ttl: float = TTL) -> TakenLease:
    """Take a lease that must be free."""
    taken = store.take_lease(run_id, owner="second", ttl=ttl)
    assert isinstance(taken, TakenLease)
    return taken


def take_when_lapsed(store: RunStore, run_id: str = "run-1") -> TakenLease:
    """Take a lease as soon as it has lapsed."""

    def attempt() -> TakenLease | None:
        found = store.take_lease(run_id, owner="second", ttl=TTL)
        return found if isinstance(found, TakenLease) else None

    return eventually(attempt)


class LeasingConformance(StoreTests):
    """What `take_lease`, `renew_leases` and a releasing `commit` promise."""

    def test_a_live_lease_is_not_taken_even_by_its_owner(
        self, store: RunStore, other: RunStore
    ) -> None:
        leased(store)
        for owner in ("first", "second"):
            found = other.take_lease("run-1", owner=owner, ttl=TTL)
            assert isinstance(found, StoredRun)
            assert (found.epoch, found.lease_owner, found.lease_live) == (1, "first", True)

    def test_an_unknown_run_has_no_lease(self, store: RunStore) -> None:
        assert store.take_lease("nothing", owner="first", ttl=TTL) is None

    def test_a_free_lease_is_taken_with_the_next_epoch(self, store: RunStore) -> None:
        store.create_run(new_run(), Changes(now=NOW), owner=None, ttl=TTL)
        taken = take(store)
        assert taken.lease == Lease("run-1", "second", 1)
        assert taken.stored.run == new_run()
        assert (taken.stored.epoch, taken.stored.lease_owner) == (1, "second")
        assert taken.stored.lease_live

    def test_a_released_lease_is_free_at_once(self, store: RunStore, other: RunStore) -> None:
        lease = leased(store)
        paused = RunHeader(RunStatus.PAUSED)
        store.commit(lease, Changes(header=paused, release=True, now=NOW))

        stored = store.load_run("run-1")
        assert stored is not None
        assert (stored.lease_owner, stored.lease_live, stored.epoch) == (None, False, 1)
        assert take(other).lease.epoch == 2

    def test_releasing_needs_no_header(self, store: RunStore) -> None:
        store.commit(leased(store), Changes(release=True, now=NOW))
        assert take(store).stored.header == RunHeader(RunStatus.RUNNING)

    def test_a_lapsed_lease_is_taken_with_the_next_epoch(
        self, store: RunStore, other: RunStore
    ) -> None:
        leased(store, ttl=SHORT_TTL)
        taken = take_when_lapsed(other)
        assert taken.lease == Lease("run-1", "second", 2)

    def test_a_taker_learns_whether_the_owner_before_let_go(self, store: RunStore) -> None:
        leased(store, ttl=SHORT_TTL)
        lapsed = take_when_lapsed(store)
        assert lapsed.abandoned
        store.commit(lapsed.lease, Changes(release=True, now=NOW))
        assert not take(store).abandoned

    def test_a_lapsed_lease_is_seen_as_such(self, store: RunStore) -> None:
        leased(store, ttl=SHORT_TTL)

        def lapsed() -> StoredRun | None:
            stored = store.load_run("run-1")
            return stored if stored and not stored.lease_live else None

        assert eventually(lapsed).lease_owner == "first"

    def test_a_taker_learns_where_the_journal_stands(self, store: RunStore) -> None:
        lease = leased(store)
        done = StepProgress(StepStatus.COMPLETED, 1, completed_order=7, result="1")
        store.commit(lease, Changes(steps=[step("a")], events=[event(1), event(2)], now=NOW))
        store.commit(lease, Changes(updates=[StepUpdate("a", done)], events=[event(3)], now=NOW))
        undoing = RunHeader(RunStatus.ROLLING_BACK, trigger="failure")
        store.commit(lease, Changes(header=undoing, events=[event(4)], release=True, now=NOW))

        taken = take(store)
        assert taken.last_sequence == 4
        assert taken.stored.header == undoing

    def test_a_new_run_starts_its_journal_at_nothing(self, store: RunStore) -> None:
        store.commit(leased(store), Changes(release=True))
        taken = take(store)
        assert taken.last_sequence == 0

    def test_renewing_keeps_a_lease_alive(self, store: RunStore, other: RunStore) -> None:
        lease = leased(store, ttl=SHORT_TTL)
        assert store.renew_leases([lease], ttl=TTL) == Renewal()
        # another lease, taken later with the ttl the first one had, lapses; the first does not
        leased(store, new_run("run-2"), ttl=SHORT_TTL)
        take_when_lapsed(other, "run-2")
        assert isinstance(other.take_lease("run-1", owner="second", ttl=TTL), StoredRun)

    def test_a_lapsed_lease_no_one_took_is_extended(self, store: RunStore) -> None:
        lease = leased(store, ttl=0.0)
        assert store.renew_leases([lease], ttl=TTL) == Renewal()
        assert store.renew_leases([lease], ttl=TTL) == Renewal()
        assert isinstance(store.take_lease("run-1", owner="second", ttl=TTL), StoredRun)

    def test_renewing_tells_what_was_lost(self, store: RunStore, other: RunStore) -> None:
        kept = leased(store, new_run("kept"))
        overtaken = leased(store, new_run("overtaken"), ttl=0.0)
        take_when_lapsed(other, "overtaken")
        released = leased(store, new_run("released"))
        store.commit(released, Changes(release=True))
        gone = Lease("gone", "first", 1)
        foreign = Lease("kept", "someone", 1)

        found = store.renew_leases([kept, overtaken, released, gone], ttl=TTL)
        assert found.lost == {"overtaken", "released", "gone"}
        assert store.renew_leases([foreign], ttl=TTL).lost == {"kept"}
        assert store.renew_leases([kept], ttl=TTL) == Renewal()

    def test_a_lost_lease_is_not_given_back_by_renewing(self, store: RunStore) -> None:
        lease = leased(store, ttl=0.0)
        taken = take_when_lapsed(store)
        store.renew_leases([lease], ttl=TTL)
        stored = store.load_run("run-1")
        assert stored is not None
        assert (stored.lease_owner, stored.epoch) == ("second", taken.lease.epoch)

    def test_renewing_nothing_does_nothing(self, store: RunStore) -> None:
        assert store.renew_leases([], ttl=TTL) == Renewal()

    def test_many_leases_are_renewed_together(self, store: RunStore) -> None:
        leases = [leased(store, new_run(f"run-{n}"), ttl=0.0) for n in range(300)]
        assert store.renew_leases(leases, ttl=TTL) == Renewal()
        for lease in leases:
            stored = store.load_run(lease.run_id)
            assert stored is not None
            assert stored.lease_live
