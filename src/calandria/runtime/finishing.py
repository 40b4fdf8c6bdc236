"""Ending a level: its value or its failure is handed to the level around it."""

from __future__ import annotations

import dataclasses
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from calandria.engine.commands import Ending, Finish
from calandria.engine.events import Outcome, ReturnFailed, RollbackCutOff, Settled
from calandria.errors import EncodingError
from calandria.results import Failure
from calandria.runtime.effects import Effect
from calandria.runtime.endings import LevelOutcome, pending_compensation, returned_value
from calandria.runtime.levels import Level, MapLevel, ReactorLevel
from calandria.runtime.map_result import MapResult
from calandria.runtime.nested import NestedLevel
from calandria.runtime.outcomes import failure_of_function
from calandria.runtime.settling import located
from calandria.runtime.slots import Slot
from calandria.runtime.values import Value, scrub_failure

if TYPE_CHECKING:
    from calandria.runtime.execution import Execution

Steps = Generator[Effect, Any, None]


class Finisher:
    """Ends levels for an execution."""

    def __init__(self, execution: Execution) -> None:
        self._execution = execution
        self._environment = execution.environment

    def finish(self, level: Level, command: Finish) -> Steps:
        """End a level as the engine decided, unless its value cannot be had."""
        value: Value | None = None
        if command.ending is Ending.COMPLETED and isinstance(level, ReactorLevel):
            if level.definition.returns.operations:
                yield from self._execution.journal.flush()
            try:
                value = returned_value(level, self._environment.codec)
            except BaseException as error:
                level.failure = self._return_failure(level, error)
                self._execution.post(level, ReturnFailed())
                return
        elif isinstance(level, MapLevel):
            value = level.value
        self._execution.end(level)
        if level is self._execution.root:
            yield from self._end_root(level, command, value)
        else:
            self._end_nested(level, command, value)

    def map_value(self, level: MapLevel, length: int) -> Value:
        """Return a map's value: its results, or what `.collect` makes of them.

        Raises what `.collect` raises, and `EncodingError`.
        """
        environment = self._environment
        results: MapResult[Any] = MapResult(
            environment.store, environment.codec, environment.run.run_id, level.scope, length
        )
        collect = level.options.collect
        return Value.record(results if collect is None else collect(results), environment.codec)

    def _return_failure(self, level: ReactorLevel, error: BaseException) -> Failure:
        failure = failure_of_function(error)
        if isinstance(error, EncodingError):
            message = f"{level.reactor_name}: what it returns cannot be recorded. {error}"
            failure = dataclasses.replace(failure, error=message)
        return dataclasses.replace(
            scrub_failure(failure, self._environment.secrets),
            retryable=False,
            reactor=level.reactor_name,
            step=level.scope or None,
        )

    def _end_root(self, level: Level, command: Finish, value: Value | None) -> Steps:
        pending: str | None = None
        if command.ending in (Ending.CANCELLED, Ending.ABORTED):
            yield from self._execution.journal.flush()
            pending = yield from self._execution.opener.pending_below(level)
        self._execution.outcome = LevelOutcome(
            ending=command.ending,
            incomplete=command.incomplete,
            value=value,
            failure=level.failure,
            halt_reason=level.halt_reason,
            rollback_failures=level.rollback_failures,
            pending_compensation=pending,
            interruption=self._environment.session.interruption,
        )

    def _end_nested(self, level: Level, command: Finish, value: Value | None) -> None:
        around = level.parent
        assert around is not None
        name = level.key
        slot = around.slot(name)
        settler = self._execution.settler
        slot.finished_at = self._environment.clock.now()
        match command.ending:
            case Ending.COMPLETED | Ending.HALTED:
                self._end_well(level, around, name, slot, command, value)
            case Ending.FAILED:
                self._hand_on_remains(level, around, name, slot)
                failure = level.failure or Failure(f"{slot.path} failed", retryable=False)
                settler.fail(
                    around, name, slot, failure, started=True, incomplete=command.incomplete
                )
            case Ending.CANCELLED | Ending.ABORTED:
                around.pending_compensation = around.pending_compensation or pending_compensation(
                    level
                )
                cut_off = RollbackCutOff(name) if level.undoing else Settled(name, Outcome.CUT_OFF)
                self._execution.post(around, cut_off)
            case Ending.UNDONE:
                settler.rolled_back(around, name, slot, level.rollback_failures, retryable=False)

    def _hand_on_remains(self, level: Level, around: Level, name: str, slot: Slot) -> None:
        """Note at the level around what a level could not roll back."""
        left = located(around, name, level.rollback_failures)
        slot.rollback_failures = left
        around.rollback_failures.extend(left)
        if left:
            slot.unsaved_rollback_error = self._environment.records.encode(left)

    def _end_well(
        self,
        level: Level,
        around: Level,
        name: str,
        slot: Slot,
        command: Finish,
        value: Value | None,
    ) -> None:
        halted = command.ending is Ending.HALTED
        # the body of a nested reactor is told the reason; whoever else reads it gets nothing
        reason = level.halt_reason if isinstance(around, NestedLevel) else None
        if halted or value is None:
            value = Value.record(reason, self._environment.codec)
        slot.result, slot.unsaved_result = value, value.text
        # elements of a map that kept going may have failed and left something behind
        self._hand_on_remains(level, around, name, slot)
        order = self._environment.session.next_order()
        if halted and isinstance(around, (MapLevel, NestedLevel)):
            around.halt_reason = reason
            settled = Settled(name, Outcome.HALTED, order, incomplete=command.incomplete)
            self._execution.post(around, settled)
            hook: tuple[str, object] = ("step_halted", level.halt_reason)
        else:
            settled = Settled(name, Outcome.SUCCEEDED, order, incomplete=command.incomplete)
            self._execution.post(around, settled)
            hook = ("step_completed", value.peek())
        self._execution.journal.step_notice(hook[0], around, name, slot, hook[1])
