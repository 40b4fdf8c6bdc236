"""Jobs kept by a run store: claimed once each, in the order they are due, lost by no one."""

# A test's name says what it claims.
# ruff: noqa: D102

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Protocol

import pytest

from calandria.ports.jobs import Claim, JobStore, WorkerReport
from calandria.ports.run_store import (
    Changes,
    JobRequest,
    Lease,
    NewRun,
    RunHeader,
    RunStore,
    TakenLease,
)
from calandria.statuses import FINISHED, RunStatus
from calandria.testing.conformance import racers
from calandria.testing.conformance.harness import (
    NOW,
    TTL,
    StoreFactory,
    StoreTests,
    eventually,
    leased,
    new_run,
)
from calandria.testing.conformance.races import race, ways

WAITING = RunHeader(RunStatus.RUNNING, waits_for="retry charge", wake_at=NOW + 60)
PENDING = RunHeader(RunStatus.PENDING)


class KeepsJobs(RunStore, Protocol):
    """A run store with a job table."""

    @property
    def jobs(self) -> JobStore:
        """The job table."""
        ...


def enqueued(store: RunStore, *run_ids: str, delay: float = 0.0) -> None:
    """Create pending runs with a job each, in this order."""
    for run_id in run_ids:
        changes = Changes(jobs=[JobRequest(run_id, delay)], now=NOW)
        store.create_run(new_run(run_id, header=PENDING), changes, owner=None, ttl=TTL)


def put_down(store: RunStore, run: NewRun, header: RunHeader, *jobs: JobRequest) -> None:
    """Create a run and give its lease back with this header and these jobs."""
    store.commit(leased(store, run), Changes(header=header, jobs=jobs, release=True, now=NOW))


def claim(store: KeepsJobs, ttl: float = TTL) -> Claim:
    """Look for a job."""
    return store.jobs.claim_job(owner="worker", ttl=ttl)


def claimed(store: KeepsJobs) -> list[str]:
    """Claim every job that is due; return the ids of their runs in that order."""
    found: list[str] = []
    while (got := claim(store)).taken is not None:
        found.append(got.taken.lease.run_id)
    return found


def sweep(store: KeepsJobs, *, now: float = NOW, pending_after: float = 30) -> list[str]:
    """Sweep once; return the runs that were given a job."""
    count = store.jobs.sweep(pending_after=pending_after, now=now)
    found = claimed(store)
    assert count == len(found)
    return found


class ClaimingConformance(StoreTests):
    """What `claim_job`, and jobs in a commit, promise."""

    def test_a_claim_takes_the_lease_and_the_job(self, store: KeepsJobs, other: KeepsJobs) -> None:
        enqueued(store, "run-1")
        taken = claim(other).taken
        assert isinstance(taken, TakenLease) and not taken.abandoned
        assert taken.lease == Lease("run-1", "worker", 1)
        assert (taken.stored.lease_owner, taken.stored.lease_live) == ("worker", True)
        assert taken.stored.header == PENDING
        assert claim(store) == Claim(None, None)

    def test_jobs_are_claimed_in_the_order_they_are_due(self, store: KeepsJobs) -> None:
        enqueued(store, "c", "a", "b")
        assert claimed(store) == ["c", "a", "b"]

    def test_a_job_is_not_claimed_before_it_is_due(self, store: KeepsJobs) -> None:
        enqueued(store, "later", delay=500)
        enqueued(store, "sooner", delay=100)
        found = claim(store)
        assert found.taken is None
        assert found.next_due is not None and 95 < found.next_due <= 100

    def test_a_due_time_is_kept_to_the_millisecond(self, store: KeepsJobs) -> None:
        enqueued(store, "run-1", delay=100.0005)
        first = claim(store).next_due
        assert first is not None
        enqueued(store, "run-2", delay=first - 1)
        second = claim(store).next_due
        assert second is not None and 98 < second <= first - 1

    def test_a_job_becomes_due(self, store: KeepsJobs) -> None:
        enqueued(store, "run-1", delay=0.05)
        assert eventually(lambda: claim(store).taken).lease.run_id == "run-1"

    def test_of_two_jobs_for_a_run_the_sooner_stays(self, store: KeepsJobs) -> None:
        for first, second in ((0.0, 600.0), (600.0, 0.0)):
            run_id = f"run {first}"
            jobs = [JobRequest(run_id, first), JobRequest(run_id, second)]
            put_down(store, new_run(run_id), WAITING, *jobs)
            assert claimed(store) == [run_id]
        assert claim(store) == Claim(None, None)

    def test_a_job_of_a_live_run_waits_for_its_lease(
        self, store: KeepsJobs, other: KeepsJobs
    ) -> None:
        lease = leased(store)
        store.commit(lease, Changes(jobs=[JobRequest("run-1")], now=NOW))
        assert claim(other).taken is None
        store.commit(lease, Changes(header=WAITING, release=True, now=NOW))
        taken = claim(other).taken
        assert taken is not None and taken.lease.epoch == 2

    def test_a_job_of_a_lapsed_lease_is_claimed(self, store: KeepsJobs) -> None:
        lease = leased(store, ttl=0)
        store.commit(lease, Changes(jobs=[JobRequest("run-1")], now=NOW))
        taken = claim(store).taken
        assert taken is not None and taken.lease.run_id == "run-1"
        assert taken.abandoned

    def test_a_live_run_does_not_keep_others_from_being_claimed(self, store: KeepsJobs) -> None:
        lease = leased(store, new_run("live"))
        store.commit(lease, Changes(jobs=[JobRequest("live")], now=NOW))
        enqueued(store, "free")
        assert claimed(store) == ["free"]

    @pytest.mark.parametrize("status", sorted(FINISHED))
    def test_a_job_of_a_run_that_has_ended_is_dropped(
        self, store: KeepsJobs, status: RunStatus
    ) -> None:
        put_down(store, new_run(), RunHeader(status, finished_at=NOW), JobRequest("run-1"))
        assert claim(store).taken is None
        assert claim(store) == Claim(None, None)
        stored = store.load_run("run-1")
        assert stored is not None and (stored.epoch, stored.lease_owner) == (1, None)

    def test_a_job_is_stored_with_the_commit_or_not_at_all(self, store: KeepsJobs) -> None:
        stale = leased(store, ttl=0)
        taken = store.take_lease("run-1", owner="second", ttl=0)
        assert isinstance(taken, TakenLease)
        with pytest.raises(Exception, match="taken over"):
            store.commit(stale, Changes(jobs=[JobRequest("run-1")], now=NOW))
        assert claim(store) == Claim(None, None)

    def test_a_child_is_created_with_its_job_and_only_once(self, store: KeepsJobs) -> None:
        lease = leased(store)
        child = new_run("child", header=PENDING, parent_id="run-1")
        store.commit(lease, Changes(children=[child], jobs=[JobRequest("child")], now=NOW))
        again = dataclasses.replace(child, inputs='{"order_id":"another"}')
        store.commit(lease, Changes(children=[again], now=NOW))
        taken = claim(store).taken
        assert taken is not None and taken.stored.run == child

    def test_claims_are_disjoint(self, store: KeepsJobs, store_factory: StoreFactory) -> None:
        for processes in ways(store):
            run_ids = [f"run {processes} {number}" for number in range(25)]
            enqueued(store, *run_ids)
            found = race(store_factory, racers.claim_all, processes=processes)
            assert sorted(run_id for won in found for run_id in won) == sorted(run_ids)


class SweepingConformance(StoreTests):
    """What `sweep` finds: the table in the documentation, row by row."""

    def test_a_pending_run_without_a_job_once_it_is_old(self, store: KeepsJobs) -> None:
        store.create_run(new_run(header=PENDING), Changes(now=NOW), owner=None, ttl=TTL)
        assert sweep(store, now=NOW + 29) == []
        assert sweep(store, now=NOW + 31) == ["run-1"]

    def test_a_run_that_has_a_job_is_given_no_other(self, store: KeepsJobs) -> None:
        enqueued(store, "run-1", delay=600)
        assert sweep(store, now=NOW + 1000) == []

    @pytest.mark.parametrize("status", [RunStatus.RUNNING, RunStatus.ROLLING_BACK])
    def test_a_live_run_is_never_touched(self, store: KeepsJobs, status: RunStatus) -> None:
        leased(store, new_run(header=RunHeader(status)))
        assert sweep(store, now=NOW + 10**6) == []

    @pytest.mark.parametrize("status", [RunStatus.RUNNING, RunStatus.ROLLING_BACK])
    def test_a_run_whose_lease_lapsed(self, store: KeepsJobs, status: RunStatus) -> None:
        leased(store, new_run(header=RunHeader(status)), ttl=0)
        assert sweep(store) == ["run-1"]

    @pytest.mark.parametrize("status", [RunStatus.RUNNING, RunStatus.ROLLING_BACK])
    def test_a_run_that_was_put_down_and_lost_its_job(
        self, store: KeepsJobs, status: RunStatus
    ) -> None:
        put_down(store, new_run(), RunHeader(status))
        assert sweep(store, now=NOW + 29) == []
        assert sweep(store, now=NOW + 31) == ["run-1"]

    def test_a_wait_once_it_is_overdue(self, store: KeepsJobs) -> None:
        put_down(store, new_run(), WAITING)
        assert sweep(store, now=NOW + 59) == []
        assert sweep(store, now=NOW + 91) == ["run-1"]

    def test_a_wait_for_units_once_all_have_settled(self, store: KeepsJobs) -> None:
        waits = RunHeader(RunStatus.RUNNING, waits_for="unit a, unit b/c", wake_at=NOW + 10**6)
        put_down(store, new_run(), waits)
        leases: dict[str, Lease] = {}
        # `d` is spawned too, and read by no one
        for path in ("a", "b/c", "d"):
            child = dataclasses.replace(new_run(path, parent_id="run-1"), parent_path=path)
            leases[path] = leased(store, child)
        assert sweep(store) == []
        done = RunHeader(RunStatus.COMPLETED, finished_at=NOW)
        store.commit(leases["a"], Changes(header=done, release=True, now=NOW))
        assert sweep(store) == []
        store.commit(leases["b/c"], Changes(header=done, release=True, now=NOW))
        assert sweep(store) == ["run-1"]

    def test_a_wait_for_a_reactor_that_no_worker_knew(self, store: KeepsJobs) -> None:
        waits = RunHeader(RunStatus.PENDING, waits_for="reactor shop:Old", wake_at=NOW + 10)
        put_down(store, new_run(), waits)
        assert sweep(store, now=NOW + 41) == ["run-1"]

    @pytest.mark.parametrize("status", sorted({RunStatus.PAUSED, *FINISHED}))
    def test_a_paused_or_ended_run_never(self, store: KeepsJobs, status: RunStatus) -> None:
        put_down(store, new_run("put down"), RunHeader(status))
        leased(store, new_run("lapsed", header=RunHeader(status)), ttl=0)
        assert store.jobs.sweep(pending_after=0, now=NOW + 10**6) == 0

    def test_jobs_of_runs_that_are_gone_are_cleared_away(self, store: KeepsJobs) -> None:
        ended = RunHeader(RunStatus.COMPLETED, finished_at=NOW)
        put_down(store, new_run(), ended, JobRequest("run-1", 100), JobRequest("nothing", 100))
        assert store.prune(finished_before=NOW + 1) == 1
        assert store.jobs.sweep(pending_after=0, now=NOW) == 0
        assert claim(store) == Claim(None, None)


class WorkersConformance(StoreTests):
    """What the reports of workers promise."""

    def test_a_report_is_kept_until_the_worker_ends(
        self, store: KeepsJobs, other: KeepsJobs
    ) -> None:
        store.jobs.report_worker(report("a", NOW))
        store.jobs.report_worker(report("b", NOW + 1, running=("run-1", "run-2"), draining=True))
        assert owners(other) == ["b", "a"]
        assert other.jobs.list_workers()[0] == report(
            "b", NOW + 1, running=("run-1", "run-2"), draining=True
        )
        store.jobs.remove_worker("b")
        store.jobs.remove_worker("never there")
        assert owners(other) == ["a"]

    def test_a_later_report_replaces_the_one_before(self, store: KeepsJobs) -> None:
        store.jobs.report_worker(report("a", NOW))
        store.jobs.report_worker(report("a", NOW + 10, performed=7))
        assert list(store.jobs.list_workers()) == [report("a", NOW + 10, performed=7)]

    def test_a_worker_that_died_is_forgotten_in_the_end(self, store: KeepsJobs) -> None:
        store.jobs.report_worker(report("dead", NOW))
        store.jobs.report_worker(report("living", NOW + 10**6))
        assert owners(store) == ["living"]


def owners(store: KeepsJobs) -> Sequence[str]:
    """Return the workers that are listed."""
    return [each.owner for each in store.jobs.list_workers()]


def report(
    owner: str,
    seen_at: float,
    *,
    running: tuple[str, ...] = (),
    performed: int = 0,
    draining: bool = False,
) -> WorkerReport:
    """Return what a worker says of itself."""
    return WorkerReport(
        owner, "host", 42, 4, NOW, seen_at, running, performed=performed, draining=draining
    )


class JobStoreConformance(ClaimingConformance, SweepingConformance, WorkersConformance):
    """Everything the job table of a run store promises."""
