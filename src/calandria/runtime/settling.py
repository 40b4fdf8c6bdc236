"""What the end of an action means: its value or failure recorded, the engine told."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from calandria.engine.events import (
    AllUndone,
    Outcome,
    Reconciled,
    RollbackCutOff,
    RolledBack,
    Settled,
)
from calandria.engine.node_state import NodeState
from calandria.errors import EncodingError, ValidationError
from calandria.plan.model import NodeKind
from calandria.results import Failure, Halt, RollbackFailure, Skipped, Success
from calandria.runtime.bodies import Flight
from calandria.runtime.effects import Interrupted, Settlement, StepOutcome
from calandria.runtime.levels import Level, MapLevel
from calandria.runtime.nested import NestedLevel, NestedRollbackIncomplete
from calandria.runtime.outcomes import failure_of, reason_of
from calandria.runtime.slots import Slot, encode_failure
from calandria.runtime.values import Value, as_message, scrub_failure, secrets_in, shown
from calandria.statuses import StepRollback, StepStatus

if TYPE_CHECKING:
    from calandria.runtime.execution import Execution


_HOOKS = {
    Outcome.SUCCEEDED: "step_completed",
    Outcome.SKIPPED: "step_skipped",
    Outcome.HALTED: "step_halted",
}


class Settler:
    """Turns settlements into events, and events into records."""

    def __init__(self, execution: Execution) -> None:
        self._execution = execution
        self._environment = execution.environment
        self._journal = execution.journal
        self._codec = execution.environment.codec

    def settle(self, flight: Flight, settlement: Settlement) -> None:
        """Post the event that a settled body amounts to."""
        outcome = settlement.outcome
        if isinstance(outcome, Interrupted):
            if outcome.exception is not None:
                self._interrupted(flight, outcome.exception)
            self.cut_off(flight)
            return
        flight.slot.finished_at = settlement.at
        self._journal.ends_something = True
        lost = self._execution.coordinator.lost(flight.slot)
        if lost is not None and flight.action == "run":
            outcome = failure_of(lost)
        match flight.action:
            case "run":
                self._settle_run(flight, outcome, settlement)
            case "reconcile":
                self._settle_reconcile(flight, outcome, settlement)
            case "undo_all":
                self._settle_undo_all(flight, outcome, settlement.seconds)
            case _:
                self._settle_back(flight, outcome, settlement.seconds)

    def _interrupted(self, flight: Flight, cause: BaseException) -> None:
        self._environment.session.interrupt(cause)
        if flight.action == "run":
            self._keep_failure(flight.level, flight.name, flight.slot, failure_of(cause))
            self._journal.mark(flight.level, flight.name, flight.state, flight.slot)

    def cut_off(self, flight: Flight) -> None:
        """Post that an action was cut off, or never begun, because the run stops."""
        self._execution.notice_stop()
        if flight.action in ("run", "reconcile"):
            self._execution.post(flight.level, Settled(flight.name, Outcome.CUT_OFF))
        else:
            self._execution.post(flight.level, RollbackCutOff(flight.name))

    def _settle_run(self, flight: Flight, outcome: StepOutcome, settlement: Settlement) -> None:
        level, name, slot = flight.level, flight.name, flight.slot
        nested = slot.nested is not None and slot.nested.used
        kind, recorded = self._record(flight, outcome)
        if isinstance(recorded, Failure):
            self.fail(level, name, slot, recorded, started=True, seconds=settlement.seconds)
            return
        hook = _HOOKS[kind]
        extra: tuple[Any, ...] = ()
        if isinstance(outcome, Success):
            extra = (outcome.value,)
        elif isinstance(outcome, Halt):
            extra = (outcome.reason,)
        self._journal.step_notice(hook, level, name, slot, *extra, seconds=settlement.seconds)
        event = Settled(name, kind, settlement.order, nested=nested)
        self._execution.post(level, event)

    def _record(self, flight: Flight, outcome: StepOutcome) -> tuple[Outcome, Value | Failure]:
        """Validate and encode what a body returned, and keep it in the slot."""
        slot, unit = flight.slot, flight.level.definition_of(flight.name).unit
        assert unit is not None
        if isinstance(outcome, Failure):
            return Outcome.FAILED, outcome
        kind = Outcome.HALTED
        value: object = None
        if isinstance(outcome, Halt):
            flight.level.halt_reason = as_message(outcome.reason)
            if isinstance(flight.level, NestedLevel):
                # no step reads it as a result, and a later attempt that adopts this has the reason
                value = flight.level.halt_reason
        else:
            kind = Outcome.SKIPPED if isinstance(outcome, Skipped) else Outcome.SUCCEEDED
            value = outcome.value
        try:
            if unit.output is not None and kind is Outcome.SUCCEEDED:
                value = unit.output.validate(value)
            slot.result = Value.record(value, self._codec)
        except ValidationError as error:
            return Outcome.FAILED, Failure(
                str(error),
                retryable=False,
                exception=error,
                exception_class="ValidationError",
                validation_errors=error.errors,
            )
        except EncodingError as error:
            where = f"{flight.level.reactor_name}.{slot.path}"
            return Outcome.FAILED, Failure(
                f"{where}: what it returned cannot be recorded. {error}",
                retryable=False,
                exception=error,
                exception_class="EncodingError",
            )
        slot.unsaved_result = slot.result.text
        return kind, slot.result

    def _settle_reconcile(
        self, flight: Flight, outcome: StepOutcome, settlement: Settlement
    ) -> None:
        level, name, slot = flight.level, flight.name, flight.slot
        if isinstance(outcome, Success) and outcome.value is None:
            self._execution.post(level, Reconciled(name, None))
            return
        kind, recorded = self._record(flight, outcome)
        if isinstance(recorded, Failure):
            self._keep_failure(level, name, slot, recorded)
        self._execution.post(level, Reconciled(name, kind, settlement.order))

    def fail(
        self,
        level: Level,
        name: str,
        slot: Slot,
        failure: Failure,
        *,
        started: bool,
        incomplete: bool = False,
        seconds: float | None = None,
    ) -> None:
        """Post the failure of an attempt, complete with where it happened."""
        slot.finished_at = self._environment.clock.now()
        retry = level.definition_of(name).retry
        retryable = failure.retryable and retry.allows(failure.exception)
        kept = self._keep_failure(level, name, slot, failure, started=started)
        self._execution.post(
            level,
            Settled(
                name,
                Outcome.FAILED,
                retryable=retryable and level.kind_of(name) is NodeKind.STEP,
                started=started,
                incomplete=incomplete,
                nested=slot.nested is not None and slot.nested.used,
                randomness=self._environment.session.randomness(),
            ),
        )
        slot.seconds = seconds
        slot.failure = kept

    def _keep_failure(
        self, level: Level, name: str, slot: Slot, failure: Failure, *, started: bool = True
    ) -> Failure:
        """Note where a failure happened, scrub it, and keep it in the slot to be recorded."""
        values = slot.values if slot.values is not None else {}
        redacted = level.redacted(name)
        secrets = (*self._environment.secrets, *secrets_in(values, redacted))
        complete = dataclasses.replace(
            scrub_failure(failure, secrets),
            reactor=failure.reactor or level.reactor_name,
            step=failure.step or slot.path,
            inputs=failure.inputs or shown(values, redacted),
            attempts=failure.attempts or level.node_state(name).attempts - (0 if started else 1),
        )
        slot.failure = complete
        slot.reason = reason_of(failure)
        slot.unsaved_error = encode_failure(complete, self._environment.records)
        return complete

    def source_failed(self, level: MapLevel, failure: Failure) -> None:
        """Note at a map that its source, or its `.collect`, raised."""
        level.failure = dataclasses.replace(
            scrub_failure(failure, self._environment.secrets),
            retryable=False,
            reactor=level.reactor_name,
            step=level.scope,
        )

    def _settle_back(self, flight: Flight, outcome: StepOutcome, seconds: float) -> None:
        failures: list[RollbackFailure] = []
        retryable = True
        if isinstance(outcome, Failure):
            failures = self._rollback_failures(flight, outcome)
            retryable = outcome.retryable
        self.rolled_back(
            flight.level, flight.name, flight.slot, failures, retryable=retryable, seconds=seconds
        )

    def _rollback_failures(self, flight: Flight, outcome: Failure) -> list[RollbackFailure]:
        if isinstance(outcome.exception, NestedRollbackIncomplete):
            return outcome.exception.rollback_failures
        raised = outcome.exception is not None
        message = scrub_failure(outcome, self._secrets(flight)).error
        if raised and outcome.exception_class:
            message = f"{outcome.exception_class}: {message}"
        return [
            RollbackFailure(
                flight.slot.path,
                "undo" if flight.action in ("undo", "undo_all") else "compensate",
                "raised" if raised else "returned_failure",
                message=message,
            )
        ]

    def _secrets(self, flight: Flight) -> tuple[str, ...]:
        redacted = flight.level.redacted(flight.name)
        values = flight.slot.values if flight.slot.values is not None else {}
        return (*self._environment.secrets, *secrets_in(values, redacted))

    def rolled_back(
        self,
        level: Level,
        name: str,
        slot: Slot,
        failures: list[RollbackFailure],
        *,
        retryable: bool,
        seconds: float | None = None,
    ) -> None:
        """Post the end of a compensate or undo; without `failures` it went well."""
        failures = located(level, name, failures)
        slot.rollback_failures = failures
        slot.seconds = seconds
        if failures:
            slot.unsaved_rollback_error = self._environment.records.encode(failures)
        self._execution.post(
            level,
            RolledBack(
                name,
                ok=not failures,
                retryable=retryable,
                randomness=self._environment.session.randomness(),
            ),
        )

    def _settle_undo_all(self, flight: Flight, outcome: StepOutcome, seconds: float) -> None:
        level = flight.level
        assert isinstance(level, MapLevel)
        failures: list[RollbackFailure] = []
        if isinstance(outcome, Failure):
            found = self._rollback_failures(flight, outcome)[0]
            failures = [dataclasses.replace(found, kind="undo_all", map_step=level.scope)]
        self.undone_in_bulk(level, failures, seconds=seconds)

    def undone_in_bulk(
        self,
        level: MapLevel,
        failures: list[RollbackFailure],
        *,
        seconds: float | None = None,
    ) -> None:
        """Post the end of a map's bulk undo; without `failures` it went well."""
        level.rollback_failures.extend(failures)
        kind = "undo_all.failed" if failures else "undo_all.completed"
        data = {"error": failures[0].message} if failures else {}
        self._journal.event(kind, level.scope, **data)
        self._tell_undone_all(level, failures, seconds)
        self._execution.post(level, AllUndone(ok=not failures))

    def _tell_undone_all(
        self, level: MapLevel, failures: list[RollbackFailure], seconds: float | None
    ) -> None:
        around, slot = level.around, level.around.slot(level.key)
        for failure in failures:
            self._journal.step_notice("undo_failed", around, level.key, slot, failure)
        if not failures:
            self._journal.step_notice("undo_completed", around, level.key, slot, seconds=seconds)

    def note(
        self,
        level: Level,
        event: Settled | RolledBack | Reconciled,
        state: NodeState,
        slot: Slot,
    ) -> None:
        """Mark the step's record, and add the line of the trace that says what happened."""
        if isinstance(event, Settled) and event.outcome is Outcome.CUT_OFF:
            return
        self._journal.mark(level, event.name, state, slot)
        if slot.needs is not None:
            self._let_go(level, event, state, slot)
        if isinstance(event, RolledBack):
            self._note_rollback(level, event, state, slot)
            return
        self._note_forward(level, event.name, state, slot)

    def _let_go(
        self,
        level: Level,
        event: Settled | RolledBack | Reconciled,
        state: NodeState,
        slot: Slot,
    ) -> None:
        """Release what the work held, and leave what its end leaves: marks, a turn that is over."""
        coordinator = self._execution.coordinator
        if isinstance(event, Reconciled) and state.status is StepStatus.STARTED:
            # it did not land, so it runs again under what it holds
            return
        coordinator.release(level, event.name, slot)
        if isinstance(event, RolledBack):
            if state.rollback is StepRollback.UNDONE:
                self._journal.coordination.unmarks.append(slot.path)
            if state.rollback in (StepRollback.COMPENSATED, StepRollback.COMPENSATE_FAILED):
                coordinator.end_turns(level, event.name, slot, failed=True)
            return
        node = level.node(event.name)
        match state.status:
            case StepStatus.COMPLETED:
                coordinator.leave_marks(slot)
                coordinator.end_turns(level, event.name, slot, failed=False)
            case StepStatus.SKIPPED | StepStatus.HALTED:
                coordinator.end_turns(level, event.name, slot, failed=False)
            case StepStatus.FAILED if not (node.compensates and state.attempts > 0):
                # with a compensate to come, the turn is over only after it
                coordinator.end_turns(level, event.name, slot, failed=True)

    def _note_forward(self, level: Level, name: str, state: NodeState, slot: Slot) -> None:
        assert state.status is not None
        status = state.status
        if status is StepStatus.STARTED:
            return
        data: dict[str, Any] = {}
        if status in (StepStatus.FAILED, StepStatus.RETRYING) and slot.failure is not None:
            data = {"error": slot.failure.error, "attempt": state.attempts}
        self._journal.event(f"step.{status.value}", slot.path, **data)
        if status is StepStatus.FAILED:
            keeps_going = isinstance(level, MapLevel) and level.map_plan.keep_going
            if level.failure is None and not keeps_going:
                level.failure = slot.failure
            if slot.failure is not None:
                self._journal.step_notice(
                    "step_failed", level, name, slot, slot.failure, seconds=slot.seconds
                )

    def _note_rollback(self, level: Level, event: RolledBack, state: NodeState, slot: Slot) -> None:
        undo = state.rollback in (
            StepRollback.UNDOING,
            StepRollback.UNDONE,
            StepRollback.UNDO_FAILED,
        )
        kind, hook = ("undo", "undo") if undo else ("compensate", "compensation")
        final = state.rollback in (StepRollback.UNDO_FAILED, StepRollback.COMPENSATE_FAILED)
        if event.ok or final:
            # what an earlier try could not do was tried again with this one
            level.rollback_failures = [
                failure
                for failure in level.rollback_failures
                if not _at_or_below(failure.step, slot.path)
            ]
        if event.ok:
            self._journal.event(f"{kind}.completed", slot.path)
            self._journal.step_notice(
                f"{hook}_completed", level, event.name, slot, seconds=slot.seconds
            )
            return
        message = "; ".join(failure.message for failure in slot.rollback_failures)
        self._journal.event(f"{kind}.{'failed' if final else 'retrying'}", slot.path, error=message)
        if final:
            level.rollback_failures.extend(slot.rollback_failures)
            for failure in slot.rollback_failures:
                self._journal.step_notice(f"{hook}_failed", level, event.name, slot, failure)


def _at_or_below(path: str, root: str) -> bool:
    return path == root or path.startswith((f"{root}/", f"{root}["))


def located(level: Level, name: str, failures: list[RollbackFailure]) -> list[RollbackFailure]:
    """Return what is left of a step's rollback with the map and element it is in, if any."""
    if not isinstance(level, MapLevel):
        return failures
    return [
        failure
        if failure.map_step is not None
        else dataclasses.replace(failure, map_step=level.scope, element_index=int(name))
        for failure in failures
    ]
