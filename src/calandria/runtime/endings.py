"""How levels end, and what the level around them is told."""

from __future__ import annotations

from dataclasses import dataclass, field

from calandria.definition.references import StepRoot, resolve
from calandria.engine.commands import Ending
from calandria.engine.node_state import NodeState
from calandria.plan.model import Node, NodeKind
from calandria.ports.codec import Codec
from calandria.results import Failure, RollbackFailure
from calandria.runtime.levels import Level, MapLevel, ReactorLevel
from calandria.runtime.outcomes import WorkerStopping
from calandria.runtime.session import Session
from calandria.runtime.values import Value
from calandria.statuses import StepRollback, StepStatus


@dataclass(frozen=True)
class LevelOutcome:
    """What an execution's outermost level came to."""

    ending: Ending
    incomplete: bool = False
    value: Value | None = None
    failure: Failure | None = None
    halt_reason: str | None = None
    rollback_failures: list[RollbackFailure] = field(default_factory=list)
    pending_compensation: str | None = None
    interruption: BaseException | None = None


@dataclass(frozen=True)
class Suspension:
    """An execution stopped short: the run goes on in a worker, in `delay` seconds or sooner.

    `waits_for` is what it waits for; `None` if it was handed over to go on at once.
    """

    waits_for: str | None = None
    delay: float = 0.0


def interrupted_in_worker(cause: BaseException, session: Session) -> Suspension:
    """Return how a run steps aside that was interrupted in a worker.

    At once where the worker is only stopping; else after a while, so that what interrupts every
    process that tries is not tried without pause.
    """
    if isinstance(cause, WorkerStopping):
        return Suspension()
    delay = session.services.settings.snooze_seconds(session.randomness())
    return Suspension(f"another attempt after {type(cause).__name__}", delay)


def pending_compensation(level: Level) -> str | None:
    """Return the path of a step that was cut off or failed and is not compensated, if any."""
    if level.pending_compensation is not None:
        return level.pending_compensation
    if isinstance(level, MapLevel):
        element, in_hand = level.state.step, level.in_hand
        if element is None or in_hand is None:
            return None
        return in_hand.path if _is_pending(level.element_node, element) else None
    assert isinstance(level, ReactorLevel)
    for name, state in level.state.nodes.items():
        if _is_pending(level.plan.node(name), state):
            return level.path(name)
    return None


def _is_pending(node: Node, state: NodeState) -> bool:
    unfinished = state.status in (StepStatus.STARTED, StepStatus.RETRYING, StepStatus.FAILED)
    outstanding = state.rollback is not StepRollback.COMPENSATED and state.attempts > 0
    has_work = node.compensates or state.nested
    return node.kind is NodeKind.STEP and has_work and unfinished and outstanding


def returned_value(level: ReactorLevel, codec: Codec) -> Value:
    """Resolve and record what a reactor returns; raises whatever stands in the way of that."""
    reference = level.definition.returns
    where = f"{level.reactor_name}, returns"
    if not reference.operations and isinstance(reference.root, StepRoot):
        slot = level.slots.get(reference.root.name)
        if slot is not None and slot.result is not None:
            return slot.result
    return Value.record(resolve(reference, level, where), codec)
