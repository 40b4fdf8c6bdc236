"""A level told of events one at a time, for tests that read as the specification."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from calandria.engine.advance import advance
from calandria.engine.commands import Command
from calandria.engine.events import (
    Began,
    Event,
    Outcome,
    RolledBack,
    Settled,
    TakenUp,
    UndoAsked,
)
from calandria.engine.node_state import NodeState
from calandria.engine.state import new_level, restore_level
from calandria.plan.model import Node, NodeKind, Plan
from calandria.plan.policies import Retry


def step(name: str, *after: str, retries: int = 1, rollback_retries: int = 1) -> Node:
    """Return a step that compensates and undoes."""
    return Node(
        name,
        dependencies=after,
        retry=Retry(max_attempts=retries, jitter=0),
        rollback_retry=Retry(max_attempts=rollback_retries, jitter=0),
        compensates=True,
        undoes=True,
    )


def asking(name: str, *after: str) -> Node:
    """Return a step that can be asked whether a cut-off attempt landed."""
    return replace(step(name, *after), reconciles=True)


def nested(name: str, *after: str, kind: NodeKind = NodeKind.COMPOSE) -> Node:
    """Return a nested level."""
    return Node(name, kind=kind, dependencies=after)


class Level:
    """One level: `did` are the commands the last event led to."""

    def __init__(self, *nodes: Node, concurrency: int = 1, max_recoveries: int = 2) -> None:
        self.plan = Plan("R", nodes, nodes[-1].name, concurrency)
        self.state = new_level(self.plan)
        self.max_recoveries = max_recoveries
        self.did: list[Command] = []
        self._orders = 0

    def tell(self, event: Event) -> list[Command]:
        """Tell the engine of `event`."""
        self.state, self.did = advance(self.plan, self.state, event)
        return self.did

    def begin(self) -> list[Command]:
        """Begin the level."""
        return self.tell(Began())

    def succeed(self, name: str) -> list[Command]:
        """Let the step in flight succeed."""
        return self._end(name, Outcome.SUCCEEDED)

    def skip(self, name: str) -> list[Command]:
        """Let the step in flight be skipped."""
        return self._end(name, Outcome.SKIPPED)

    def halt(self, name: str) -> list[Command]:
        """Let the step in flight halt."""
        return self._end(name, Outcome.HALTED)

    def _end(self, name: str, outcome: Outcome) -> list[Command]:
        self._orders += 1
        return self.tell(Settled(name, outcome, self._orders))

    def fail(
        self, name: str, *, retryable: bool = True, started: bool = True, incomplete: bool = False
    ) -> list[Command]:
        """Let the step in flight fail."""
        return self.tell(
            Settled(
                name, Outcome.FAILED, retryable=retryable, started=started, incomplete=incomplete
            )
        )

    def rolled_back(self, name: str, *, ok: bool = True) -> list[Command]:
        """Let the compensate or undo in flight end."""
        return self.tell(RolledBack(name, ok))

    def crash(self, incomplete: bool = False) -> list[Command]:
        """Die, and let another process take the level up from the journal."""
        return self._restored(TakenUp(self.max_recoveries), incomplete)

    def undo(self) -> list[Command]:
        """Restore the level and undo it by hand."""
        return self._restored(UndoAsked(self.max_recoveries), False)

    def _restored(self, event: Event, incomplete: bool) -> list[Command]:
        journal: Mapping[str, NodeState] = {
            name: replace(node) for name, node in self.state.nodes.items()
        }
        self.state = restore_level(self.plan, journal, incomplete=incomplete)
        return self.tell(event)
