"""Opening a level again from the journal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from calandria.definition.node_definition import ReactorDefinition
from calandria.engine.maps import MapState, restore_map
from calandria.engine.node_state import NodeState
from calandria.engine.rollback import GIVEN_UP
from calandria.engine.state import restore_level
from calandria.errors import RunStateError
from calandria.plan.model import AWAITED
from calandria.ports.run_store import StepRecord
from calandria.runtime.environment import Environment
from calandria.runtime.levels import NOTHING_REDACTED, Level, MapLevel, ReactorLevel
from calandria.runtime.paging import steps_in
from calandria.runtime.slots import Slot, node_state_of
from calandria.statuses import StepRollback, StepStatus


class DefinitionChanged(RunStateError):
    """A run has steps that its reactor does not have any more; nothing was done."""


def restore_reactor(
    environment: Environment,
    definition: ReactorDefinition,
    inputs: dict[str, Any],
    *,
    scope: str = "",
    parent: Level | None = None,
    key: str = "",
    redacted_inputs: frozenset[str] = NOTHING_REDACTED,
) -> ReactorLevel:
    """Return a reactor's level as the journal left it.

    Raises `DefinitionChanged` naming the steps of the run that the reactor does not have.
    """
    nodes: dict[str, NodeState] = {}
    slots: dict[str, Slot] = {}
    unknown: list[str] = []
    for record in records_in(environment, scope):
        name = record.path[len(scope) + 1 :] if scope else record.path
        if name not in definition.plan.positions:
            if not name.endswith(AWAITED):
                unknown.append(record.path)
            continue
        nodes[name] = node_state_of(record)
        slots[name] = Slot.of_record(record, environment.codec)
    if unknown:
        raise definition_changed(environment.run.run_id, definition.name, unknown)
    level = ReactorLevel(
        definition,
        restore_level(definition.plan, nodes, incomplete=_left_something(nodes, slots)),
        inputs,
        scope=scope,
        parent=parent,
        key=key,
        redacted_inputs=redacted_inputs,
    )
    level.slots = slots
    _recall_failures(level, nodes)
    return level


def definition_changed(run_id: str, reactor: str, unknown: Sequence[str]) -> DefinitionChanged:
    """Return the error for a run whose steps its reactor has lost."""
    return DefinitionChanged(
        f"Run {run_id} has done {', '.join(map(repr, unknown))}, which {reactor} "
        "does not have any more: the step was renamed or removed after the run began. Nothing was "
        "done; use a version of the reactor that still has it."
    )


def _recall_failures(level: ReactorLevel, nodes: dict[str, NodeState]) -> None:
    for name, state in nodes.items():
        slot = level.slots[name]
        if state.status is StepStatus.FAILED and level.failure is None:
            level.failure = slot.failure
        if state.rollback not in _SETTLED_BACK:
            level.rollback_failures.extend(slot.rollback_failures)


def _left_something(nodes: dict[str, NodeState], slots: dict[str, Slot]) -> bool:
    return any(
        slots[name].rollback_failures and state.rollback not in _SETTLED_BACK
        for name, state in nodes.items()
    )


def records_in(environment: Environment, scope: str) -> Iterator[StepRecord]:
    """Return the records directly in a scope of the run, by position, read a page at a time."""
    return steps_in(environment.store, environment.run.run_id, scope)


def restore_map_level(environment: Environment, around: ReactorLevel, key: str) -> MapLevel:
    """Return a map's level as the journal left it."""
    node = around.node(key)
    level = MapLevel(around, key, MapState(), node, around.definition_of(key))
    own = around.slots.get(key)
    failure = None if own is None else own.failure
    last = environment.store.read_steps(
        environment.run.run_id, level.scope, descending=True, limit=1
    )
    if last:
        record = last[0]
        state = node_state_of(record)
        level.state = restore_map(
            level.map_plan, record.position, state, going_back=failure is not None
        )
        level.in_hand = Slot.of_record(record, environment.codec)
        level.skip = record.position + 1
        if state.status is StepStatus.FAILED and not level.map_plan.keep_going:
            level.failure = level.in_hand.failure
    level.failure = failure or level.failure
    return level


def find_outstanding(
    environment: Environment,
    level: MapLevel,
    below: int | None,
    *,
    cut_off_only: bool,
    failed_too: bool,
) -> tuple[str, NodeState] | None:
    """Return the map's highest element with something outstanding, and put it in hand.

    What its rollback could not do on an earlier try is noted at the level in passing, unless
    `failed_too` has those tried again.
    """
    statuses = _CUT_OFF if cut_off_only else frozenset[StepStatus]()
    for record in _downwards(environment, level, below, statuses):
        state = node_state_of(record)
        skipped = state.status is StepStatus.SKIPPED and not state.nested
        if state.rollback in _SETTLED_BACK or skipped:
            continue
        slot = Slot.of_record(record, environment.codec)
        if state.rollback in GIVEN_UP and not failed_too:
            known = set(level.rollback_failures)
            level.rollback_failures.extend(
                failure for failure in slot.rollback_failures if failure not in known
            )
            level.state.incomplete = True
            continue
        level.in_hand = slot
        return str(record.position), state
    return None


def _downwards(
    environment: Environment, level: MapLevel, below: int | None, statuses: frozenset[StepStatus]
) -> Iterator[StepRecord]:
    """Yield a map's records from the one before `below` down to the first.

    What was read ahead is kept at the level for the next time: nobody else writes to it meanwhile.
    """
    while True:
        while level.read_ahead:
            record = level.read_ahead.popleft()
            below = record.position
            yield record
        page = environment.store.read_steps(
            environment.run.run_id,
            level.scope,
            before=below,
            statuses=statuses,
            descending=True,
            limit=READ_AHEAD,
        )
        if not page:
            return
        level.read_ahead.extend(page)


READ_AHEAD = 100
"""Elements: enough that reading them costs little, and few enough to hold with their results."""


_SETTLED_BACK = frozenset({StepRollback.UNDONE, StepRollback.COMPENSATED})
_CUT_OFF = frozenset(
    {StepStatus.STARTED, StepStatus.RETRYING, StepStatus.HALTED, StepStatus.FAILED}
)
