"""The bodies of actions: a unit bound to its inputs and its context, ready to be performed."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from calandria.definition.unit import ActionName, StepUnit
from calandria.engine.node_state import NodeState
from calandria.results import Failure, RecordedFailure
from calandria.runtime.context import Context
from calandria.runtime.effects import Body
from calandria.runtime.environment import Environment
from calandria.runtime.gates import enter_execution, leave_execution
from calandria.runtime.levels import Level, MapLevel
from calandria.runtime.nested import NestedWork
from calandria.runtime.paging import steps_in
from calandria.runtime.slots import Slot
from calandria.runtime.values import load_inputs
from calandria.statuses import StepRollback, StepStatus


@dataclass(slots=True, eq=False)
class Flight:
    """An action under way: which, of which step, at which level."""

    level: Level
    name: str
    state: NodeState
    slot: Slot
    action: str


def run_body(
    environment: Environment, level: Level, name: str, state: NodeState, slot: Slot
) -> Body:
    """Return the body of an attempt at a step."""
    unit = _unit(level, name)
    nested = NestedWork(environment, level, name, state, slot)
    slot.nested = nested
    context = Context(environment, level, slot, "run", state.attempts, nested)
    values = slot.values if slot.values is not None else {}
    flight = Flight(level, name, state, slot, "run")
    if unit.is_async("run"):

        async def arun() -> object:
            enter_execution(environment.session.run_id)
            try:
                value = await unit.invoke("run", values, context)  # type: ignore[misc]
            finally:
                nested.close()
            await nested.adrop_leftovers()
            return value

        return Body(arun, True, flight, alone=level.alone, path=slot.path)

    def run() -> object:
        outside = enter_execution(environment.session.run_id)
        try:
            value = unit.invoke("run", values, context)
        finally:
            nested.close()
            leave_execution(outside)
        if nested.used:
            nested.drop_leftovers()
        return value

    return Body(run, False, flight, alone=level.alone, path=slot.path)


def reconcile_body(
    environment: Environment, level: Level, name: str, state: NodeState, slot: Slot
) -> Body:
    """Return the body that asks whether a cut-off attempt landed."""
    unit = _unit(level, name)
    context = Context(environment, level, slot, "reconcile", state.attempts, None)
    values = load_inputs(slot.inputs_text, environment.codec)
    flight = Flight(level, name, state, slot, "reconcile")
    return _inside(
        environment,
        lambda: unit.invoke("reconcile", values, context),
        unit.is_async("reconcile"),
        flight,
    )


def backward_body(
    environment: Environment,
    level: Level,
    name: str,
    state: NodeState,
    slot: Slot,
    action: ActionName,
) -> Body:
    """Return the body of a step's compensate or undo, its nested work rolled back after it."""
    unit = _unit(level, name)
    context = Context(environment, level, slot, action, state.rollback_attempts, None)
    values = load_inputs(slot.inputs_text, environment.codec)
    slot.values = values
    extra: Any = slot.reason if slot.reason is not None else _CUT_OFF_REASON
    if action == "undo":
        extra = None if slot.result is None else slot.result.fresh()
    nested = None
    if state.nested:
        nested = NestedWork(environment, level, name, state, slot, backward=True)
    flight = Flight(level, name, state, slot, action)
    own = unit.has(action)
    if own and unit.is_async(action):

        async def aback() -> object:
            enter_execution(environment.session.run_id)
            value = await unit.invoke(action, values, context, extra)  # type: ignore[misc]
            if nested is not None and not _is_failure(value):
                await nested.aroll_back()
            return value

        return Body(aback, True, flight, backward=True, alone=level.alone, path=slot.path)

    def back() -> object:
        outside = enter_execution(environment.session.run_id)
        try:
            value = unit.invoke(action, values, context, extra) if own else None
        finally:
            leave_execution(outside)
        if nested is not None and not _is_failure(value):
            nested.roll_back()
        return value

    return Body(back, False, flight, backward=True, alone=level.alone)


def undo_all_body(environment: Environment, level: MapLevel) -> Body:
    """Return the body of a map's bulk undo: one call with the completed elements' results."""
    undo_all = level.options.undo_all
    assert undo_all is not None
    flight = Flight(level, level.key, NodeState(), Slot(level.scope), "undo_all")

    def call() -> object:
        first = next(iter(CompletedResults(environment, level.scope)), _NOTHING)
        if first is _NOTHING:
            return None
        return undo_all(CompletedResults(environment, level.scope))

    is_async = inspect.iscoroutinefunction(undo_all)
    return _inside(environment, call, is_async, flight, backward=True)


def _inside(
    environment: Environment,
    call: Callable[[], Any],
    is_async: bool,
    flight: Flight,
    *,
    backward: bool = False,
) -> Body:
    """Return the body that makes a call as a part of this execution."""

    async def acall_inside() -> object:
        outside = enter_execution(environment.session.run_id)
        try:
            value = call()
            return await value if inspect.isawaitable(value) else value
        finally:
            leave_execution(outside)

    def call_inside() -> object:
        outside = enter_execution(environment.session.run_id)
        try:
            return call()
        finally:
            leave_execution(outside)

    inside = acall_inside if is_async else call_inside
    return Body(inside, is_async, flight, backward=backward, alone=flight.level.alone)


_NOTHING: Any = object()
_CUT_OFF_REASON = RecordedFailure("The attempt was cut off before it ended.", "CutOff")
_COMPLETED = frozenset({StepStatus.COMPLETED})


class CompletedResults:
    """The results of a map's completed elements, in index order, read page by page."""

    def __init__(self, environment: Environment, path: str) -> None:
        self._environment = environment
        self._path = path

    def __iter__(self) -> Iterator[Any]:
        store, codec = self._environment.store, self._environment.codec
        for record in steps_in(store, self._environment.run.run_id, self._path, _COMPLETED):
            if record.progress.rollback is StepRollback.NONE:
                text = record.progress.result
                yield None if text is None else codec.decode(text)


def _unit(level: Level, name: str) -> StepUnit:
    unit = level.definition_of(name).unit
    assert unit is not None
    return unit


def _is_failure(value: object) -> bool:
    return isinstance(value, Failure)
