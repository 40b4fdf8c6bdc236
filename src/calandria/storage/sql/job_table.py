"""The job table: which run is to be looked at, and when; and who looks."""

from __future__ import annotations

import json
from collections.abc import Sequence

from calandria.ports.jobs import Claim, WorkerReport
from calandria.ports.run_store import JobRequest, Lease, TakenLease
from calandria.statuses import FINISHED, RunStatus
from calandria.storage.sql import rows
from calandria.storage.sql.database import Database, Row, Session
from calandria.storage.sql.statements import STATEMENTS, Value

LONGEST_SILENCE = 24 * 3600.0
"""Seconds after which a worker that says nothing is no longer listed."""

_LONGEST: dict[str, Value] = {"longest": 10 * 365 * 24 * 3600.0}
"""Seconds ahead after which a due time makes no sense."""


class JobTable:
    """Keeps jobs in the database of the runs. See `JobStore` for what each method promises."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._more_due = False
        """Whether the last claim of this process left a job that is due."""

    def claim_job(self, *, owner: str, ttl: float) -> Claim:
        """Take the lease of the run whose job is due longest, and delete the job, atomically."""
        if not self._more_due:
            # most looks find nothing: they must not stand in line with the writers
            with self._database.read() as session:
                time = session.lease_time
                if session.row(STATEMENTS["find_due_job"], time) is None:
                    return Claim(next_due=_next_due(session, time))
        claim = self._claim_due(owner, ttl)
        self._more_due = claim.next_due is not None and claim.next_due <= 0
        return claim

    def _claim_due(self, owner: str, ttl: float) -> Claim:
        # a claim that a power cut undoes leaves the job where it was, and nobody who works on it
        with self._database.write(lasting=False) as session:
            values = session.lease_time | {"owner": owner, "ttl": ttl}
            found = session.row(STATEMENTS["find_due_job"], values)
            if found is None:
                return Claim(next_due=_next_due(session, values))
            values["run_id"] = found[0]
            session.execute(STATEMENTS["delete_job"], values)
            if RunStatus(found[1]) in FINISHED:
                # a person who undoes it now must not find its lease taken
                return Claim(next_due=0.0)
            taken = session.row(STATEMENTS["take_lease"], values)
            row = session.row(STATEMENTS["load_run"], values)
            soonest = session.row(STATEMENTS["soonest_job"], values)
        if taken is None or row is None:
            return Claim(next_due=0.0)
        epoch, last_sequence = taken
        lease = Lease(found[0], owner, epoch)
        next_due = None if soonest is None or soonest[0] is None else max(soonest[0], 0.0)
        abandoned = found[2] is not None
        return Claim(TakenLease(lease, rows.stored_run(row), last_sequence, abandoned), next_due)

    def sweep(self, *, pending_after: float, now: float) -> int:
        """Give a job to every run that lost its owner or its job; return how many."""
        with self._database.write() as session:
            session.execute(STATEMENTS["delete_useless_jobs"], session.lease_time | _LONGEST)
            values = session.lease_time | {"pending_after": pending_after, "now": now}
            return session.execute(STATEMENTS["sweep"], values)

    def report_worker(self, report: WorkerReport) -> None:
        """Store what a worker says of itself, replacing what it said before."""
        values: dict[str, Value] = {
            "owner": report.owner,
            "host": report.host,
            "process": report.process,
            "threads": report.threads,
            "started_at": report.started_at,
            "seen_at": report.seen_at,
            "running": json.dumps(list(report.running)),
            "performed": report.performed,
            "draining": report.draining,
        }
        with self._database.write(lasting=False) as session:
            session.execute(STATEMENTS["report_worker"], values)
            silent = {"seen_before": report.seen_at - LONGEST_SILENCE}
            session.execute(STATEMENTS["forget_workers"], silent)

    def remove_worker(self, owner: str) -> None:
        """Forget a worker that has ended."""
        with self._database.write() as session:
            session.execute(STATEMENTS["remove_worker"], {"owner": owner})

    def list_workers(self) -> Sequence[WorkerReport]:
        """Return the reports of all workers, the one seen last first."""
        with self._database.read() as session:
            return [_report(row) for row in session.rows(STATEMENTS["list_workers"], {})]


def add_job(session: Session, job: JobRequest) -> None:
    """Add a job in the transaction that causes it."""
    values = session.lease_time | {"run_id": job.run_id, "delay": job.delay}
    session.execute(STATEMENTS["add_job"], values)


def _next_due(session: Session, values: dict[str, Value]) -> float | None:
    found = session.row(STATEMENTS["next_job"], values | _LONGEST)
    return None if found is None else found[0]


def _report(row: Row) -> WorkerReport:
    owner, host, process, threads, started_at, seen_at, running, performed, draining = row
    return WorkerReport(
        owner,
        host,
        process,
        threads,
        started_at,
        seen_at,
        tuple(json.loads(running)),
        performed,
        bool(draining),
    )
