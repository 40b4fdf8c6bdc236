"""Where one level of a run stands: a reactor's steps, as the engine sees them.

A level is the run itself, a composed reactor, or a map's element that is a reactor. The state is
owned by whoever drives the level and is changed in place, so that one decision costs the same in
a plan of ten steps and of ten thousand.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from heapq import heappush

from calandria.engine.commands import Ending
from calandria.engine.node_state import NodeState
from calandria.plan.model import HandOff, Node, NodeKind, Plan
from calandria.statuses import StepRollback, StepStatus


class Phase(str, Enum):
    """What a level is doing."""

    FORWARD = "forward"
    DRAINING = "draining"
    """Nothing new starts; what is in flight settles."""
    ROLLING_BACK = "rolling_back"
    DONE = "done"


@dataclass(slots=True)
class LevelState:
    """Where a level stands."""

    nodes: dict[str, NodeState] = field(default_factory=dict)
    """The steps that were reached."""
    unmet: dict[str, int] = field(default_factory=dict)
    """For each step not reached, how many of its dependencies are not done."""
    ready: list[int] = field(default_factory=list)
    """A heap of the positions of steps that may start."""
    in_flight: set[str] = field(default_factory=set)
    awaiting: set[str] = field(default_factory=set)
    """Those in flight that only wait for a spawned unit: they keep nothing else from starting."""
    waiting: set[str] = field(default_factory=set)
    """Steps whose next attempt is scheduled."""
    due: list[str] = field(default_factory=list)
    """Those of them whose delay is over and that wait only for a place among those in flight."""
    blocked: set[str] = field(default_factory=set)
    """Steps that were to start and wait for a key; others go first."""
    phase: Phase = Phase.FORWARD
    ending: Ending = Ending.COMPLETED
    to_roll_back: list[str] = field(default_factory=list)
    """What a rollback has still to do; the next one is last."""
    incomplete: bool = False
    max_recoveries: int = 0
    hand_off: HandOff | None = None
    """Where a worker is to go on; only in the process that was asked to run the reactor."""
    handing_over: bool = False

    @property
    def working(self) -> int:
        """How many steps in flight count towards the reactor's concurrency."""
        return len(self.in_flight) - len(self.awaiting)


def new_level(plan: Plan, hand_off: HandOff | None = None) -> LevelState:
    """Return the state of a level that has not begun."""
    state = LevelState(hand_off=hand_off)
    for position, node in enumerate(plan.nodes):
        state.unmet[node.name] = len(node.dependencies)
        if not node.dependencies:
            heappush(state.ready, position)
    return state


DONE_STATUSES = frozenset({StepStatus.COMPLETED, StepStatus.SKIPPED})


def restore_level(
    plan: Plan, nodes: Mapping[str, NodeState], *, incomplete: bool = False
) -> LevelState:
    """Fold what the journal says of each step back into the state of the level.

    `incomplete` says that the journal holds rollback failures of levels below.
    """
    state = LevelState(nodes=dict(nodes), incomplete=incomplete)
    done = {name for name, node in nodes.items() if node.status in DONE_STATUSES}
    for position, node in enumerate(plan.nodes):
        if node.name in nodes:
            continue
        unmet = sum(1 for name in node.dependencies if name not in done)
        state.unmet[node.name] = unmet
        if unmet == 0:
            heappush(state.ready, position)
    statuses = {node.status for node in nodes.values()}
    going_back = any(node.rollback is not StepRollback.NONE for node in nodes.values())
    if StepStatus.FAILED in statuses or going_back:
        state.phase, state.ending = Phase.DRAINING, Ending.FAILED
    elif StepStatus.HALTED in statuses:
        state.phase, state.ending = Phase.DRAINING, Ending.HALTED
    return state


class Backward(str, Enum):
    """What a rollback does with a step."""

    COMPENSATE = "compensate"
    UNDO = "undo"
    RECONCILE = "reconcile"
    """Ask first whether a cut-off attempt landed: if so it is undone, else compensated."""


def backward_action(node: Node, state: NodeState) -> Backward | None:
    """Return what a rollback has still to do about a step, or `None` if nothing is outstanding."""
    if state.rollback in (StepRollback.UNDONE, StepRollback.COMPENSATED):
        return None
    if node.kind in (NodeKind.SPAWN, NodeKind.AWAIT):
        # what was spawned is independent: it is no part of this rollback
        return None
    if node.kind is not NodeKind.STEP:
        touched = state.attempts > 0 and state.status is not StepStatus.SKIPPED
        return Backward.UNDO if touched else None
    if state.status is StepStatus.COMPLETED:
        return Backward.UNDO if node.undoes or state.nested else None
    if state.status in (StepStatus.SKIPPED, StepStatus.HALTED) or state.attempts == 0:
        return Backward.UNDO if state.nested else None
    in_doubt = state.status is StepStatus.STARTED and state.rollback is StepRollback.NONE
    if in_doubt and node.reconciles:
        return Backward.RECONCILE
    return Backward.COMPENSATE if node.compensates or state.nested else None


def rollback_order(plan: Plan, state: LevelState) -> list[str]:
    """Return the steps with something outstanding, in the reverse of the order to take them.

    What failed or was cut off comes first, then what completed, newest first.
    """
    failed: list[tuple[int, str]] = []
    completed: list[tuple[int, str]] = []
    for name, step in state.nodes.items():
        node = plan.node(name)
        if backward_action(node, step) is None:
            continue
        if step.order is None:
            failed.append((plan.positions[name], name))
        else:
            completed.append((step.order, name))
    return [name for _, name in sorted(completed)] + [name for _, name in sorted(failed)]
