"""The run store: where runs and their journals are kept. One protocol, any number of back ends.

Every write of a run's state goes through `commit`, is atomic, and names the epoch of the lease it
was made under; the store refuses an older epoch. Values are text that the codec made: a store
never looks inside. Instants are seconds since 1970 by the wall clock and are data only. Leases
are timed by the store's own clock, which no caller can move.

What every commit is made of is not frozen, though nobody changes it: freezing a record doubles the
cost of making it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from calandria.ports.coordination import AcquireRequest, PeriodMark, TurnEnd
from calandria.statuses import RollbackState, RunStatus, StepRollback, StepStatus


@dataclass(frozen=True)
class RunHeader:
    """The part of a run's record that changes as it goes on; each commit may replace it whole."""

    status: RunStatus
    rollback: RollbackState = RollbackState.NONE
    trigger: str | None = None
    """What set off the rollback in progress: `failure` or `undo`."""
    end_status: RunStatus | None = None
    """The status the run will have once its rollback is over."""
    outcome: str | None = None
    """The encoded result of a finished run, or the failure of one that is rolling back."""
    pending_compensation: str | None = None
    """The path of a step whose compensate is still to run, on a run that stopped before it."""
    waits_for: str | None = None
    wake_at: float | None = None
    finished_at: float | None = None


@dataclass(frozen=True)
class NewRun:
    """A run to be created."""

    id: str
    reactor: str
    shape: str
    """A digest of the definition the run began with."""
    inputs: str
    header: RunHeader
    created_at: float
    root_id: str
    parent_id: str | None = None
    parent_path: str | None = None
    idempotency_key: str | None = None
    inputs_digest: str | None = None
    correlation_id: str | None = None
    outline: str = ""
    """What tells which steps of the definition changed once `shape` differs; may be large."""


@dataclass(frozen=True)
class StoredRun:
    """A run as read back, its lease seen by the store's clock at the moment of reading."""

    run: NewRun
    epoch: int
    lease_owner: str | None
    lease_live: bool
    cancel_requested: str | None
    """The reason given by a cancel that the owner has not applied yet."""
    updated_at: float
    """When its header or its lease's release was last written, or its last event happened."""

    @property
    def header(self) -> RunHeader:
        """The changing part of the record."""
        return self.run.header


@dataclass(slots=True)
class StepProgress:
    """The part of a step's record that changes."""

    status: StepStatus
    attempts: int = 0
    """The number of the current or last attempt, from 1; 0 where none started."""
    recoveries: int = 0
    """How often the current action was taken up again after a crash."""
    completed_order: int | None = None
    """The place in the run's order of completions; `None` where nothing was completed."""
    result: str | None = None
    """Encoded; `None` in a commit leaves what is stored."""
    error: str | None = None
    """The encoded failure; `None` in a commit leaves what is stored."""
    rollback: StepRollback = StepRollback.NONE
    rollback_attempts: int = 0
    rollback_error: str | None = None
    """The encoded rollback failure; `None` in a commit leaves what is stored."""
    due_at: float | None = None
    """When a retry is due, by the wall clock."""
    nested: bool = False
    """Its body did nested work, which is recorded below it and rolled back with it."""
    finished_at: float | None = None


@dataclass(slots=True)
class StepRecord:
    """One step of a run.

    `path` is unique in the run (`charge`, `booking/confirm`, `refunds[17]/charge`). `scope` is the
    path of what directly contains it: empty at the top, `booking`, `refunds[17]`; for an element
    (`refunds[17]`) the map (`refunds`). `position` is its place there: the element's index, or the
    step's place in its reactor.
    """

    path: str
    scope: str
    position: int
    inputs: str | None
    started_at: float
    progress: StepProgress


@dataclass(slots=True)
class StepUpdate:
    """A change to a step already recorded: everything in `progress` replaces what was there."""

    path: str
    progress: StepProgress


@dataclass(slots=True)
class Event:
    """One line of a run's trace.

    `sequence` rises within a run, from 1. Concurrent work that a crash cut off may leave a gap.
    """

    sequence: int
    at: float
    kind: str
    path: str | None = None
    data: str | None = None


@dataclass(frozen=True)
class JobRequest:
    """A run that a worker is to look at, in `delay` seconds; an earlier job for it stays."""

    run_id: str
    delay: float = 0.0


@dataclass(frozen=True)
class CoordinationChanges:
    """What a commit changes of its run's coordination, for a store that keeps both.

    `releases` are paths that let go of everything they hold, `unmarks` paths whose period marks
    are taken away; with `unmark_all_but` the run's marks go but those of these paths.
    `extend_holds` lets all holds of the run last that many seconds from now. With `ends` the run is
    over: it lets go of whatever it still holds, its open positions are done, it waits for nothing.
    `positions` are requests whose executions get their places in ordered sequences.
    """

    releases: Sequence[str] = ()
    marks: Sequence[PeriodMark] = ()
    unmarks: Sequence[str] = ()
    unmark_all_but: Sequence[str] | None = None
    turn_ends: Sequence[TurnEnd] = ()
    extend_holds: float | None = None
    now: float = 0.0
    ends: bool = False
    positions: Sequence[AcquireRequest] = ()


@dataclass(slots=True)
class Changes:
    """What one commit writes. `release` lets go of the lease in the same commit.

    `steps` are written whole, replacing a record with the same path; `updates` touch only the
    changing part. `now` is the wall clock, noted with a header or a release.
    """

    header: RunHeader | None = None
    steps: Sequence[StepRecord] = ()
    updates: Sequence[StepUpdate] = ()
    events: Sequence[Event] = ()
    release: bool = False
    now: float = 0.0
    children: Sequence[NewRun] = ()
    """Runs created together with this commit, without a lease; one that exists is left alone."""
    jobs: Sequence[JobRequest] = ()
    """Jobs caused by this commit, for a store that keeps them itself."""
    coordination: CoordinationChanges | None = None


@dataclass(frozen=True)
class Lease:
    """The right to execute a run until it lapses; `epoch` fences every write made under it."""

    run_id: str
    owner: str
    epoch: int


@dataclass(frozen=True)
class TakenLease:
    """A lease just taken, and the run as it stood at that moment."""

    lease: Lease
    stored: StoredRun
    last_sequence: int
    abandoned: bool = False
    """Whether the lease before it lapsed: its owner died, or was stopped, without letting go."""


@dataclass(frozen=True)
class KeyedRun:
    """What is known of an idempotency key. `outcome` is there once its run was pruned."""

    run_id: str
    inputs_digest: str
    status: RunStatus | None
    outcome: str | None


@dataclass(frozen=True)
class Renewal:
    """What a renewal found: runs whose lease was lost, and runs someone asked to cancel."""

    lost: frozenset[str] = frozenset()
    cancel_requested: frozenset[str] = frozenset()


@dataclass(frozen=True)
class RunFilter:
    """Which runs to list; every condition given must hold. Instants bound `created_at`."""

    reactor: str | None = None
    statuses: frozenset[RunStatus] = frozenset()
    needs_attention: bool = False
    """Incomplete rollbacks, aborted runs, and runs with a compensate still pending."""
    created_after: float | None = None
    created_before: float | None = None
    idempotency_key: str | None = None
    correlation_id: str | None = None
    parent_id: str | None = None
    """List this run's children; without it only top-level runs are listed."""
    every_level: bool = False
    """List runs that others dispatched among the top-level ones."""


@dataclass(frozen=True)
class RunCursor:
    """A place in a listing: the last run of the page before."""

    created_at: float
    run_id: str


@dataclass(frozen=True)
class Capabilities:
    """What a back end can do beyond the contract; declared, and tested, never guessed."""

    durable: bool = True
    """Survives the end of the process."""
    multi_process: bool = True
    """Several processes may use the same storage at once."""


class RunStore(Protocol):
    """Keeps runs. Every method is safe to call from many threads and processes at once.

    Any method raises `StorageError` when the storage cannot be reached, is read-only, full or
    damaged, naming the storage and what to do. Writes wait for one another; no caller is ever told
    that the storage is busy with another writer.
    """

    @property
    def capabilities(self) -> Capabilities:
        """What this back end can do beyond the contract."""
        ...

    def prepare(self) -> None:
        """Make a new storage ready, or check that an existing one has this version's schema.

        Idempotent; safe when many processes do it at once. Raises `SchemaOutdated` for an older
        schema (saying to run `calandria migrate`) or a newer one (saying to upgrade Calandria).
        """
        ...

    def migrate(self) -> Sequence[int]:
        """Bring an older schema up to date; return the numbers of the migrations applied."""
        ...

    def create_run(
        self, run: NewRun, changes: Changes, *, owner: str | None, ttl: float
    ) -> Lease | KeyedRun | None:
        """Create a run with its first records, in one transaction.

        With an `owner` the run is created under a lease of `ttl` seconds, epoch 1, which is
        returned; without, `None` is. If the run has an idempotency key that its reactor has used
        before, nothing is written and what is known of that key is returned.
        """
        ...

    def take_lease(self, run_id: str, *, owner: str, ttl: float) -> TakenLease | StoredRun | None:
        """Take the run's lease if it is free or has lapsed, raising the epoch by one.

        Atomic: of many takers exactly one wins. Returns the run as stored if its lease is live
        (even if the owner is the same), `None` if there is no such run.
        """
        ...

    def renew_leases(self, leases: Sequence[Lease], *, ttl: float) -> Renewal:
        """Extend leases by `ttl` seconds from now; idempotent.

        A lease is lost when its run has a newer epoch, another owner, or is gone. One that lapsed
        but was not taken by anyone is simply extended.
        """
        ...

    def commit(self, lease: Lease, changes: Changes) -> str | None:
        """Write `changes`, all or nothing, if the lease's epoch is still the run's.

        Returns the reason of a cancel that was requested and not yet applied, else `None`. A
        commit whose header ends the run clears such a request. Raises `StaleLease`, having written
        nothing, when the run has a newer epoch or is gone.
        """
        ...

    def load_run(self, run_id: str) -> StoredRun | None:
        """Return a run's record, or `None`."""
        ...

    def read_step(self, run_id: str, path: str) -> StepRecord | None:
        """Return the record of one step, or `None` if it was not reached."""
        ...

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
        """Return records directly in `scope`, by position, at most `limit` of them.

        Only positions greater than `after`, and less than `before` where given; with `statuses`,
        only those. `descending` turns the order round: highest position first.
        """
        ...

    def read_events(self, run_id: str, *, after: int = 0, limit: int = 1000) -> Sequence[Event]:
        """Return the trace from the event after `after` on, in order of sequence."""
        ...

    def list_runs(
        self, where: RunFilter, *, after: RunCursor | None = None, limit: int = 100
    ) -> Sequence[StoredRun]:
        """Return runs, newest first (by creation, then by id), from the cursor on."""
        ...

    def find_key(self, reactor: str, idempotency_key: str) -> KeyedRun | None:
        """Return what is known of an idempotency key, or `None` if it was never used."""
        ...

    def request_cancel(self, run_id: str, reason: str) -> StoredRun | None:
        """Ask the run's owner to cancel it; the first reason given stays.

        Refused silently on a run that is finished or rolling back: the returned record, read in
        the same transaction, tells. `None` if there is no such run.
        """
        ...

    def prune(self, *, finished_before: float, limit: int = 1000) -> int:
        """Delete finished top-level runs with everything of theirs; return how many.

        At most `limit`, oldest first, each with its tree in one transaction. Never deletes an
        aborted run, or one with an incomplete rollback or a pending compensate. Idempotency keys
        are kept, with the run's outcome in them.
        """
        ...

    def close(self) -> None:
        """Release every connection; idempotent. Any later call raises `StorageError`."""
        ...
