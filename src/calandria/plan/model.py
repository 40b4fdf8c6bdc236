"""A reactor's plan: its steps as a directed acyclic graph of frozen, storable data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from calandria.plan.policies import ONCE, Retry


class NodeKind(str, Enum):
    """What a node of the plan is."""

    STEP = "step"
    COMPOSE = "compose"
    MAP = "map"
    SPAWN = "spawn"
    """Dispatches an independent unit; done once that is recorded."""
    AWAIT = "await"
    """Waits for the outcome of a spawned unit, for the steps that use it."""


AWAITED = ".result"
"""What follows a spawn's name in the name of the node that awaits its outcome."""


@dataclass(frozen=True)
class Node:
    """One step of a plan, by name only: what it calls is looked up in the definition.

    `dependencies` are the steps that must be done first, by wiring or by `.after`. `target` names
    the step class, function or reactor it stands for. `compensates`, `undoes` and `reconciles`
    tell which actions it has; a compose or a map always undoes, whatever it holds.
    """

    name: str
    kind: NodeKind = NodeKind.STEP
    dependencies: tuple[str, ...] = ()
    retry: Retry = ONCE
    rollback_retry: Retry = ONCE
    compensates: bool = False
    undoes: bool = False
    reconciles: bool = False
    conditional: bool = False
    target: str = ""
    inner: Plan | None = None
    """The nested reactor's plan, of a compose or of a map over a reactor."""
    ordering: tuple[str, ...] = ()
    """Those of the dependencies that hand on no value: they come from `.after` alone."""


@dataclass(frozen=True)
class HandOff:
    """Where a run leaves the caller's process for a worker.

    At once if neither is given; else once step `after` is done, or when step `before` is reached.
    """

    after: str | None = None
    before: str | None = None

    @property
    def at_once(self) -> bool:
        """Whether nothing runs in the caller's process."""
        return self.after is None and self.before is None


@dataclass(frozen=True)
class Plan:
    """The steps of one reactor, in declaration order."""

    reactor: str
    nodes: tuple[Node, ...]
    returns: str
    concurrency: int = 1
    hand_off: HandOff | None = None
    positions: Mapping[str, int] = field(init=False, compare=False, repr=False)
    dependents: Mapping[str, tuple[str, ...]] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        positions = {node.name: position for position, node in enumerate(self.nodes)}
        dependents: dict[str, list[str]] = {node.name: [] for node in self.nodes}
        for node in self.nodes:
            for name in node.dependencies:
                dependents[name].append(node.name)
        object.__setattr__(self, "positions", positions)
        object.__setattr__(self, "dependents", {k: tuple(v) for k, v in dependents.items()})

    def node(self, name: str) -> Node:
        """Return the node called `name`; raises `KeyError` if there is none."""
        return self.nodes[self.positions[name]]
