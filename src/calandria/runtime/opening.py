"""Opening the level below a step: a composed reactor, a map, or a map's element."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from calandria.engine.commands import FindOutstanding
from calandria.engine.events import Began, TakenUp
from calandria.engine.maps import MapState
from calandria.engine.node_state import NodeState
from calandria.engine.state import new_level
from calandria.errors import CalandriaError
from calandria.plan.model import NodeKind
from calandria.results import RollbackFailure, describe_exception
from calandria.runtime.effects import Effect, Io
from calandria.runtime.endings import pending_compensation
from calandria.runtime.environment import undo_asked
from calandria.runtime.levels import Level, MapLevel, ReactorLevel
from calandria.runtime.restoring import find_outstanding, restore_map_level, restore_reactor
from calandria.runtime.slots import Slot
from calandria.runtime.values import load_inputs
from calandria.statuses import StepStatus

if TYPE_CHECKING:
    from calandria.runtime.execution import Execution

Steps = Generator[Effect, Any, None]


class Opener:
    """Opens levels for an execution, new or from the journal."""

    def __init__(self, execution: Execution) -> None:
        self._execution = execution
        self._environment = execution.environment

    def open_forward(self, level: Level, name: str, slot: Slot, *, restored: bool) -> Steps:
        """Open the level below a step, to begin or to go on where it was cut off."""
        if restored:
            below = yield from self._restore(level, name, slot)
            self._execution.open(below, TakenUp(self._environment.max_recoveries))
            return
        if level.kind_of(name) is NodeKind.MAP:
            assert isinstance(level, ReactorLevel)
            definition = level.definition_of(name)
            below = MapLevel(level, name, MapState(), level.node(name), definition)
        else:
            below = self._new_reactor(level, name, slot)
        self._execution.open(below, Began())

    def open_backward(self, level: Level, name: str, slot: Slot) -> Steps:
        """Open the level below a step to undo what of it is outstanding."""
        yield from self._execution.journal.flush()
        try:
            below = yield from self._restore(level, name, slot)
        except CalandriaError as error:
            failure = RollbackFailure(
                slot.path, "undo", "state_unavailable", message=describe_exception(error)
            )
            self._execution.settler.rolled_back(level, name, slot, [failure], retryable=False)
            return
        below.undoing = True
        if self._environment.by_hand:
            # what could not be undone before is tried again: only what is left this time counts
            below.rollback_failures = []
        self._execution.open(below, undo_asked(self._environment))

    def find(
        self, level: MapLevel, command: FindOutstanding
    ) -> Generator[Effect, Any, tuple[str, NodeState] | None]:
        """Find the map's next element with something outstanding."""
        found: tuple[str, NodeState] | None = yield Io(
            lambda: find_outstanding(
                self._environment,
                level,
                command.below,
                cut_off_only=command.cut_off_only,
                failed_too=command.failed_too,
            )
        )
        return found

    def _new_reactor(self, level: Level, name: str, slot: Slot) -> ReactorLevel:
        reactor = level.definition_of(name).reactor
        assert reactor is not None
        definition = reactor.definition()
        return ReactorLevel(
            definition,
            new_level(definition.plan),
            slot.values if slot.values is not None else {},
            scope=slot.path,
            parent=level,
            key=name,
            redacted_inputs=level.redacted(name),
        )

    def pending_below(self, level: Level) -> Generator[Effect, Any, str | None]:
        """Find a step that was cut off or failed, and not compensated, below a restored level.

        What stopped the run took up no level but the outermost: the journal knows of the rest.
        """
        found = pending_compensation(level)
        if found is not None:
            return found
        for name in _cut_off_below(level):
            below = yield from self._restore(level, name, level.slot(name))
            found = yield from self.pending_below(below)
            if found is not None:
                return found
        return None

    def _restore(self, level: Level, name: str, slot: Slot) -> Generator[Effect, Any, Level]:
        environment = self._environment
        below: Level
        if level.kind_of(name) is NodeKind.MAP:
            assert isinstance(level, ReactorLevel)
            around = level
            below = yield Io(lambda: restore_map_level(environment, around, name))
            return below
        reactor = level.definition_of(name).reactor
        assert reactor is not None
        definition = reactor.definition()
        inputs = load_inputs(slot.inputs_text, environment.codec)
        below = yield Io(
            lambda: restore_reactor(
                environment,
                definition,
                inputs,
                scope=slot.path,
                parent=level,
                key=name,
                redacted_inputs=level.redacted(name),
            )
        )
        # the first failure, which is none of its steps' if what it returns could not be had
        below.failure = slot.failure or below.failure
        return below


def _cut_off_below(level: Level) -> list[str]:
    """Return the steps of a level that hold a level of their own and were cut off."""
    if isinstance(level, MapLevel):
        step = level.state.step
        element = level.kind_of("") is NodeKind.COMPOSE
        return [str(level.state.index)] if element and _cut_off(step) else []
    assert isinstance(level, ReactorLevel)
    return [
        name
        for name, state in level.state.nodes.items()
        if level.kind_of(name) in (NodeKind.COMPOSE, NodeKind.MAP) and _cut_off(state)
    ]


def _cut_off(step: NodeState | None) -> bool:
    return step is not None and step.status is StepStatus.STARTED
