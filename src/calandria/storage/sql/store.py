"""The run store on a SQL database: each method is one transaction of named statements."""

from __future__ import annotations

import heapq
import json
from collections.abc import Sequence
from itertools import islice

from calandria.errors import StaleLease, StorageError
from calandria.ports.run_store import (
    Capabilities,
    Changes,
    Event,
    KeyedRun,
    Lease,
    NewRun,
    Renewal,
    RunCursor,
    RunFilter,
    StepRecord,
    StoredRun,
    TakenLease,
)
from calandria.statuses import FINISHED, StepStatus
from calandria.storage.sql import rows, schema
from calandria.storage.sql.coordination import SqlCoordination, write_coordination
from calandria.storage.sql.database import Database, Session
from calandria.storage.sql.job_table import JobTable, add_job
from calandria.storage.sql.listing import listing_queries
from calandria.storage.sql.pruning import prune
from calandria.storage.sql.schema import Migration, load_migrations
from calandria.storage.sql.statements import STATEMENTS, Value

_NO_UPPER_POSITION = 2**62

_FENCE = STATEMENTS["fence"]
_RELEASE_LEASE = STATEMENTS["release_lease"]
_WRITE_HEADER = STATEMENTS["write_header"]
_WRITE_STANDING = STATEMENTS["write_standing"]
_WRITE_OUTCOME = STATEMENTS["write_outcome"]
_WRITE_STEP = STATEMENTS["write_step"]
_UPDATE_STEP = STATEMENTS["update_step"]
_APPEND_EVENT = STATEMENTS["append_event"]


class SqlRunStore:
    """Keeps runs in a SQL database. See `RunStore` for what each method promises.

    Args:
        database: the connections; closed by `close`.
        migrations: the schema to expect; this version's by default.
    """

    def __init__(self, database: Database, migrations: Sequence[Migration] | None = None) -> None:
        self._database = database
        self._migrations = load_migrations() if migrations is None else tuple(migrations)
        self.jobs = JobTable(database)
        """The job table; see `JobStore`."""
        self.coordination = SqlCoordination(database)
        """Holds, windows, marks and sequences; see `CoordinationStore`."""

    @property
    def capabilities(self) -> Capabilities:
        """What this back end can do beyond the contract."""
        return self._database.capabilities

    def prepare(self) -> None:
        """Make a new storage ready, or check that an existing one has this version's schema."""
        schema.prepare(self._database, self._migrations)

    def migrate(self) -> Sequence[int]:
        """Bring an older schema up to date; return the numbers of the migrations applied."""
        return schema.migrate(self._database, self._migrations)

    def create_run(
        self, run: NewRun, changes: Changes, *, owner: str | None, ttl: float
    ) -> Lease | KeyedRun | None:
        """Create a run with its first records, or return what is known of its used key."""
        values = rows.run_values(run)
        with self._database.write(urgent=owner is None) as session:
            if run.idempotency_key is not None and not session.execute(
                STATEMENTS["reserve_key"], values
            ):
                return _find_key(session, run.reactor, run.idempotency_key)
            values |= rows.header_values(changes.header or run.header)
            values |= session.lease_time
            values |= {"owner": owner, "ttl": ttl, "now": changes.now or run.created_at}
            values["epoch"] = 0 if owner is None else 1
            session.execute(STATEMENTS["insert_run"], values)
            session.execute(STATEMENTS["insert_run_values"], values)
            _write_journal(session, run.id, changes)
            _write_jobs(session, changes)
            if changes.coordination is not None:
                write_coordination(session, run.id, changes.coordination)
        return None if owner is None else Lease(run.id, owner, 1)

    def take_lease(self, run_id: str, *, owner: str, ttl: float) -> TakenLease | StoredRun | None:
        """Take the run's lease if it is free or has lapsed, raising the epoch by one."""
        with self._database.write() as session:
            values = session.lease_time | {"run_id": run_id, "owner": owner, "ttl": ttl}
            before = session.row(STATEMENTS["lease_owner"], values)
            taken = session.row(STATEMENTS["take_lease"], values)
            stored = _load_run(session, run_id)
        if taken is None or stored is None:
            return stored
        epoch, last_sequence = taken
        abandoned = before is not None and before[0] is not None
        return TakenLease(Lease(run_id, owner, epoch), stored, last_sequence, abandoned)

    def renew_leases(self, leases: Sequence[Lease], *, ttl: float) -> Renewal:
        """Extend leases by `ttl` seconds from now, in one transaction."""
        if not leases:
            return Renewal()
        lost, cancelled = set[str](), set[str]()
        # after a power cut every lease has lapsed, whatever it was extended to
        with self._database.write(lasting=False) as session:
            values = session.lease_time | {"ttl": ttl}
            for lease in leases:
                values |= {"run_id": lease.run_id, "epoch": lease.epoch, "owner": lease.owner}
                renewed = session.row(STATEMENTS["renew_lease"], values)
                if renewed is None:
                    lost.add(lease.run_id)
                elif renewed[0] is not None:
                    cancelled.add(lease.run_id)
        return Renewal(frozenset(lost), frozenset(cancelled))

    def commit(self, lease: Lease, changes: Changes) -> str | None:
        """Write `changes`, all or nothing, if the lease's epoch is still the run's."""
        with self._database.write() as session:
            reason = _write_run(session, lease, changes)
            _write_journal(session, lease.run_id, changes)
            if changes.jobs or changes.children:
                _write_jobs(session, changes)
            if changes.coordination is not None:
                write_coordination(session, lease.run_id, changes.coordination)
        return reason

    def load_run(self, run_id: str) -> StoredRun | None:
        """Return a run's record, or `None`."""
        with self._database.read() as session:
            return _load_run(session, run_id)

    def read_step(self, run_id: str, path: str) -> StepRecord | None:
        """Return the record of one step, or `None` if it was not reached."""
        with self._database.read() as session:
            row = session.row(STATEMENTS["read_step"], {"run_id": run_id, "path": path})
        return None if row is None else rows.step_record(row)

    def read_steps(
        self,
        run_id: str,
        scope: str,
        *,
        after: int = -1,
        before: int | None = None,
        statuses: frozenset[StepStatus] = frozenset(),
        descending: bool = False,
        limit: int = 1000,
    ) -> Sequence[StepRecord]:
        """Return records directly in `scope`, by position, at most `limit` of them."""
        values: dict[str, Value] = {
            "run_id": run_id,
            "scope": scope,
            "after": after,
            "before": _NO_UPPER_POSITION if before is None else before,
            "limit": limit,
        }
        name = "read_steps"
        if statuses:
            name += "_with_status"
            values["statuses"] = json.dumps(sorted(status.value for status in statuses))
        if descending:
            name += "_descending"
        with self._database.read() as session:
            return [rows.step_record(row) for row in session.rows(STATEMENTS[name], values)]

    def read_events(self, run_id: str, *, after: int = 0, limit: int = 1000) -> Sequence[Event]:
        """Return the trace from the event after `after` on, in order of sequence."""
        values: dict[str, Value] = {"run_id": run_id, "after": after, "limit": limit}
        with self._database.read() as session:
            return [rows.event(row) for row in session.rows(STATEMENTS["read_events"], values)]

    def list_runs(
        self, where: RunFilter, *, after: RunCursor | None = None, limit: int = 100
    ) -> Sequence[StoredRun]:
        """Return runs, newest first (by creation, then by id), from the cursor on."""
        with self._database.read() as session:
            clock = session.lease_time
            found = [
                [rows.stored_run(row) for row in session.rows(query, values | clock)]
                for query, values in listing_queries(where, after, limit)
            ]
        newest_first = heapq.merge(*found, key=_listing_place, reverse=True)
        return list(islice(newest_first, limit))

    def find_key(self, reactor: str, idempotency_key: str) -> KeyedRun | None:
        """Return what is known of an idempotency key, or `None` if it was never used."""
        with self._database.read() as session:
            return _find_key(session, reactor, idempotency_key)

    def request_cancel(self, run_id: str, reason: str) -> StoredRun | None:
        """Ask the run's owner to cancel it; the first reason given stays."""
        with self._database.write(urgent=True) as session:
            session.execute(STATEMENTS["request_cancel"], {"run_id": run_id, "reason": reason})
            return _load_run(session, run_id)

    def prune(self, *, finished_before: float, limit: int = 1000) -> int:
        """Delete finished top-level runs with everything of theirs; return how many."""
        return prune(self._database, finished_before, limit)

    def close(self) -> None:
        """Release every connection; idempotent."""
        self._database.close()


def _write_run(session: Session, lease: Lease, changes: Changes) -> str | None:
    values: dict[str, Value] = {"run_id": lease.run_id, "epoch": lease.epoch}
    fenced = session.row(_FENCE, values)
    if fenced is None:
        raise StaleLease(
            f"Run {lease.run_id}: the lease of {lease.owner} (epoch {lease.epoch}) was taken over, "
            "or the run is gone. Nothing was recorded; stop working on it."
        )
    cancel_requested: str | None = fenced[0]
    if changes.header is not None:
        ended = changes.header.status in FINISHED
        values |= rows.header_values(changes.header)
        values |= {"now": changes.now, "release": changes.release, "ended": ended}
        session.execute(_WRITE_HEADER, values)
        session.execute(_WRITE_STANDING, values)
        session.execute(_WRITE_OUTCOME, values)
        return None if ended else cancel_requested
    if changes.release:
        values["now"] = changes.now
        session.execute(_RELEASE_LEASE, values)
    return cancel_requested


def _write_journal(session: Session, run_id: str, changes: Changes) -> None:
    for step in changes.steps:
        session.execute(_WRITE_STEP, rows.step_values(run_id, step))
    for update in changes.updates:
        values = rows.progress_values(update.progress)
        values["run_id"] = run_id
        values["path"] = update.path
        if not session.execute(_UPDATE_STEP, values):
            raise StorageError(
                f"Run {run_id}: step {update.path} has no record to update; write it whole first."
            )
    session.execute_many(
        _APPEND_EVENT, [rows.event_values(run_id, event) for event in changes.events]
    )


def _write_jobs(session: Session, changes: Changes) -> None:
    for child in changes.children:
        values = rows.run_values(child) | rows.header_values(child.header)
        if session.execute(STATEMENTS["insert_child"], values):
            session.execute(STATEMENTS["insert_run_values"], values)
    for job in changes.jobs:
        add_job(session, job)


def _load_run(session: Session, run_id: str) -> StoredRun | None:
    row = session.row(STATEMENTS["load_run"], session.lease_time | {"run_id": run_id})
    return None if row is None else rows.stored_run(row)


def _find_key(session: Session, reactor: str, idempotency_key: str) -> KeyedRun | None:
    values: dict[str, Value] = {"reactor": reactor, "idempotency_key": idempotency_key}
    row = session.row(STATEMENTS["find_key"], values)
    return None if row is None else rows.keyed_run(row)


def _listing_place(stored: StoredRun) -> tuple[float, str]:
    return stored.run.created_at, stored.run.id
