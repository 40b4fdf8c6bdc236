"""A map in the small world: a source that is read on, elements, and a bulk undo."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from calandria.engine.commands import BeginRollback, Command, FindOutstanding, RunStep, UndoAll
from calandria.engine.events import (
    AllUndone,
    Began,
    Exhausted,
    Found,
    MapEvent,
    NoneLeft,
    SourceFailed,
    Stopped,
)
from calandria.engine.maps import MapPlan, MapState, advance_map, restore_map
from calandria.engine.node_state import NodeState
from calandria.plan.model import Node
from calandria.statuses import StepRollback, StepStatus
from tests.property.engine_facts import Action, Budget, Choices, Did, Heard, Recorded, Script
from tests.property.engine_model import FAILED_ROLLBACKS
from tests.property.engine_world import World

BULK = "*"
"""Stands for all elements at once."""


@dataclass(frozen=True)
class Source:
    """What a map is over: so many elements, and where reading it fails, if it does."""

    size: int
    fails_at: int | None = None
    heals: bool = False
    """It fails only once."""


class MapWorld(World):
    """Drives one map; its elements are opaque bodies."""

    def __init__(
        self,
        plan: MapPlan,
        source: Source,
        scripts: Sequence[Script],
        numbers: Sequence[int],
        budget: Budget,
        bulk_fails: bool = False,
    ) -> None:
        named = {str(index): script for index, script in enumerate(scripts)}
        super().__init__(named, Choices(numbers), budget)
        self.plan = plan
        self.source = source
        self.bulk_fails = bulk_fails
        self.state = MapState()
        self._in_hand: dict[str, NodeState] = {}
        """The element that was in hand before the last event: the event may have been its end."""
        self.going_back = False
        """The journal says that the map's own work failed: its source could not be read on."""
        self._turned = False
        self._also_told: list[MapEvent] = []
        self._reads_that_failed = 0

    def node(self, name: str) -> Node:
        return replace(self.plan.element, name=name)

    def begin(self) -> MapEvent:
        self.state, self._in_hand = MapState(), {}
        return Began()

    def restore(self) -> None:
        highest = max(map(int, self.journal), default=-1)
        step = replace(self.journal[str(highest)]) if self.journal else None
        failed = any(step.rollback in FAILED_ROLLBACKS for step in self.journal.values())
        self._in_hand = {}
        self.state = restore_map(
            self.plan,
            highest,
            step,
            going_back=self.going_back,
            incomplete=failed or self.remains,
        )

    def in_memory(self) -> Mapping[str, NodeState]:
        return {**self._in_hand, **self._now_in_hand()}

    def _now_in_hand(self) -> dict[str, NodeState]:
        return {} if self.state.step is None else {str(self.state.index): self.state.step}

    def tell(self, event: MapEvent) -> list[Command]:
        self._in_hand = self._now_in_hand()
        commands = advance_map(self.plan, self.state, event)[1]
        self._also_told = self._read_on(commands)
        if self._also_told:
            # there is no such element: the engine is told so instead of its start being performed
            commands = []
        for more in self._also_told:
            commands += advance_map(self.plan, self.state, more)[1]
        self._turned = any(isinstance(command, BeginRollback) for command in commands)
        return commands

    def _read_on(self, commands: list[Command]) -> list[MapEvent]:
        """Return why there is no element for a start the engine wants; a stop may come first."""
        match commands:
            case [RunStep(name)] if name not in self.journal:
                index = int(name)
            case _:
                return []
        fails = index == self.source.fails_at
        if fails and self.source.heals and self._reads_that_failed:
            fails = False
        if not fails and index < self.source.size:
            return []
        why = self.maybe_stopping()
        self._reads_that_failed += fails
        stopping: list[MapEvent] = [] if why is None else [Stopped(why)]
        return [*stopping, SourceFailed() if fails else Exhausted()]

    def on_committed(self, event: MapEvent) -> None:
        super().on_committed(event)
        self.history.extend(Heard(told) for told in self._also_told)
        if SourceFailed() in self._also_told and self._turned:
            self.going_back = True
        if event == AllUndone(ok=True):
            for name, step in self.journal.items():
                if self._is_for_bulk_undo(step):
                    self.journal[name] = replace(step, rollback=StepRollback.UNDONE)
                    self.history.append(Recorded(name, step, self.journal[name]))

    def perform_other(self, command: Command) -> None:
        match command:
            case FindOutstanding(below, cut_off_only, failed_too):
                self.process.ended.append(self._find(below, cut_off_only, failed_too))
            case UndoAll():
                if any(self._is_for_bulk_undo(step) for step in self.journal.values()):
                    self.do(Did(Action.UNDO_ALL, BULK))
                else:
                    self.process.ended.append(AllUndone(ok=True))
            case _:
                super().perform_other(command)

    def _is_for_bulk_undo(self, step: NodeState) -> bool:
        return step.status is StepStatus.COMPLETED and step.rollback is not StepRollback.UNDONE

    def _find(self, below: int | None, cut_off_only: bool, failed_too: bool) -> MapEvent:
        for index in range(len(self.journal) - 1 if below is None else below - 1, -1, -1):
            step = self.journal[str(index)]
            passed_over = cut_off_only and step.status is StepStatus.COMPLETED
            if passed_over or step.rollback in (StepRollback.UNDONE, StepRollback.COMPENSATED):
                continue
            if step.rollback in FAILED_ROLLBACKS and not failed_too:
                self.state.incomplete = True
                continue
            return Found(str(index), replace(step))
        return NoneLeft()

    def end_of_backward(self, did: Did) -> MapEvent:
        if did.action is Action.UNDO_ALL:
            return AllUndone(ok=not (self.bulk_fails and self.rollbacks < 2))
        return super().end_of_backward(did)
