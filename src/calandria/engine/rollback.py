"""Going backward: one compensate or undo at a time, and none of them ends the rest."""

from __future__ import annotations

from calandria.engine.commands import (
    BeginRollback,
    Command,
    Compensate,
    Ending,
    Finish,
    GiveUpRollback,
    Reconcile,
    RollbackLater,
    Undo,
)
from calandria.engine.events import RolledBack
from calandria.engine.node_state import NodeState
from calandria.engine.state import (
    Backward,
    LevelState,
    Phase,
    backward_action,
    rollback_order,
)
from calandria.plan.model import Node, NodeKind, Plan
from calandria.statuses import StepRollback, StepStatus

GIVEN_UP = frozenset({StepRollback.COMPENSATE_FAILED, StepRollback.UNDO_FAILED})
"""A rollback that is taken up leaves these alone; only a person asks for them again."""


def begin_rollback(
    plan: Plan,
    state: LevelState,
    ending: Ending,
    *,
    failed_too: bool = False,
) -> list[Command]:
    """Turn the level round: it will end as `ending` once everything outstanding is rolled back.

    With `failed_too`, what was tried before and failed is tried again; without, it is left, and
    makes the rollback incomplete.
    """
    state.phase, state.ending = Phase.ROLLING_BACK, ending
    state.ready.clear()
    dropped = _drop_retries(state)
    outstanding = rollback_order(plan, state)
    if not failed_too:
        left = given_up(state)
        outstanding = [name for name in outstanding if name not in left]
        state.incomplete = state.incomplete or bool(left)
    state.to_roll_back = outstanding
    return [BeginRollback(dropped), *next_rollback(plan, state)]


def _drop_retries(state: LevelState) -> tuple[str, ...]:
    """Make no further attempt at a step that would be rolled back at once."""
    state.waiting.clear()
    state.due.clear()
    dropped = [name for name, step in state.nodes.items() if step.status is StepStatus.RETRYING]
    for name in dropped:
        state.nodes[name].move(StepStatus.FAILED)
    return tuple(sorted(dropped))


def given_up(state: LevelState) -> set[str]:
    """Return the steps whose compensate or undo was tried and failed."""
    return {name for name, step in state.nodes.items() if step.rollback in GIVEN_UP}


def next_rollback(plan: Plan, state: LevelState) -> list[Command]:
    """Take up the next step of the rollback, or finish the level."""
    while state.to_roll_back:
        name = state.to_roll_back.pop()
        if backward_action(plan.node(name), state.nodes[name]) is not None:
            return run_backward(plan, state, name)
    state.phase = Phase.DONE
    return [Finish(state.ending, state.incomplete)]


def run_backward(plan: Plan, state: LevelState, name: str) -> list[Command]:
    """Start the next attempt at rolling one step back."""
    command = start_backward(plan.node(name), state.nodes[name], state.max_recoveries)
    if command is None:
        return next_rollback(plan, state)
    state.in_flight.add(name)
    return [command]


def retry_backward(state: LevelState, name: str) -> list[Command]:
    """Try a compensate or undo again whose last attempt failed in this process."""
    if state.phase is not Phase.ROLLING_BACK:
        return []
    step = state.nodes[name]
    next_attempt(step)
    state.in_flight.add(name)
    return [backward_command(name, step)]


def next_attempt(step: NodeState) -> None:
    """Count one more attempt at a compensate or undo; crashes are counted anew for it."""
    step.rollback_due = False
    step.rollback_attempts += 1
    step.recoveries = 0


def start_backward(
    node: Node, step: NodeState, max_recoveries: int
) -> Compensate | Undo | Reconcile | GiveUpRollback | None:
    """Note the start of a compensate or undo in the step's state and say which it is."""
    action = backward_action(node, step)
    if action is Backward.RECONCILE and step.recoveries > max_recoveries:
        step.move(StepStatus.FAILED)
        action = backward_action(node, step)
    if action is None:
        return None
    if action is Backward.RECONCILE:
        # counted although it may be the first: its start leaves no other trace in the journal
        step.recoveries += 1
        return Reconcile(node.name)
    running = StepRollback.UNDOING if action is Backward.UNDO else StepRollback.COMPENSATING
    cut_off = step.rollback is running
    if not cut_off:
        step.recoveries = step.rollback_attempts = 0
        step.rollback_due = False
    step.roll(running)
    if not cut_off:
        step.rollback_attempts = 1
        return backward_command(node.name, step)
    if node.kind is not NodeKind.STEP:
        return backward_command(node.name, step)
    if step.rollback_due:
        # nothing was cut off: the process only waited for its time, or stepped aside meanwhile
        next_attempt(step)
        return backward_command(node.name, step)
    step.recoveries += 1
    if step.recoveries > max_recoveries:
        return GiveUpRollback(node.name)
    return backward_command(node.name, step)


def backward_command(name: str, step: NodeState) -> Compensate | Undo:
    """Return the command for the action the step's state says is under way."""
    return Undo(name) if step.rollback is StepRollback.UNDOING else Compensate(name)


def settle_backward(node: Node, step: NodeState, event: RolledBack) -> RollbackLater | None:
    """Note the end of a compensate or undo; a `RollbackLater` says that it is tried again."""
    undoing = step.rollback is StepRollback.UNDOING
    if event.ok:
        step.roll(StepRollback.UNDONE if undoing else StepRollback.COMPENSATED)
        return None
    if event.retryable and step.rollback_attempts < node.rollback_retry.max_attempts:
        step.rollback_due = True
        delay = node.rollback_retry.delay_after(step.rollback_attempts, event.randomness)
        return RollbackLater(node.name, delay)
    step.roll(StepRollback.UNDO_FAILED if undoing else StepRollback.COMPENSATE_FAILED)
    return None


def on_rolled_back(plan: Plan, state: LevelState, event: RolledBack) -> list[Command]:
    """Go on after one compensate or undo ended, well or not."""
    step = state.nodes[event.name]
    state.in_flight.discard(event.name)
    later = settle_backward(plan.node(event.name), step, event)
    state.incomplete = state.incomplete or (later is None and not event.ok)
    if state.phase is not Phase.ROLLING_BACK:
        return []
    if later is not None:
        return [later]
    return next_rollback(plan, state)


def on_rollback_cut_off(state: LevelState, name: str) -> list[Command]:
    """Leave an interrupted compensate or undo as it stands: under way, to be taken up by hand."""
    state.in_flight.discard(name)
    return []
