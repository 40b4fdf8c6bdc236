"""Jobs: what puts a run to work in another thread, process or machine.

A job only says "look at this run": all truth is in the run store, so that a lost, a duplicated or
a late job is harmless.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from calandria.ports.run_store import JobRequest, TakenLease


class JobBackend(Protocol):
    """Carries jobs from those who cause them to the workers that perform them."""

    def enqueue(self, jobs: Sequence[JobRequest]) -> None:
        """Have a worker look at each of these runs, no sooner than its delay allows.

        Called after the commit that causes the jobs. Returns at once. May raise; the sweep then
        finds the runs.
        """
        ...

    def close(self) -> None:
        """Let go of connections; idempotent."""
        ...


@dataclass(frozen=True)
class Claim:
    """What a look at the job table found.

    `taken` is the run of a job that was due, its lease taken and the job gone, in one
    transaction. `next_due` says in how many seconds the next job after it is due; `None` if
    there is none. Beside a taken run it may be 0 for a job whose run is executing.
    """

    taken: TakenLease | None = None
    next_due: float | None = None


@dataclass(frozen=True)
class WorkerReport:
    """What a worker says of itself. Instants are seconds since 1970 by the wall clock."""

    owner: str
    host: str
    process: int
    threads: int
    started_at: float
    seen_at: float
    running: Sequence[str] = ()
    """The ids of the runs it executes."""
    performed: int = 0
    """How many jobs it has performed."""
    draining: bool = False


class JobStore(Protocol):
    """The job table of a SQL run store. Due times are by the store's own clock."""

    def claim_job(self, *, owner: str, ttl: float) -> Claim:
        """Take the lease of the run whose job is due longest, and delete the job, atomically.

        Jobs of runs with a live lease wait until it is released. Of many claimers each gets
        another job. A claimer that dies leaves a lease that lapses, for the sweep to find.
        """
        ...

    def sweep(self, *, pending_after: float, now: float) -> int:
        """Give a job to every run that lost its owner or its job; return how many.

        Those are: `running` or `rolling_back` runs that wait for nothing and whose lease has
        lapsed; runs whose wait is overdue, or is for spawned units that have all settled;
        `pending` runs older than `pending_after` seconds. `now` is the wall clock, for waits and
        ages. Never a run with a live lease, a `paused` one, or one that has ended.
        """
        ...

    def report_worker(self, report: WorkerReport) -> None:
        """Store what a worker says of itself, replacing what it said before."""
        ...

    def remove_worker(self, owner: str) -> None:
        """Forget a worker that has ended."""
        ...

    def list_workers(self) -> Sequence[WorkerReport]:
        """Return the reports of all workers, the one seen last first."""
        ...
