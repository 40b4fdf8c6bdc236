"""Running, taking up and undoing runs: from a request to a lease, an execution, and a result."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import math
import random
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from calandria.definition.execution import RunOptions
from calandria.definition.node_definition import ReactorDefinition
from calandria.definition.reactors import Reactor
from calandria.engine.events import (
    Began,
    MapEvent,
    ReturnFailed,
    Stopped,
    Stopping,
    TakenUp,
    UndoAsked,
)
from calandria.engine.state import new_level
from calandria.errors import (
    CalandriaError,
    DecodingError,
    DefinitionError,
    EncodingError,
    IdempotencyConflict,
    KeyUnusable,
    RunBusy,
    RunStateError,
    StorageError,
    UnknownRun,
    ValidationError,
)
from calandria.ports.coordination import Hold
from calandria.ports.middleware import RunInfo
from calandria.ports.run_store import (
    Changes,
    CoordinationChanges,
    JobRequest,
    KeyedRun,
    Lease,
    NewRun,
    RunHeader,
    StoredRun,
    TakenLease,
)
from calandria.ports.run_store import Event as StoredEvent
from calandria.results import Dispatched, Failure, Halt, Result
from calandria.runtime import conclusion, crash_loops
from calandria.runtime.conclusion import Concluder
from calandria.runtime.coordinating import LONGEST_WAIT_IN_WORKER
from calandria.runtime.effects import Effect
from calandria.runtime.endings import LevelOutcome, Suspension, interrupted_in_worker
from calandria.runtime.environment import Environment
from calandria.runtime.execution import Execution
from calandria.runtime.fitting import Fit, fit_of
from calandria.runtime.gates import (
    describe_wait,
    halting_reason,
    positions_of,
    raise_contention,
)
from calandria.runtime.hold_notices import tell_entered, tell_parked
from calandria.runtime.identifiers import digest, new_run_id
from calandria.runtime.levels import ReactorLevel
from calandria.runtime.lookup import stored_name
from calandria.runtime.needs import Needs
from calandria.runtime.nested import plan_is_parallel
from calandria.runtime.observers import Observers
from calandria.runtime.outcomes import let_go
from calandria.runtime.outline import outline_text, read_outline
from calandria.runtime.reach import check_reach
from calandria.runtime.restoring import (
    DefinitionChanged,
    definition_changed,
    restore_reactor,
)
from calandria.runtime.session import Session
from calandria.runtime.stored_results import pruned_result
from calandria.runtime.units import stored_definition
from calandria.runtime.values import load_inputs, record_inputs, secrets_in, shown
from calandria.statuses import FINISHED, RunStatus

if TYPE_CHECKING:
    from calandria.runtime.runtime import Runtime

logger = logging.getLogger("calandria.run")

_GOING_BACK = FINISHED | {RunStatus.ROLLING_BACK, RunStatus.PAUSED}
"""Statuses from which a run that is taken up goes backward."""


_LEFT_TO_OTHERS = (DefinitionChanged, DecodingError)
"""What keeps a worker from going on with a run; one with another version may be able to."""


MOST_NOTED = 10_000


class KeyTaken(Exception):
    """The idempotency key of a run that was about to be created belongs to another run."""

    def __init__(self, keyed: KeyedRun) -> None:
        super().__init__(keyed.run_id)
        self.keyed = keyed


@dataclass(eq=False)
class Job:
    """An execution ready to be driven, under its session."""

    environment: Environment
    execution: Execution
    parallel: bool
    concluder: Concluder
    inputs_digest: str = ""
    needs: Needs | None = None
    """What its reactor declares, if anything."""


def execute(
    environment: Environment, level: ReactorLevel, event: MapEvent
) -> Generator[Effect, Any, LevelOutcome | Suspension]:
    """Return the execution of nested work: a level that has no run of its own."""
    return Execution(environment, level, event).drive()


class Runner:
    """Runs reactors for a runtime."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._services = runtime.services
        self._gates = runtime.gates
        self._noted: set[tuple[str, str]] = set()
        """Runs whose changed definition was reported: once a process is enough."""

    # new runs

    def run(
        self, reactor: type[Reactor], values: dict[str, object], options: RunOptions
    ) -> Result[Any]:
        """Run a reactor in this thread and return what it came to."""
        begun = self._begin(reactor, values, options)
        if not isinstance(begun, Job):
            return begun
        try:
            return self._drive(begun)
        except KeyTaken as taken:
            return self._keyed(reactor, taken.keyed, begun.inputs_digest)

    async def arun(
        self, reactor: type[Reactor], values: dict[str, object], options: RunOptions
    ) -> Result[Any]:
        """Run a reactor on the running event loop and return what it came to."""
        blocks = options.idempotency_key is not None or reactor.definition().coordination
        if not blocks and not _starts_in_worker(reactor):
            begun = self._begin(reactor, values, options)
        else:
            begun = await self._runtime.in_thread(
                self._begin, reactor, values, options, undo=self._let_be
            )
        if not isinstance(begun, Job):
            return begun
        try:
            return await self._adrive(begun)
        except KeyTaken as taken:
            return await self._runtime.in_thread(
                self._keyed, reactor, taken.keyed, begun.inputs_digest
            )

    def _let_be(self, begun: Result[Any] | Job) -> None:
        """Let go of what a run took whose caller was cancelled before it began."""
        if isinstance(begun, Job):
            self._gates.leave(begun.environment.session)

    def _begin(
        self, reactor: type[Reactor], values: dict[str, object], options: RunOptions
    ) -> Result[Any] | Job:
        definition = reactor.definition()
        self._runtime.learn(definition)
        codec = self._services.codec
        try:
            validated = definition.contract.validate(values)
            text, seen = record_inputs(validated, codec)
            needs = self._gates.needs(definition, seen)
        except (ValidationError, EncodingError, KeyUnusable) as error:
            return Failure(
                str(error),
                retryable=False,
                exception=error,
                exception_class=type(error).__qualname__,
                reactor=definition.name,
                inputs=shown(dict(values), definition.contract.redacted),
                validation_errors=getattr(error, "errors", {}),
            )
        if not self._runtime.performs_here:
            check_reach(reactor)
        key = options.idempotency_key
        inputs_digest = "" if key is None else digest(text)
        name = stored_name(reactor)
        if key is not None:
            keyed = self._services.store.find_key(name, key)
            if keyed is not None:
                return self._keyed(reactor, keyed, inputs_digest)
        new_run = self._new_run(reactor, definition, options, text, inputs_digest)
        if _starts_in_worker(reactor):
            return self._dispatch(reactor, new_run, needs)
        session = self._creating_session(new_run)
        if needs is not None:
            let_in = False
            try:
                refused = self._gates.enter(session, needs)
                if refused is not None:
                    return self._gates.refusal(refused, needs, definition.name)
                let_in = True
            finally:
                if not let_in:
                    self._gates.hand_back(session.run_id, needs)
        redacted = definition.contract.redacted
        environment = self._environment(session, definition, seen, new_run, redacted)
        state = new_level(definition.plan, definition.plan.hand_off)
        level = ReactorLevel(definition, state, seen, redacted_inputs=redacted)
        concluder = Concluder(environment, definition)
        concluder.needs = needs
        execution = Execution(
            environment,
            level,
            Began(),
            begin_rollback=concluder.begin_rollback,
            conclude=concluder.conclude,
        )
        execution.journal.event("run.started")
        execution.journal.notice("lease_taken", environment.run)
        execution.journal.notice("run_started", environment.run)
        if needs is not None:
            tell_entered(execution.journal, environment.run, needs, session.holds.all())
        parallel = plan_is_parallel(definition.plan)
        return Job(environment, execution, parallel, concluder, inputs_digest)

    def _dispatch(
        self, reactor: type[Reactor], new_run: NewRun, needs: Needs | None
    ) -> Result[Any]:
        """Record a run for a worker to begin: nothing of it executes here."""
        new_run = conclusion.with_header(new_run, RunHeader(RunStatus.PENDING))
        now = new_run.created_at
        jobs = [JobRequest(new_run.id)]
        changes = Changes(
            events=[StoredEvent(1, now, "run.created")],
            jobs=jobs,
            now=now,
            coordination=positions_of(new_run.id, needs, now),
        )
        created = self._services.store.create_run(
            new_run, changes, owner=None, ttl=self._services.settings.lease_seconds
        )
        if isinstance(created, KeyedRun):
            return self._keyed(reactor, created, new_run.inputs_digest or "")
        self._runtime.enqueue(jobs)
        return Dispatched(new_run.id)

    def _new_run(
        self,
        reactor: type[Reactor],
        definition: ReactorDefinition,
        options: RunOptions,
        inputs: str,
        inputs_digest: str,
    ) -> NewRun:
        now = self._services.clock.now()
        run_id = new_run_id(now)
        return NewRun(
            id=run_id,
            reactor=stored_name(reactor),
            shape=definition.shape,
            inputs=inputs,
            header=RunHeader(RunStatus.RUNNING),
            created_at=now,
            root_id=run_id,
            idempotency_key=options.idempotency_key,
            inputs_digest=inputs_digest or None,
            correlation_id=options.correlation_id,
            outline=outline_text(definition),
        )

    def _creating_session(self, new_run: NewRun) -> Session:
        store, owner = self._services.store, self._runtime.owner
        ttl = self._services.settings.lease_seconds

        def create(changes: Changes) -> Lease:
            run = conclusion.with_header(new_run, changes.header)
            holder = None if changes.release else owner
            created = store.create_run(run, changes, owner=holder, ttl=ttl)
            if isinstance(created, KeyedRun):
                raise KeyTaken(created)
            return created if created is not None else Lease(run.id, owner, 0)

        return Session.creating(self._services, Lease(new_run.id, owner, 1), create)

    def _keyed(self, reactor: type[Reactor], keyed: KeyedRun, inputs_digest: str) -> Result[Any]:
        """Return what a call under a used idempotency key gets."""
        if keyed.inputs_digest != inputs_digest:
            raise IdempotencyConflict(
                f"{reactor.definition().name}: run {keyed.run_id} was started under this "
                "idempotency key with other inputs. Use a new key for a new piece of work."
            )
        stored = self._services.store.load_run(keyed.run_id)
        if stored is None:
            return pruned_result(keyed, self._services.codec)
        if stored.header.status in FINISHED or stored.header.status is RunStatus.PAUSED:
            return self._runtime.result_of(stored)
        if stored.lease_live or stored.lease_owner is None:
            # someone executes it, or it was put down in good order for a worker to go on with
            return Dispatched(keyed.run_id)
        try:
            return self.recover(reactor, keyed.run_id)
        except RunBusy:
            return Dispatched(keyed.run_id)

    # existing runs

    def recover(self, reactor: type[Reactor] | None, run_id: str) -> Result[Any]:
        """Take up a run whose process died, and return what it came to.

        A run that has ended, or is paused, is left as it is. Raises `UnknownRun`, or `RunBusy`
        while another process executes it.
        """
        stored = self._load(reactor, run_id)
        if stored.header.status in FINISHED or stored.header.status is RunStatus.PAUSED:
            return self._runtime.result_of(stored)
        definition = self._definition(reactor, stored)
        taken = self._take(reactor, run_id)
        status = taken.stored.header.status
        if status in FINISHED or status is RunStatus.PAUSED:
            self._release(taken.lease)
            return self._runtime.result_of(taken.stored)
        job = self._resume(definition, taken, self._going_on(taken))
        return self._enter_again(job, taken) or self._drive(job)

    def perform(self, taken: TakenLease, *, parks: bool = True) -> None:
        """Go on with a run that a worker has just taken, as far as it goes without waiting.

        A run that has ended or is paused is put down again; so is one whose reactor is not known
        here, to be looked at later by a worker that knows it.
        """
        status = taken.stored.header.status
        if status in FINISHED or status is RunStatus.PAUSED:
            self._release(taken.lease)
            return
        try:
            definition = stored_definition(taken.stored.run.reactor)
        except DefinitionError as error:
            self._put_down(taken, f"definition {taken.stored.run.reactor}", str(error))
            return
        if definition is None:
            self._put_down(taken, f"reactor {taken.stored.run.reactor}", "it is not loaded here")
            return
        try:
            job = self._resume(definition, taken, self._going_on(taken), parks=parks)
        except _LEFT_TO_OTHERS as error:
            self._put_down(taken, f"definition {taken.stored.run.reactor}", str(error))
            return
        if not self._pass_gates(job, taken, parks=parks):
            return
        self._drive(job)
        interruption = job.environment.session.interruption
        if interruption is not None:
            logger.warning(
                "event=run.interrupted run=%s by=%r detail=%r",
                taken.lease.run_id,
                interruption,
                "left for another attempt",
            )

    def _enter_again(self, job: Job, taken: TakenLease) -> Halt | None:
        """Take what the run's reactor declares again; a `Halt` is the end of the run.

        Raises `ContentionError`, the lease let go.
        """
        if job.needs is None:
            return None
        backward = taken.stored.header.status in _GOING_BACK
        admitted = _admitted(taken)
        try:
            refused = self._gates.enter(
                job.environment.session, job.needs, backward=backward, admitted=admitted
            )
            reason = None if refused is None else halting_reason(refused)
            if refused is not None and reason is None:
                raise_contention(refused, job.needs, job.environment.run.reactor)
        except BaseException:
            self._release(taken.lease)
            raise
        if reason is not None:
            self._conclude_at_gates(job, taken, Halt(reason))
            return Halt(reason, run_id=taken.lease.run_id)
        if not admitted:
            self._tell_entered(job, job.needs)
        return None

    @staticmethod
    def _tell_entered(job: Job, needs: Needs) -> None:
        environment = job.environment
        tell_entered(job.execution.journal, environment.run, needs, environment.session.holds.all())

    def _pass_gates(self, job: Job, taken: TakenLease, *, parks: bool) -> bool:
        """Take what the run's reactor declares, in a worker; false if the run was put down."""
        if job.needs is None:
            return True
        session, header = job.environment.session, taken.stored.header
        backward = header.status is RunStatus.ROLLING_BACK
        longest = LONGEST_WAIT_IN_WORKER if parks else math.inf
        # a run that has begun is never failed for waiting at its own gates
        admitted = _admitted(taken)
        refused = self._gates.enter(
            session, job.needs, longest_wait=longest, backward=backward, admitted=admitted
        )
        if refused is None:
            if not admitted:
                self._tell_entered(job, job.needs)
            return True
        reason = halting_reason(refused)
        ending: Halt | Failure | None = None if reason is None else Halt(reason)
        if ending is None and not admitted:
            ending = self._gates.ending(session.run_id, refused, job.needs)
        if ending is not None:
            self._conclude_at_gates(job, taken, ending)
            return False
        if admitted:
            self._gates.note_admitted_wait(session.run_id, refused, job.needs)
        waits_for = describe_wait(refused, job.needs)
        self._put_down_taken(taken.lease, header, waits_for, refused.retry_after, session.adopted)
        if waits_for != header.waits_for:
            tell_parked(job.environment.observers, job.environment.run, refused, waits_for)
        return False

    def _conclude_at_gates(self, job: Job, taken: TakenLease, ending: Halt | Failure) -> None:
        """Record the end of a run that is not let in, or not any more."""
        session, now = job.environment.session, self._services.clock.now()
        header = job.concluder.unbegun(ending)
        events = [StoredEvent(session.next_sequence(), now, f"run.{header.status.value}")]
        parent = taken.stored.run.parent_id
        jobs = [] if parent is None else [JobRequest(parent)]
        changes = Changes(
            header=dataclasses.replace(header, finished_at=now),
            events=events,
            jobs=jobs,
            release=True,
            now=now,
            coordination=CoordinationChanges(
                turn_ends=self._gates.turn_ends(job.needs, failed=isinstance(ending, Failure)),
                now=now,
                ends=True,
            ),
        )
        self._services.store.commit(taken.lease, changes)
        self._runtime.released()
        self._runtime.enqueue(jobs)
        run, observers = job.environment.run, job.environment.observers
        if isinstance(ending, Halt):
            observers.notify("run_halted", run, ending.reason)
        else:
            observers.notify("run_failed", run, ending)

    def _going_on(self, taken: TakenLease) -> MapEvent:
        """Return the event with which a run that was taken goes on."""
        limit = self._services.settings.max_recoveries
        header = taken.stored.header
        if header.status is RunStatus.ROLLING_BACK and header.trigger == conclusion.UNDO:
            return UndoAsked(limit)
        rolling_back = header.status is RunStatus.ROLLING_BACK
        if taken.stored.cancel_requested is not None and not rolling_back:
            return Stopped(Stopping.CANCELLED)
        return TakenUp(limit)

    def _put_down(self, taken: TakenLease, waits_for: str, why: str) -> None:
        """Leave a run to a worker that can go on with it; say so once."""
        header = taken.stored.header
        if header.waits_for != waits_for:
            logger.warning(
                "event=run.left run=%s waits_for=%r why=%r", taken.lease.run_id, waits_for, why
            )
        self._put_down_taken(taken.lease, header, waits_for)

    def _put_down_taken(
        self,
        lease: Lease,
        header: RunHeader,
        waits_for: str | None,
        delay: float | None = None,
        held: Mapping[str, Sequence[Hold]] = MappingProxyType({}),
    ) -> None:
        """Give a run back unchanged, to be looked at again after a while."""
        now = self._services.clock.now()
        if delay is None:
            delay = self._services.settings.snooze_seconds(random.random())
        wake_at = None if waits_for is None else now + delay
        header = dataclasses.replace(header, waits_for=waits_for, wake_at=wake_at)
        jobs = [JobRequest(lease.run_id, delay)]
        lives = [hold.expires_in for holds in held.values() for hold in holds]
        # nobody renews what a parked run holds: it must outlast the wait
        kept = CoordinationChanges(extend_holds=delay + max(lives), now=now) if lives else None
        changes = Changes(header=header, jobs=jobs, release=True, now=now, coordination=kept)
        self._services.store.commit(lease, changes)
        self._runtime.enqueue(jobs)

    def undo(self, reactor: type[Reactor] | None, run_id: str) -> Result[Any]:
        """Undo what is outstanding of a run that has ended or stopped, newest first.

        Raises `UndoIncomplete` if something is left, `UnknownRun`, `RunBusy` if another process
        holds it for longer than `undo_wait`, or `RunStateError` if its status rules it out.
        """
        definition = self._definition(reactor, self._load(reactor, run_id))
        taken = self._take(reactor, run_id, wait=self._services.settings.undo_wait_seconds)
        header = taken.stored.header
        refusal = conclusion.undo_refusal(taken.stored)
        if refusal is not None:
            self._release(taken.lease)
            raise RunStateError(refusal)
        if conclusion.nothing_outstanding(header):
            self._release(taken.lease)
            return self._runtime.result_of(taken.stored)
        job = self._resume(definition, taken, UndoAsked(self._services.settings.max_recoveries))
        job.concluder.undoing(header)
        self._enter_again(job, taken)
        result = self._drive(job)
        job.concluder.raise_if_incomplete(run_id)
        return result

    def cancel(self, reactor: type[Reactor] | None, run_id: str, reason: str) -> None:
        """Ask the run's owner to stop it; a run without a live owner is stopped here.

        Raises `UnknownRun`, or `RunStateError` on a run that has ended or is rolling back.
        """
        stored = self._load(reactor, run_id)
        if not stored.lease_live:
            # without a live owner it is stopped here, which takes its reactor
            self._definition(reactor, stored)
        requested = self._services.store.request_cancel(run_id, reason)
        if requested is None:
            raise self._unknown(reactor, run_id)
        status = requested.header.status
        if status in FINISHED or status is RunStatus.ROLLING_BACK:
            raise RunStateError(
                f"Run {run_id} is {status.value}: it cannot be cancelled. "
                "Use undo to reverse what it did."
            )
        session = self._runtime.keeper.session(run_id)
        if session is not None:
            session.cancel(reason)
        elif not requested.lease_live:
            self._cancel_here(reactor, run_id)

    def _cancel_here(self, reactor: type[Reactor] | None, run_id: str) -> None:
        with contextlib.suppress(RunBusy):
            taken = self._take(reactor, run_id)
            status = taken.stored.header.status
            if status in FINISHED or status is RunStatus.ROLLING_BACK:
                self._release(taken.lease)
                return
            definition = self._definition(reactor, taken.stored)
            job = self._resume(definition, taken, Stopped(Stopping.CANCELLED))
            self._drive(job)

    def _resume(
        self,
        definition: ReactorDefinition,
        taken: TakenLease,
        event: MapEvent,
        *,
        parks: bool = False,
    ) -> Job:
        """Return the job that goes on with a run under a lease just taken."""
        self._runtime.learn(definition)
        stored = taken.stored
        session = Session(
            self._services,
            taken.lease,
            root_id=stored.run.root_id,
            last_sequence=taken.last_sequence,
        )
        session.cancel_reason = stored.cancel_requested
        redacted = definition.contract.redacted | read_outline(stored.run.outline).redacted
        deaths = crash_loops.record_death(session, taken) if taken.abandoned else 0
        try:
            fit = self._fit(definition, stored, event)
            inputs = load_inputs(stored.run.inputs, self._services.codec)
            environment = self._environment(
                session, definition, inputs, stored.run, redacted, taken_up=True, parks=parks
            )
            level = restore_reactor(environment, definition, inputs, redacted_inputs=redacted)
        except CalandriaError as error:
            if not (parks and isinstance(error, _LEFT_TO_OTHERS)):
                self._release(taken.lease)
            raise
        level.state.max_recoveries = environment.max_recoveries
        if isinstance(event, UndoAsked):
            environment.by_hand = True
            # what could not be undone before is tried again: only what is left this time counts
            level.rollback_failures = []
        elif isinstance(event, Stopped):
            session.cancel_reason = stored.cancel_requested
        concluder = Concluder(environment, definition)
        concluder.resuming(stored.header)
        level.failure = concluder.failure_before or level.failure
        if isinstance(event, TakenUp) and crash_loops.gives_up(session, taken, deaths):
            level.failure = crash_loops.crash_failure(definition.name, deaths)
            event = ReturnFailed()
        execution = Execution(
            environment,
            level,
            event,
            begin_rollback=concluder.begin_rollback,
            conclude=concluder.conclude,
        )
        if taken.last_sequence > 1:
            # a run that was never begun has left nothing to take over
            self._gates.adopt(session)
        concluder.take_up(execution.journal)
        if not taken.abandoned:
            execution.journal.event(crash_loops.TAKEN_UP, epoch=taken.lease.epoch)
        if fit.rewired:
            execution.journal.event("run.definition_changed", steps=list(fit.rewired))
        execution.journal.notice("lease_taken", environment.run)
        execution.journal.notice("run_started", environment.run)
        parallel = plan_is_parallel(definition.plan)
        needs = concluder.needs = self._gates.needs(definition, inputs)
        return Job(environment, execution, parallel, concluder, needs=needs)

    def _fit(self, definition: ReactorDefinition, stored: StoredRun, event: MapEvent) -> Fit:
        """Compare a run with its definition before anything of it runs; report changes once.

        Raises `DefinitionChanged` for a run that could not go on.
        """
        fit = fit_of(self._services.store, stored, definition)
        if fit.lost and not isinstance(event, UndoAsked):
            raise definition_changed(stored.run.id, definition.name, fit.lost)
        noted = (stored.run.id, definition.shape)
        if not fit.rewired or noted in self._noted:
            return Fit()
        if len(self._noted) >= MOST_NOTED:
            self._noted.clear()
        self._noted.add(noted)
        logger.warning(
            "event=run.definition_changed run=%s reactor=%s steps=%r detail=%r",
            stored.run.id,
            stored.run.reactor,
            list(fit.rewired),
            "their wiring, target or contract is another than when the run did them",
        )
        return fit

    def _load(self, reactor: type[Reactor] | None, run_id: str) -> StoredRun:
        stored = self._services.store.load_run(run_id)
        if stored is None or (reactor is not None and stored.run.reactor != stored_name(reactor)):
            raise self._unknown(reactor, run_id)
        return stored

    def _definition(self, reactor: type[Reactor] | None, stored: StoredRun) -> ReactorDefinition:
        """Return the definition of the reactor that was asked, or else of the run's own."""
        if reactor is not None:
            return reactor.definition()
        return self._runtime.definition_of(stored)

    def _unknown(self, reactor: type[Reactor] | None, run_id: str) -> UnknownRun:
        of = f" of {reactor.definition().name}" if reactor is not None else ""
        return UnknownRun(f"There is no run {run_id!r}{of} in {self._runtime.storage_url}.")

    def _take(self, reactor: type[Reactor] | None, run_id: str, wait: float = 0.0) -> TakenLease:
        clock = self._services.clock
        deadline = clock.monotonic() + wait
        while True:
            taken = self._services.store.take_lease(
                run_id, owner=self._runtime.owner, ttl=self._services.settings.lease_seconds
            )
            if isinstance(taken, TakenLease):
                return taken
            if taken is None:
                raise self._unknown(reactor, run_id)
            if clock.monotonic() >= deadline:
                raise RunBusy(
                    f"Run {run_id} is being executed by {taken.lease_owner}; its lease is live. "
                    "Wait until that process ends it or dies, then try again."
                )
            self._runtime.pause(0.02)

    def _release(self, lease: Lease) -> None:
        now = self._services.clock.now()
        self._services.store.commit(lease, Changes(release=True, now=now))

    # driving

    def _environment(
        self,
        session: Session,
        definition: ReactorDefinition,
        inputs: dict[str, Any],
        stored: NewRun,
        redacted: frozenset[str],
        *,
        taken_up: bool = False,
        parks: bool = False,
    ) -> Environment:
        run = RunInfo(
            session.run_id,
            session.root_id,
            definition.name,
            shown(inputs, redacted),
            session.lease.epoch,
            taken_up,
        )
        return Environment(
            session=session,
            observers=Observers(self._runtime.middleware + definition.middleware),
            run=run,
            loop=self._runtime.loop,
            pool=self._runtime.pool,
            execute=execute,
            stored_reactor=stored.reactor,
            parent_id=stored.parent_id,
            parks=parks,
            enqueue=self._runtime.enqueue,
            released=self._runtime.released,
            performs_here=lambda: self._runtime.performs_here,
            secrets=secrets_in(inputs, redacted),
        )

    def _drive(self, job: Job) -> Result[Any]:
        with self._owning(job):
            outcome = job.environment.drive(job.execution.drive(), parallel=job.parallel)
        return job.concluder.result(outcome)

    async def _adrive(self, job: Job) -> Result[Any]:
        with self._owning(job):
            outcome = await job.environment.adrive(job.execution.drive())
        return job.concluder.result(outcome)

    @contextlib.contextmanager
    def _owning(self, job: Job) -> Iterator[None]:
        """Keep the lease alive while the run executes, and see to it that no one is misled after.

        An interruption that reached no step (it came between two) still leaves the run `aborted`.
        """
        session = job.environment.session
        remove = self._runtime.keeper.removal(session)
        try:
            self._runtime.keeper.add(session)
            yield
        except Exception as error:
            session.interrupt(error)
            if session.lost:
                job.environment.observers.notify("lease_lost", job.environment.run)
            elif not isinstance(error, StorageError) and session.exists:
                with contextlib.suppress(StorageError):
                    self._release(session.lease)
            raise
        except BaseException as interruption:
            let_go(interruption)
            first = session.interruption is None
            session.interrupt(interruption)
            if first and not session.lost:
                self._abort(job, interruption)
            raise
        finally:
            remove()
            if not session.exists:
                self._gates.leave(session)

    def _abort(self, job: Job, interruption: BaseException) -> None:
        """Record that a run was interrupted between two commits of its own, or within one."""
        session = job.environment.session
        try:
            # only the storage knows what became of a commit that was interrupted
            stored = self._services.store.load_run(session.run_id)
            if stored is None or stored.lease_owner is None or stored.epoch != session.lease.epoch:
                return
            if job.environment.parks and stored.header.status not in FINISHED:
                suspension = interrupted_in_worker(interruption, session)
                changes = job.concluder.left_changes(suspension)
            elif stored.header.status in FINISHED:
                changes = Changes(release=True, now=self._services.clock.now())
            else:
                changes = job.concluder.aborted_changes(interruption)
            session.give_up(changes)
        except StorageError as error:
            logger.error("event=run.abort_failed run=%s error=%r", session.run_id, str(error))


def _admitted(taken: TakenLease) -> bool:
    """Tell whether a run has begun: its own gates are behind it."""
    return taken.last_sequence > 1


def _starts_in_worker(reactor: type[Reactor]) -> bool:
    hand_off = reactor.definition().plan.hand_off
    return hand_off is not None and hand_off.at_once
