"""How a run ends: what its header says, what its caller is returned, what is told of it."""

from __future__ import annotations

import dataclasses
from typing import Any

from calandria.coordination.periods import mark_in
from calandria.definition.node_definition import ReactorDefinition
from calandria.engine.commands import Ending
from calandria.errors import UndoIncomplete
from calandria.ports.coordination import TurnEnd
from calandria.ports.run_store import (
    Changes,
    CoordinationChanges,
    Event,
    JobRequest,
    NewRun,
    RunHeader,
    StoredRun,
)
from calandria.results import (
    Dispatched,
    Failure,
    Halt,
    Result,
    RollbackFailure,
    Success,
    describe_exception,
)
from calandria.runtime.endings import LevelOutcome, Suspension
from calandria.runtime.environment import Environment
from calandria.runtime.hold_notices import tell_left
from calandria.runtime.journal import Journal
from calandria.runtime.levels import Level
from calandria.runtime.needs import Needs
from calandria.runtime.slots import decode_failure, encode_failure
from calandria.runtime.stored_results import stopped_result
from calandria.runtime.values import as_message, scrub
from calandria.statuses import RollbackState, RunStatus

FAILURE = "failure"
UNDO = "undo"
UNDO_REASON = "Undo triggered"

_UNDOABLE = frozenset(
    {
        RunStatus.COMPLETED,
        RunStatus.PAUSED,
        RunStatus.HALTED,
        RunStatus.CANCELLED,
        RunStatus.ABORTED,
        RunStatus.FAILED,
    }
)


class Concluder:
    """Turns the outcome of a run's outermost level into its header and its result."""

    def __init__(self, environment: Environment, definition: ReactorDefinition) -> None:
        self._environment = environment
        self._definition = definition
        self._before: RunHeader | None = None
        self._current = RunHeader(RunStatus.RUNNING)
        self._undoing = False
        self._end_status = RunStatus.FAILED
        self._left: list[RollbackFailure] = []
        self._result: Result[Any] | None = None
        self.needs: Needs | None = None
        """What the run's reactor declares: its positions end with the run, taken or not."""

    def resuming(self, header: RunHeader) -> None:
        """Note how the run stood when it was taken up."""
        self._before = header
        going_back = header.status is RunStatus.ROLLING_BACK
        self._undoing = going_back and header.trigger == UNDO
        if header.end_status is not None:
            self._end_status = header.end_status
        status = header.status if going_back else RunStatus.RUNNING
        self._current = dataclasses.replace(
            header, status=status, waits_for=None, wake_at=None, finished_at=None
        )

    def take_up(self, journal: Journal) -> None:
        """Write in the next commit that the run waits for nothing any more, if it did."""
        before = self._before
        if before is not None and (
            before.waits_for is not None or before.status is RunStatus.PENDING
        ):
            journal.header = self._current

    @property
    def failure_before(self) -> Failure | None:
        """Why the run was going backward when it was taken up, or `None`."""
        before = self._before
        if before is None or before.outcome is None or before.trigger != FAILURE:
            return None
        if before.status is not RunStatus.ROLLING_BACK:
            return None
        return decode_failure(before.outcome, self._environment.codec)

    def undoing(self, header: RunHeader) -> None:
        """Note that the run, which stood as `header` says, is being undone by hand."""
        if not self._undoing:
            failed = header.status is RunStatus.FAILED
            self._end_status = RunStatus.FAILED if failed else RunStatus.CANCELLED
        self._before = header
        self._undoing = True

    def begin_rollback(self, journal: Journal, level: Level) -> None:
        """Write in the next commit that the run goes backward."""
        outcome = None if self._before is None else self._before.outcome
        if not self._undoing and level.failure is not None:
            outcome = self._encode_failure(level.failure)
        self._current = RunHeader(
            RunStatus.ROLLING_BACK,
            trigger=UNDO if self._undoing else FAILURE,
            end_status=self._end_status,
            outcome=outcome,
            pending_compensation=None
            if self._before is None
            else self._before.pending_compensation,
        )
        journal.header = self._current
        journal.event("run.rolling_back")

    def conclude(self, journal: Journal, outcome: LevelOutcome | Suspension) -> None:
        """Write in the last commit how the run ended or steps aside; let go of the lease."""
        if isinstance(outcome, Suspension):
            self._suspend(journal, outcome)
            return
        now = self._environment.clock.now()
        if self._environment.parent_id is not None:
            journal.jobs.append(JobRequest(self._environment.parent_id))
        header, result = self._ending(outcome)
        journal.header = dataclasses.replace(header, finished_at=now)
        journal.release = True
        self._let_go(journal, outcome, header)
        journal.event(f"run.{header.status.value}")
        self._left = list(outcome.rollback_failures)
        self._result = result
        self._tell(journal, outcome, header, result)

    def _let_go(self, journal: Journal, outcome: LevelOutcome, header: RunHeader) -> None:
        """Release all that the run holds, and leave what its end leaves."""
        session, pending = self._environment.session, journal.coordination
        turns = [] if self.needs is None else [key for key, _, _ in self.needs.turns]
        tell_left(journal, self._environment.run, session.holds.all(), turns)
        for path in {hold.path for hold in session.holds.all()}:
            session.holds.remove(path)
            if path not in pending.releases:
                pending.releases.append(path)
        coordinated = definition_coordinates(self._definition)
        pending.ends = coordinated or bool(session.adopted or session.requests)
        if coordinated and outcome.ending in (Ending.UNDONE, Ending.FAILED):
            # what could not be undone is still done, and keeps its mark
            pending.unmark_all_but = [failure.step for failure in outcome.rollback_failures]
        needs = self.needs
        if needs is None:
            return
        if header.status is RunStatus.COMPLETED:
            pending.marks += [
                mark_in(every, self._admitted_at(), key=key, run_id=session.run_id, path="")
                for key, every in needs.periods
            ]
        failed = header.status is RunStatus.FAILED
        pending.turn_ends += [TurnEnd(key, "", failed) for key, _, _ in needs.turns]

    def _admitted_at(self) -> float:
        """Return when the run passed its own gates: that is the bucket of time it has claimed."""
        run_id = self._environment.run.run_id
        for event in self._environment.store.read_events(run_id, limit=50):
            if event.kind == "hold.acquired" and event.path is None:
                return event.at
        return self._environment.clock.now()

    def unbegun(self, ending: Halt | Failure) -> RunHeader:
        """Return the header of a run that was never let in."""
        if isinstance(ending, Halt):
            outcome = self._environment.codec.encode(ending.reason)
            return RunHeader(RunStatus.HALTED, outcome=outcome)
        return RunHeader(
            RunStatus.FAILED,
            RollbackState.COMPLETE,
            trigger=FAILURE,
            outcome=self._encode_failure(ending),
        )

    def _suspend(self, journal: Journal, suspension: Suspension) -> None:
        run, now = self._environment.run, self._environment.clock.now()
        waits = suspension.waits_for is not None
        wake_at = now + suspension.delay if waits else None
        journal.header = dataclasses.replace(
            self._current, waits_for=suspension.waits_for, wake_at=wake_at
        )
        journal.jobs.append(JobRequest(run.run_id, suspension.delay))
        journal.release = True
        longest = self._environment.session.holds.longest_ttl()
        if longest is not None:
            # nobody renews what a parked run holds: it must outlast the wait
            journal.coordination.extend_holds = suspension.delay + longest
        before = self._before
        again = before is not None and before.waits_for == suspension.waits_for
        idle = not self._environment.session.committed and not journal.marks_steps
        if waits and again and idle:
            # parks of one wait are one line of the trace, not one for each try
            journal.forget_events()
        elif waits:
            journal.event("run.parked", waits_for=suspension.waits_for)
            journal.notice("run_parked", run, suspension.waits_for)
        else:
            journal.event("run.handed_over")
            journal.notice("run_handed_over", run)
        journal.notice("lease_released", run)
        self._result = Dispatched(run.run_id)

    def left_changes(self, suspension: Suspension) -> Changes:
        """Return the commit by which a worker interrupted between two others gives a run back."""
        run_id, now = self._environment.run.run_id, self._environment.clock.now()
        waits_for, delay = suspension.waits_for, suspension.delay
        wake_at = None if waits_for is None else now + delay
        return Changes(
            header=dataclasses.replace(self._current, waits_for=waits_for, wake_at=wake_at),
            jobs=[JobRequest(run_id, delay)],
            release=True,
            now=now,
        )

    def _ending(self, outcome: LevelOutcome) -> tuple[RunHeader, Result[Any]]:
        run_id, codec = self._environment.run.run_id, self._environment.records
        match outcome.ending:
            case Ending.COMPLETED:
                assert outcome.value is not None
                value = outcome.value
                rollback = _remains(outcome)
                header = RunHeader(RunStatus.COMPLETED, rollback, outcome=value.text)
                return header, Success(value.fresh(), run_id=run_id)
            case Ending.HALTED:
                reason = outcome.halt_reason
                rollback = _remains(outcome)
                header = RunHeader(RunStatus.HALTED, rollback, outcome=codec.encode(reason))
                return header, Halt(reason, run_id=run_id)
            case Ending.FAILED:
                return self._failed(outcome, self._failure(outcome))
            case Ending.UNDONE:
                return self._undone(outcome)
            case Ending.CANCELLED:
                reason = as_message(self._environment.session.cancel_reason) or ""
                header = RunHeader(
                    RunStatus.CANCELLED,
                    outcome=codec.encode(reason),
                    pending_compensation=outcome.pending_compensation,
                )
                return header, stopped_result("Cancelled", reason, run_id)
            case Ending.ABORTED:
                reason = scrub(interruption_name(outcome.interruption), self._environment.secrets)
                header = self._aborted_header(reason, outcome.pending_compensation)
                return header, stopped_result("Aborted", reason, run_id)

    def _failure(self, outcome: LevelOutcome) -> Failure:
        failure = outcome.failure
        if failure is None:
            failure = Failure("The run failed.", retryable=False, reactor=self._definition.name)
        return dataclasses.replace(
            failure,
            rollback_failures=list(outcome.rollback_failures),
            run_id=self._environment.run.run_id,
        )

    def _failed(self, outcome: LevelOutcome, failure: Failure) -> tuple[RunHeader, Failure]:
        header = RunHeader(
            RunStatus.FAILED,
            rollback=_rollback_state(outcome),
            trigger=FAILURE,
            outcome=self._encode_failure(failure),
        )
        return header, failure

    def _undone(self, outcome: LevelOutcome) -> tuple[RunHeader, Result[Any]]:
        if self._end_status is RunStatus.FAILED:
            failure = outcome.failure
            if self._before is not None and self._before.outcome is not None:
                failure = decode_failure(self._before.outcome, self._environment.codec)
            header, result = self._failed(
                outcome, self._failure(dataclasses.replace(outcome, failure=failure))
            )
            return dataclasses.replace(header, trigger=UNDO), result
        left = list(outcome.rollback_failures)
        result = stopped_result("Cancelled", UNDO_REASON, self._environment.run.run_id, left)
        header = RunHeader(
            RunStatus.CANCELLED,
            rollback=_rollback_state(outcome),
            trigger=UNDO,
            outcome=self._encode_failure(result),
        )
        return header, result

    def _aborted_header(self, reason: str, pending: str | None) -> RunHeader:
        before = self._before
        return RunHeader(
            RunStatus.ABORTED,
            outcome=self._environment.records.encode(reason),
            pending_compensation=pending
            or (before.pending_compensation if before is not None else None),
        )

    def aborted_changes(self, interruption: BaseException) -> Changes:
        """Return the commit that records an interruption between two other commits."""
        now = self._environment.clock.now()
        name = scrub(interruption_name(interruption), self._environment.secrets)
        header = self._aborted_header(name, None)
        sequence = self._environment.session.next_sequence()
        return Changes(
            header=dataclasses.replace(header, finished_at=now),
            events=[Event(sequence, now, "run.aborted")],
            release=True,
            now=now,
            coordination=CoordinationChanges(now=now, ends=True),
        )

    def _encode_failure(self, failure: Failure) -> str:
        return encode_failure(failure, self._environment.records)

    def _tell(
        self, journal: Journal, outcome: LevelOutcome, header: RunHeader, result: Result[Any]
    ) -> None:
        run = self._environment.run
        match header.status:
            case RunStatus.COMPLETED:
                assert isinstance(result, Success)
                journal.notice("run_completed", run, result.value)
            case RunStatus.HALTED:
                journal.notice("run_halted", run, outcome.halt_reason)
            case RunStatus.FAILED:
                journal.notice("run_failed", run, result)
            case RunStatus.CANCELLED:
                assert isinstance(result, Failure)
                journal.notice("run_cancelled", run, result.error)
            case RunStatus.ABORTED:
                journal.notice("run_aborted", run, outcome.interruption)
        journal.notice("lease_released", run)

    def result(self, outcome: LevelOutcome | Suspension) -> Result[Any]:
        """Return what the caller gets; raises the interruption that aborted the run."""
        if isinstance(outcome, LevelOutcome) and outcome.interruption is not None:
            raise outcome.interruption
        assert self._result is not None
        return self._result

    def raise_if_incomplete(self, run_id: str) -> None:
        """Raise `UndoIncomplete` if the undo left something."""
        if self._left:
            left = "; ".join(f"{failure.step}: {failure.message}" for failure in self._left)
            raise UndoIncomplete(
                f"{self._definition.name}, run {run_id}: the undo left {len(self._left)} behind "
                f"({left}). Mend the cause and undo again: only these are tried.",
                rollback_failures=self._left,
            )


def definition_coordinates(definition: ReactorDefinition) -> bool:
    """Tell whether a reactor, or anything in it, declares coordination."""
    if definition.coordination:
        return True
    return any(
        node.coordination
        or (node.reactor is not None and definition_coordinates(node.reactor.definition()))
        for node in definition.nodes.values()
    )


def _remains(outcome: LevelOutcome) -> RollbackState:
    """Return the rollback of a run that went forward: its map's elements may have failed."""
    return RollbackState.INCOMPLETE if outcome.rollback_failures else RollbackState.NONE


def _rollback_state(outcome: LevelOutcome) -> RollbackState:
    return RollbackState.INCOMPLETE if outcome.rollback_failures else RollbackState.COMPLETE


def interruption_name(interruption: BaseException | None) -> str:
    """Return how an interruption is recorded: its class, and its message where it has one."""
    if interruption is None:
        return "interrupted"
    name = type(interruption).__name__
    message = describe_exception(interruption)
    return name if message == name else f"{name}: {message}"


def with_header(run: NewRun, header: RunHeader | None) -> NewRun:
    """Return `run` as its first commit leaves it."""
    return run if header is None else dataclasses.replace(run, header=header)


def undo_refusal(stored: StoredRun) -> str | None:
    """Return why a run cannot be undone as it stands, or `None` if it can."""
    header = stored.header
    interrupted_undo = header.status is RunStatus.ROLLING_BACK and header.trigger == UNDO
    if header.status in _UNDOABLE or interrupted_undo:
        return None
    return (
        f"Run {stored.run.id} is {header.status.value} and its process is gone: recover it first, "
        "then undo what it did."
    )


def nothing_outstanding(header: RunHeader) -> bool:
    """Tell whether a rollback already reversed everything the run did."""
    return header.rollback is RollbackState.COMPLETE
