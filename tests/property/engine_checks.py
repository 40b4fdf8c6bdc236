"""The promises of `semantics.md` that hold for steps and elements alike, each as a check."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from calandria.engine.commands import Ending
from calandria.engine.events import Outcome, Reconciled, RolledBack, Settled
from calandria.plan.model import Node, NodeKind
from calandria.statuses import StepRollback, StepStatus
from tests.property.engine_facts import BACKWARD, Action, Did, Ended, Fact, Heard, Recorded, Resumed
from tests.property.engine_model import FAILED_ROLLBACKS, GOES_ON, Standing


@dataclass(frozen=True)
class Story:
    """What happened at one level or map, and how to judge it."""

    history: list[Fact]
    max_recoveries: int
    node: Callable[[str], Node]
    new_standing: Callable[[Callable[[str], Node]], Standing] = Standing

    def moments(self) -> Iterator[tuple[Fact, Standing]]:
        """Go through the history: each fact with how the level stood before it."""
        standing = self.new_standing(self.node)
        for fact in self.history:
            yield fact, standing
            standing.note(fact)


def check_what_is_done_never_runs_again(story: Story) -> None:
    for fact, standing in story.moments():
        if isinstance(fact, Did) and fact.action not in BACKWARD:
            status = standing.recorded[fact.name].status
            assert status is StepStatus.STARTED, (fact, status)


def check_attempts_are_numbered_and_limited(story: Story) -> None:
    for fact, standing in story.moments():
        if isinstance(fact, Did) and fact.action is Action.RUN:
            failed = standing.failures[fact.name]
            assert fact.attempt == failed + 1, (fact, failed)
            assert failed < story.node(fact.name).retry.max_attempts, fact


def check_a_start_is_recorded_before_its_body_runs(story: Story) -> None:
    for fact, standing in story.moments():
        if isinstance(fact, Did) and fact.action is Action.RUN:
            step = standing.recorded[fact.name]
            assert (step.status, step.attempts) == (StepStatus.STARTED, fact.attempt), fact


def check_nothing_starts_after_a_failure_or_a_stop(story: Story) -> None:
    for fact, standing in story.moments():
        if isinstance(fact, Did) and fact.action is Action.RUN:
            assert standing.ending in GOES_ON, (fact, standing.ending)


def check_rollback_waits_for_what_is_in_flight(story: Story) -> None:
    for fact, standing in story.moments():
        if isinstance(fact, Did) and fact.action in BACKWARD:
            assert not standing.in_flight, (fact, standing.in_flight)


def check_a_rollback_action_repeats_only_for_a_reason(story: Story) -> None:
    """It failed and has attempts left, a crash cut it off, or a person asked for what failed."""
    allowed: Counter[str] = Counter()
    under_way = frozenset({StepRollback.COMPENSATING, StepRollback.UNDOING})
    for fact, standing in story.moments():
        match fact:
            case Did(Action.COMPENSATE | Action.UNDO, name):
                first = name not in allowed
                assert first or allowed[name] > 0, fact
                allowed[name] = 0
            case Heard(RolledBack(name, ok)):
                allowed[name] = 0 if ok else 1
            case Recorded(name, _, after) if after.rollback in FAILED_ROLLBACKS:
                allowed[name] = 0
            case Resumed(by_hand):
                for name, step in standing.recorded.items():
                    again = under_way | FAILED_ROLLBACKS if by_hand else under_way
                    if step.rollback in again:
                        allowed[name] = 1


def check_a_rollback_action_is_tried_as_often_as_allowed(story: Story) -> None:
    failed: Counter[str] = Counter()
    hopeless: set[str] = set()
    for fact, _ in story.moments():
        match fact:
            case Did(Action.COMPENSATE | Action.UNDO, name, attempt):
                assert attempt <= story.node(name).rollback_retry.max_attempts, fact
            case Heard(RolledBack(name, False, retryable)):
                failed[name] += 1
                if not retryable:
                    hopeless.add(name)
            case Recorded(name, _, after) if after.rollback in FAILED_ROLLBACKS:
                node = story.node(name)
                enough = failed[name] >= node.rollback_retry.max_attempts or name in hopeless
                assert enough or node.kind is not NodeKind.STEP, fact
                failed[name] = 0
                hopeless.discard(name)


def check_an_undo_by_hand_tries_again_what_failed(story: Story) -> None:
    tried: set[str] = set()
    for fact, standing in story.moments():
        match fact:
            case Resumed():
                tried.clear()
            case Recorded(name):
                tried.add(name)
            case Ended(Ending.UNDONE):
                for name, step in standing.recorded.items():
                    assert step.rollback not in FAILED_ROLLBACKS or name in tried, (name, step)


def check_no_action_outlives_its_recoveries(story: Story) -> None:
    """A step that kills its process is given up, forward and backward."""
    begun: Counter[tuple[Action, str, int]] = Counter()
    rollbacks = 1 + story.history.count(Resumed(by_hand=True))
    for fact in story.history:
        match fact:
            case Did(Action.GIVE_UP | Action.GIVE_UP_ROLLBACK | Action.UNDO_ALL):
                pass
            case Did(action, name, attempt) if story.node(name).kind is NodeKind.STEP:
                begun[action, name, attempt] += 1
                # each undo by hand begins an action of a rollback anew
                times = 1 if action is Action.RUN else rollbacks
                assert begun[action, name, attempt] <= times * (1 + story.max_recoveries), fact


def check_what_ran_is_recorded(story: Story) -> None:
    """Whatever the engine was told of an attempt is in the journal by the same commit."""
    for (fact, standing), following in zip(
        story.moments(), _recorded_next(story.history), strict=True
    ):
        match fact:
            case Heard(Settled(name, outcome)) if outcome is not Outcome.CUT_OFF:
                assert following.get(name) not in (None, StepStatus.STARTED), (fact, standing)
            case Heard(Reconciled(name, outcome)) if outcome is not None:
                assert following.get(name) not in (None, StepStatus.STARTED), (fact, standing)


def _recorded_next(history: list[Fact]) -> list[dict[str, StepStatus | None]]:
    """Return for each fact what the records that follow it at once say."""
    answer: list[dict[str, StepStatus | None]] = []
    for place in range(len(history)):
        statuses: dict[str, StepStatus | None] = {}
        for fact in history[place + 1 :]:
            if not isinstance(fact, Recorded):
                break
            statuses[fact.name] = fact.after.status
        answer.append(statuses)
    return answer


def checks_in(module: Mapping[str, object]) -> tuple[Callable[[Any], None], ...]:
    """Return the checks that a module defines."""
    return tuple(
        check for name, check in module.items() if name.startswith("check_") and callable(check)
    )


COMMON_CHECKS = checks_in(globals())
