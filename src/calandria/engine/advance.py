"""The decision core: what happens next at one level of a run.

`advance` is total and deterministic. It takes a plan, a state and one event and says what is to be
done; it never performs anything, never looks at a clock, and never raises because of what a user's
step did. Whoever drives it commits what it intends, performs it, and returns what came of it as
the next events. The same function decides whether a step ran in this thread, in another, on an
event loop, or in another process.

    forward ──a step fails──▶ draining ──▶ rolling back ──▶ done
       │                         ▲
       └──halt, cancel, abort────┘──▶ done

Rollback, in order: stop starting; let everything in flight settle (a late success joins the undo
list); compensate what failed; undo what completed, in the reverse of the recorded order; collect
what could not be rolled back and go on.
"""

from __future__ import annotations

from heapq import heappop, heappush

from calandria.engine.commands import (
    Command,
    Ending,
    Finish,
    GiveUp,
    HandOver,
    Reconcile,
    RetryLater,
    RunStep,
)
from calandria.engine.events import (
    Began,
    Blocked,
    Event,
    Outcome,
    Reconciled,
    RetryDue,
    ReturnFailed,
    RollbackCutOff,
    RollbackRetryDue,
    RolledBack,
    Settled,
    Stopped,
    Stopping,
    TakenUp,
    Unblocked,
    UndoAsked,
)
from calandria.engine.node_state import NodeState
from calandria.engine.rollback import (
    begin_rollback,
    given_up,
    on_rollback_cut_off,
    on_rolled_back,
    retry_backward,
    run_backward,
)
from calandria.engine.state import LevelState, Phase
from calandria.plan.model import NodeKind, Plan
from calandria.statuses import StepRollback, StepStatus


def advance(plan: Plan, state: LevelState, event: Event) -> tuple[LevelState, list[Command]]:
    """Return the state after `event`, and what is to be done now.

    The state passed in is taken over: it is the one returned, changed in place.
    """
    match event:
        case Settled():
            commands = _settled(plan, state, event)
        case Began():
            commands = _start_ready(plan, state)
        case ReturnFailed():
            commands = begin_rollback(plan, state, Ending.FAILED)
        case Blocked(name):
            state.in_flight.discard(name)
            state.blocked.add(name)
            commands = _continue(plan, state)
        case Unblocked(name):
            commands = _try_again(plan, state, name)
        case RetryDue(name):
            commands = _retry(plan, state, name)
        case RolledBack():
            commands = on_rolled_back(plan, state, event)
        case RollbackRetryDue(name):
            commands = retry_backward(state, name)
        case RollbackCutOff(name):
            commands = on_rollback_cut_off(state, name)
        case Stopped(why):
            commands = _stop(state, why)
        case TakenUp(max_recoveries):
            state.max_recoveries = max_recoveries
            commands = _take_up(plan, state)
        case UndoAsked(max_recoveries, by_hand):
            state.max_recoveries, state.incomplete = max_recoveries, False
            commands = begin_rollback(plan, state, Ending.UNDONE, failed_too=by_hand)
        case Reconciled():
            commands = _reconciled(plan, state, event)
    commands += _drained(plan, state)
    return state, commands


def _start_ready(plan: Plan, state: LevelState) -> list[Command]:
    commands: list[Command] = []
    while state.ready and not state.handing_over:
        node = plan.nodes[state.ready[0]]
        waits_only = node.kind is NodeKind.AWAIT
        if state.working >= plan.concurrency and not waits_only:
            break
        if state.hand_off is not None and state.hand_off.before == node.name:
            state.handing_over = True
            break
        heappop(state.ready)
        if waits_only:
            state.awaiting.add(node.name)
        del state.unmet[node.name]
        state.nodes[node.name] = NodeState(StepStatus.STARTED, attempts=1)
        state.in_flight.add(node.name)
        commands.append(RunStep(node.name, 1))
    return commands


def _settled(plan: Plan, state: LevelState, event: Settled) -> list[Command]:
    node = plan.node(event.name)
    step = state.nodes[event.name]
    if node.kind is NodeKind.AWAIT and event.name not in state.in_flight:
        return []
    state.in_flight.discard(event.name)
    state.blocked.discard(event.name)
    state.awaiting.discard(event.name)
    step.nested = step.nested or event.nested
    # an attempt that a crash cut off may have begun its work, whatever came of repeating it
    started = event.started or step.recoveries > 0
    if not started:
        step.attempts -= 1
    state.incomplete = state.incomplete or event.incomplete
    match event.outcome:
        case Outcome.SUCCEEDED | Outcome.SKIPPED:
            skipped = event.outcome is Outcome.SKIPPED
            step.move(StepStatus.SKIPPED if skipped else StepStatus.COMPLETED)
            step.order = event.order
            _count_down(plan, state, event.name)
            if state.hand_off is not None and state.hand_off.after == event.name:
                state.handing_over = True
        case Outcome.HALTED:
            step.move(StepStatus.HALTED)
            step.order = event.order
            if state.phase is Phase.FORWARD:
                state.phase, state.ending = Phase.DRAINING, Ending.HALTED
        case Outcome.CUT_OFF:
            return []
        case Outcome.FAILED:
            if _may_retry(state) and event.retryable and step.attempts < node.retry.max_attempts:
                step.move(StepStatus.RETRYING)
                state.waiting.add(event.name)
                delay = node.retry.delay_after(step.attempts, event.randomness)
                return [RetryLater(event.name, delay), *_continue(plan, state)]
            step.move(StepStatus.FAILED)
            if node.kind in (NodeKind.COMPOSE, NodeKind.MAP) and event.started:
                # a nested level has rolled itself back; what it could not is left for a manual undo
                step.roll(StepRollback.UNDO_FAILED if event.incomplete else StepRollback.UNDONE)
            if state.ending in (Ending.COMPLETED, Ending.HALTED):
                state.phase, state.ending = Phase.DRAINING, Ending.FAILED
    return _continue(plan, state)


def _may_retry(state: LevelState) -> bool:
    return state.phase is Phase.FORWARD or (
        state.phase is Phase.DRAINING and state.ending is Ending.HALTED
    )


def _count_down(plan: Plan, state: LevelState, name: str) -> None:
    for dependent in plan.dependents[name]:
        if dependent in state.unmet:
            state.unmet[dependent] -= 1
            if state.unmet[dependent] == 0:
                heappush(state.ready, plan.positions[dependent])


def _continue(plan: Plan, state: LevelState) -> list[Command]:
    commands: list[Command] = _start_due(plan, state) if _may_retry(state) else []
    return commands + _start_ready(plan, state) if state.phase is Phase.FORWARD else commands


def _retry(plan: Plan, state: LevelState, name: str) -> list[Command]:
    if name in state.waiting and name not in state.due:
        state.due.append(name)
    return _continue(plan, state)


def _start_due(plan: Plan, state: LevelState) -> list[Command]:
    commands: list[Command] = []
    while state.due and state.working < plan.concurrency and not state.handing_over:
        name = state.due.pop(0)
        state.waiting.discard(name)
        step = state.nodes[name]
        step.move(StepStatus.STARTED)
        step.attempts += 1
        step.recoveries = 0
        state.in_flight.add(name)
        commands.append(RunStep(name, step.attempts))
    return commands


def _try_again(plan: Plan, state: LevelState, name: str) -> list[Command]:
    full = state.working >= plan.concurrency
    if name not in state.blocked or not _may_retry(state) or full or state.handing_over:
        return []
    state.blocked.discard(name)
    state.in_flight.add(name)
    step = state.nodes[name]
    return [RunStep(name, step.attempts, recovery=step.recoveries > 0)]


def _unblock(state: LevelState) -> tuple[str, ...]:
    """Take back the starts of blocked steps; return those that have an attempt behind them."""
    begun: list[str] = []
    for name in sorted(state.blocked):
        step = state.nodes[name]
        if step.attempts == 1 and step.recoveries == 0:
            del state.nodes[name]
            continue
        if step.recoveries == 0:
            step.attempts -= 1
        begun.append(name)
    state.blocked.clear()
    return tuple(begun)


def _stop(state: LevelState, why: Stopping) -> list[Command]:
    if state.phase is Phase.DONE:
        return []
    if why is Stopping.ABORTED:
        state.ending = Ending.ABORTED
        state.phase = Phase.DRAINING
        # an undo by hand may not have come to what it was to try again
        state.incomplete = state.incomplete or bool(given_up(state))
    elif state.ending in (Ending.COMPLETED, Ending.HALTED):
        state.ending = Ending.CANCELLED
        state.phase = Phase.DRAINING
    return []


def _take_up(plan: Plan, state: LevelState) -> list[Command]:
    if state.phase is Phase.DRAINING and state.ending is Ending.FAILED:
        return begin_rollback(plan, state, Ending.FAILED)
    commands: list[Command] = []
    for node in plan.nodes:
        step = state.nodes.get(node.name)
        if step is None or step.status not in (StepStatus.STARTED, StepStatus.RETRYING):
            continue
        if step.status is StepStatus.RETRYING:
            state.waiting.add(node.name)
            commands.append(RetryLater(node.name, None))
            continue
        state.in_flight.add(node.name)
        if node.kind is NodeKind.AWAIT:
            state.awaiting.add(node.name)
        commands.append(_recover(state, node.name, plan))
    return commands + _continue(plan, state)


def _recover(state: LevelState, name: str, plan: Plan) -> Command:
    node, step = plan.node(name), state.nodes[name]
    step.recoveries += 1
    if node.kind is not NodeKind.STEP:
        return RunStep(name, step.attempts, recovery=True)
    if step.recoveries > state.max_recoveries:
        return GiveUp(name)
    return Reconcile(name) if node.reconciles else RunStep(name, step.attempts, recovery=True)


def _reconciled(plan: Plan, state: LevelState, event: Reconciled) -> list[Command]:
    if state.phase is Phase.ROLLING_BACK:
        step = state.nodes[event.name]
        state.in_flight.discard(event.name)
        if event.outcome is Outcome.SUCCEEDED:
            step.move(StepStatus.COMPLETED)
            step.order = event.order
        elif event.outcome is None or event.outcome is Outcome.FAILED:
            step.move(StepStatus.FAILED)
        else:
            step.move(StepStatus.SKIPPED)
        return run_backward(plan, state, event.name)
    if event.outcome is None and _may_retry(state):
        return [RunStep(event.name, state.nodes[event.name].attempts, recovery=True)]
    if event.outcome is None:
        # nothing starts any more, so it stays in doubt: a rollback will ask again
        return _settled(plan, state, Settled(event.name, Outcome.CUT_OFF))
    return _settled(plan, state, Settled(event.name, event.outcome, event.order))


def _drained(plan: Plan, state: LevelState) -> list[Command]:
    """Move a level on that has nothing left in flight."""
    if state.phase is Phase.DRAINING:
        # nothing of this level is going to use what they wait for, and nothing new starts
        for name in _unblock(state):
            if state.ending is Ending.FAILED:
                state.nodes[name].move(StepStatus.FAILED)
        state.in_flight -= state.awaiting
        state.awaiting.clear()
    if state.handing_over and state.phase is Phase.FORWARD and state.working == 0:
        state.phase = Phase.DONE
        if state.unmet or state.waiting or state.awaiting or state.blocked:
            return [HandOver()]
        return [Finish(state.ending, state.incomplete)]
    if state.in_flight or state.phase in (Phase.DONE, Phase.ROLLING_BACK):
        return []
    if state.phase is Phase.DRAINING and state.ending is Ending.FAILED:
        return begin_rollback(plan, state, Ending.FAILED)
    stopping = state.ending in (Ending.CANCELLED, Ending.ABORTED)
    if (state.waiting or state.blocked) and not stopping:
        return []
    if state.phase is Phase.FORWARD and state.ready:
        return []
    state.phase = Phase.DONE
    return [Finish(state.ending, state.incomplete)]
