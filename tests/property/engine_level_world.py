"""One level of a run in the small world: a plan of steps and nested levels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast

from calandria.engine.advance import advance
from calandria.engine.commands import Command, HandOver
from calandria.engine.events import Began, Event, MapEvent
from calandria.engine.node_state import NodeState
from calandria.engine.state import new_level, restore_level
from calandria.plan.model import Node, NodeKind, Plan
from tests.property.engine_facts import Budget, Choices, Script
from tests.property.engine_world import World


class LevelWorld(World):
    """Drives a plan; nested levels are opaque bodies."""

    def __init__(
        self, plan: Plan, scripts: Mapping[str, Script], numbers: Sequence[int], budget: Budget
    ) -> None:
        super().__init__(scripts, Choices(numbers), budget)
        self.plan = plan
        self.state = new_level(plan)

    def node(self, name: str) -> Node:
        return self.plan.node(name)

    def wanted(self, name: str) -> bool:
        return self.node(name).kind is not NodeKind.AWAIT or name in self.state.awaiting

    def perform_other(self, command: Command) -> None:
        assert isinstance(command, HandOver), command
        self.process.handing_over = True

    def begin(self) -> MapEvent:
        self.state = new_level(self.plan, self.plan.hand_off)
        return Began()

    def restore(self) -> None:
        copies = {name: replace(step) for name, step in self.journal.items()}
        self.state = restore_level(self.plan, copies, incomplete=self.remains)

    def tell(self, event: MapEvent) -> list[Command]:
        self.state, commands = advance(self.plan, self.state, cast("Event", event))
        return commands

    def in_memory(self) -> Mapping[str, NodeState]:
        return self.state.nodes
