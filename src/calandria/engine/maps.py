"""The decision core of a map that runs in this process: its elements one at a time, in order.

Nothing here grows with the number of elements: only the one in hand has a state, and a rollback
asks for the next outstanding element instead of keeping a list.
"""

from __future__ import annotations

from dataclasses import dataclass

from calandria.engine.commands import (
    BeginRollback,
    Command,
    Ending,
    FindOutstanding,
    Finish,
    GiveUp,
    Reconcile,
    RetryLater,
    RunStep,
    UndoAll,
)
from calandria.engine.events import (
    AllUndone,
    Began,
    Blocked,
    Exhausted,
    Found,
    MapEvent,
    NoneLeft,
    Outcome,
    Reconciled,
    RetryDue,
    RollbackCutOff,
    RollbackRetryDue,
    RolledBack,
    Settled,
    SourceFailed,
    Stopped,
    Stopping,
    TakenUp,
    Unblocked,
    UndoAsked,
)
from calandria.engine.node_state import NodeState
from calandria.engine.rollback import (
    GIVEN_UP,
    backward_command,
    next_attempt,
    settle_backward,
    start_backward,
)
from calandria.engine.state import Phase
from calandria.plan.model import Node, NodeKind
from calandria.statuses import StepRollback, StepStatus


@dataclass(frozen=True, slots=True)
class MapPlan:
    """What the engine needs to know of a map: its element as a node, and its options."""

    element: Node
    keep_going: bool = False
    undo_all: bool = False


@dataclass(slots=True)
class MapState:
    """Where a map stands."""

    index: int = -1
    """The element in hand, or the last one that was."""
    step: NodeState | None = None
    """The state of the element in hand."""
    in_flight: bool = False
    phase: Phase = Phase.FORWARD
    ending: Ending = Ending.COMPLETED
    incomplete: bool = False
    max_recoveries: int = 0
    failed_too: bool = False
    """Whether the rollback also takes elements whose rollback was tried before and failed."""


def restore_map(
    plan: MapPlan,
    index: int,
    step: NodeState | None,
    *,
    going_back: bool = False,
    incomplete: bool = False,
) -> MapState:
    """Return the state of a map from the record of its highest element; -1 if it has none.

    `going_back` says that the journal has a failure of the map itself: its source could not be
    read on. `incomplete` says that it holds rollback failures of elements.
    """
    state = MapState(index=index, step=step, incomplete=incomplete)
    if step is not None and step.status is StepStatus.FAILED:
        going_back = going_back or not plan.keep_going
    elif step is not None and step.rollback is not StepRollback.NONE:
        going_back = True
    if going_back:
        state.phase, state.ending = Phase.ROLLING_BACK, Ending.FAILED
    return state


def advance_map(plan: MapPlan, state: MapState, event: MapEvent) -> tuple[MapState, list[Command]]:
    """Return the state after `event`, and what is to be done now; see `advance`."""
    if state.phase is Phase.DONE:
        return state, []
    commands: list[Command] = []
    match event:
        case Began():
            commands = _next_element(state)
        case Settled():
            commands = _settled(plan, state, event)
        case Blocked():
            state.in_flight = False
            commands = [_finish(state)] if state.phase is Phase.DRAINING else []
        case Unblocked():
            commands = _try_again(state)
        case RetryDue():
            commands = _retry(state)
        case Exhausted():
            state.index, state.step, state.in_flight = state.index - 1, None, False
            commands = [_finish(state)]
        case SourceFailed():
            state.index, state.step, state.in_flight = state.index - 1, None, False
            stopped = state.phase is Phase.DRAINING
            commands = [_finish(state)] if stopped else _roll_back(plan, state, Ending.FAILED)
        case RolledBack():
            commands = _rolled_back(plan, state, event)
        case RollbackRetryDue():
            commands = _retry_backward(state)
        case RollbackCutOff():
            state.in_flight = False
            commands = [_finish(state)]
        case Found(name, step):
            state.index, state.step = int(name), step
            commands = _backward(plan, state)
        case NoneLeft():
            commands = _all_elements_back(plan, state)
        case AllUndone(ok):
            state.in_flight = False
            state.incomplete = state.incomplete or not ok
            commands = [_finish(state)]
        case Reconciled():
            commands = _reconciled(plan, state, event)
        case Stopped(why):
            commands = _stop(state, why)
        case TakenUp(max_recoveries):
            state.max_recoveries = max_recoveries
            commands = _take_up(plan, state)
        case UndoAsked(max_recoveries, by_hand):
            state.max_recoveries = max_recoveries
            state.incomplete, state.failed_too = False, by_hand
            commands = _roll_back(plan, state, Ending.UNDONE)
    return state, commands


def _finish(state: MapState) -> Finish:
    state.phase = Phase.DONE
    return Finish(state.ending, state.incomplete)


def _next_element(state: MapState) -> list[Command]:
    state.index += 1
    state.step = NodeState(StepStatus.STARTED, attempts=1)
    state.in_flight = True
    return [RunStep(str(state.index), 1)]


def _in_hand(state: MapState) -> NodeState:
    assert state.step is not None
    return state.step


def _settled(plan: MapPlan, state: MapState, event: Settled) -> list[Command]:
    step = _in_hand(state)
    state.in_flight = False
    step.nested = step.nested or event.nested
    # an attempt that a crash cut off may have begun its work, whatever came of repeating it
    started = event.started or step.recoveries > 0
    if not started:
        step.attempts -= 1
    state.incomplete = state.incomplete or event.incomplete
    forward = state.phase is Phase.FORWARD
    match event.outcome:
        case Outcome.SUCCEEDED | Outcome.SKIPPED | Outcome.HALTED:
            step.move(_SETTLED_STATUS[event.outcome])
            step.order = event.order
            return _next_element(state) if forward else [_finish(state)]
        case Outcome.CUT_OFF:
            return [_finish(state)]
        case Outcome.FAILED:
            if forward and event.retryable and step.attempts < plan.element.retry.max_attempts:
                step.move(StepStatus.RETRYING)
                delay = plan.element.retry.delay_after(step.attempts, event.randomness)
                return [RetryLater(str(state.index), delay)]
            step.move(StepStatus.FAILED)
            if plan.element.kind is not NodeKind.STEP and event.started:
                step.roll(StepRollback.UNDO_FAILED if event.incomplete else StepRollback.UNDONE)
            return _compensate_element(plan, state) if forward else [_finish(state)]


_SETTLED_STATUS = {
    Outcome.SUCCEEDED: StepStatus.COMPLETED,
    Outcome.SKIPPED: StepStatus.SKIPPED,
    Outcome.HALTED: StepStatus.HALTED,
}


def _compensate_element(plan: MapPlan, state: MapState) -> list[Command]:
    """Let the failed element roll itself back; then the map goes on, or goes back."""
    step = _in_hand(state)
    if plan.element.kind is NodeKind.STEP and step.rollback not in GIVEN_UP:
        command = start_backward(_named(plan.element, state), step, state.max_recoveries)
        if command is not None:
            state.in_flight = True
            return [command]
    return _element_failed(plan, state)


def _element_failed(plan: MapPlan, state: MapState) -> list[Command]:
    if plan.keep_going:
        return _next_element(state)
    return _roll_back(plan, state, Ending.FAILED)


def _try_again(state: MapState) -> list[Command]:
    step = _in_hand(state)
    if state.phase is not Phase.FORWARD or step.status is not StepStatus.STARTED:
        return []
    if state.in_flight:
        return []
    state.in_flight = True
    return [RunStep(str(state.index), step.attempts, recovery=step.recoveries > 0)]


def _retry(state: MapState) -> list[Command]:
    step = _in_hand(state)
    if state.phase is not Phase.FORWARD or step.status is not StepStatus.RETRYING:
        return []
    step.move(StepStatus.STARTED)
    step.attempts += 1
    step.recoveries = 0
    state.in_flight = True
    return [RunStep(str(state.index), step.attempts)]


def _stop(state: MapState, why: Stopping) -> list[Command]:
    if state.phase is Phase.DONE:
        return []
    if why is Stopping.CANCELLED and state.phase is not Phase.FORWARD:
        return []
    state.ending = Ending.ABORTED if why is Stopping.ABORTED else Ending.CANCELLED
    state.phase = Phase.DRAINING
    return [] if state.in_flight else [_finish(state)]


def _take_up(plan: MapPlan, state: MapState) -> list[Command]:
    step = state.step
    if state.phase is Phase.ROLLING_BACK:
        return _roll_back(plan, state, Ending.FAILED)
    if step is None or step.status not in (
        StepStatus.STARTED,
        StepStatus.RETRYING,
        StepStatus.FAILED,
    ):
        return _next_element(state)
    name = str(state.index)
    if step.status is StepStatus.FAILED:
        return _compensate_element(plan, state)
    if step.status is StepStatus.RETRYING:
        return [RetryLater(name, None)]
    state.in_flight = True
    step.recoveries += 1
    if plan.element.kind is not NodeKind.STEP:
        return [RunStep(name, step.attempts, recovery=True)]
    if step.recoveries > state.max_recoveries:
        return [GiveUp(name)]
    if plan.element.reconciles:
        return [Reconcile(name)]
    return [RunStep(name, step.attempts, recovery=True)]


def _roll_back(plan: MapPlan, state: MapState, ending: Ending) -> list[Command]:
    state.phase, state.ending = Phase.ROLLING_BACK, ending
    return [BeginRollback(), _find_below(plan, state, None)]


def _find_below(plan: MapPlan, state: MapState, below: int | None) -> FindOutstanding:
    return FindOutstanding(below, cut_off_only=plan.undo_all, failed_too=state.failed_too)


def _backward(plan: MapPlan, state: MapState) -> list[Command]:
    step = _in_hand(state)
    if step.status is StepStatus.RETRYING:
        step.move(StepStatus.FAILED)
    command = start_backward(_named(plan.element, state), step, state.max_recoveries)
    if command is None:
        return [_find_below(plan, state, state.index)]
    state.in_flight = True
    return [command]


def _retry_backward(state: MapState) -> list[Command]:
    step = _in_hand(state)
    if state.phase not in (Phase.ROLLING_BACK, Phase.FORWARD) or state.in_flight:
        return []
    next_attempt(step)
    state.in_flight = True
    return [backward_command(str(state.index), step)]


def _rolled_back(plan: MapPlan, state: MapState, event: RolledBack) -> list[Command]:
    state.in_flight = False
    later = settle_backward(_named(plan.element, state), _in_hand(state), event)
    state.incomplete = state.incomplete or (later is None and not event.ok)
    if state.phase is Phase.DRAINING:
        return [_finish(state)]
    if later is not None:
        return [later]
    if state.phase is Phase.FORWARD:
        return _element_failed(plan, state)
    return [_find_below(plan, state, state.index)]


def _all_elements_back(plan: MapPlan, state: MapState) -> list[Command]:
    if plan.undo_all:
        state.in_flight = True
        return [UndoAll()]
    return [_finish(state)]


def _reconciled(plan: MapPlan, state: MapState, event: Reconciled) -> list[Command]:
    step = _in_hand(state)
    if state.phase is Phase.ROLLING_BACK:
        state.in_flight = False
        if event.outcome is Outcome.SUCCEEDED:
            step.move(StepStatus.COMPLETED)
            step.order = event.order
        else:
            failed = event.outcome in (None, Outcome.FAILED)
            step.move(StepStatus.FAILED if failed else StepStatus.SKIPPED)
        if plan.undo_all and step.status is StepStatus.COMPLETED:
            return [_find_below(plan, state, state.index)]  # the bulk undo reverses it
        return _backward(plan, state)
    if event.outcome is None and state.phase is not Phase.FORWARD:
        # stopped meanwhile: it stays in doubt, and an undo by hand will ask again
        return _settled(plan, state, Settled(event.name, Outcome.CUT_OFF))
    if event.outcome is None:
        return [RunStep(str(state.index), step.attempts, recovery=True)]
    return _settled(plan, state, Settled(event.name, event.outcome, event.order))


def _named(element: Node, state: MapState) -> Node:
    """Return the element's node under the name of the one in hand, for the commands about it."""
    return Node(
        name=str(state.index),
        kind=element.kind,
        retry=element.retry,
        rollback_retry=element.rollback_retry,
        compensates=element.compensates,
        undoes=element.undoes,
        reconciles=element.reconciles,
    )
