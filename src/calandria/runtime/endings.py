"""How levels end, and what the level around them is told."""

from __future__ import annotations

from dataclasses import dataclass, field

from calandria.definition.references import StepRoot, resolve
from calandria.engine.commands import Ending
from calandria.plan.model import NodeKind
from calandria.ports.codec import Codec
from calandria.results import Failure, RollbackFailure
from calandria.runtime.levels import Level, ReactorLevel
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


def pending_compensation(level: Level) -> str | None:
    """Return the path of a step that was cut off or failed and is not compensated, if any."""
    if level.pending_compensation is not None or not isinstance(level, ReactorLevel):
        return level.pending_compensation
    for name, state in level.state.nodes.items():
        node = level.plan.node(name)
        unfinished = state.status in (
            StepStatus.STARTED,
            StepStatus.RETRYING,
            StepStatus.FAILED,
        )
        outstanding = state.rollback is not StepRollback.COMPENSATED and state.attempts > 0
        if node.kind is NodeKind.STEP and node.compensates and unfinished and outstanding:
            return level.path(name)
    return None


def returned_value(level: ReactorLevel, codec: Codec) -> Value:
    """Resolve and record what a reactor returns; raises whatever stands in the way of that."""
    reference = level.definition.returns
    where = f"{level.reactor_name}, returns"
    if not reference.operations and isinstance(reference.root, StepRoot):
        slot = level.slots.get(reference.root.name)
        if slot is not None and slot.result is not None:
            return slot.result
    return Value.record(resolve(reference, level, where), codec)
