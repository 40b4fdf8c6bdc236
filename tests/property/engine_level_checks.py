"""The promises of `semantics.md` 1 and 2 that concern a plan of steps, each as a check."""

from __future__ import annotations

from dataclasses import dataclass, field

from calandria.engine.commands import Ending
from calandria.plan.model import NodeKind, Plan
from calandria.statuses import StepRollback, StepStatus
from tests.property.engine_checks import COMMON_CHECKS, Story, checks_in
from tests.property.engine_facts import BACKWARD, Action, Crashed, Did, Ended, Resumed, Turned
from tests.property.engine_model import DONE, FAILED_ROLLBACKS, duty


@dataclass(frozen=True)
class LevelStory(Story):
    """The history of a plan."""

    plan: Plan = field(kw_only=True)


def check_nothing_starts_before_its_dependencies_are_done(story: LevelStory) -> None:
    for fact, standing in story.moments():
        if isinstance(fact, Did) and fact.action in (Action.RUN, Action.RECONCILE):
            for name in story.node(fact.name).dependencies:
                assert standing.recorded[name].status in DONE, (fact, name)


def check_at_most_concurrency_in_flight(story: LevelStory) -> None:
    for fact, standing in story.moments():
        if isinstance(fact, Did) and story.node(fact.name).kind is not NodeKind.AWAIT:
            others = standing.in_flight.keys() - {fact.name}
            assert len(others) < story.plan.concurrency, (fact, others)


def check_nothing_new_starts_after_a_halt(story: LevelStory) -> None:
    reached: set[str] = set()
    for fact, standing in story.moments():
        if isinstance(fact, Did) and fact.action is Action.RUN:
            assert fact.name in reached or standing.ending is Ending.COMPLETED, fact
            reached.add(fact.name)
        elif isinstance(fact, Crashed):
            reached.update(standing.recorded)


def check_nothing_is_rolled_back_without_reason(story: LevelStory) -> None:
    """Completed, halted, cancelled and aborted levels keep their progress."""
    for fact, standing in story.moments():
        if isinstance(fact, Did) and fact.action in BACKWARD:
            assert standing.ending in (Ending.FAILED, Ending.UNDONE), (fact, standing.ending)


def check_every_step_is_rolled_back_as_the_table_says(story: LevelStory) -> None:
    for fact, standing in story.moments():
        if not isinstance(fact, Ended) or fact.ending not in (Ending.FAILED, Ending.UNDONE):
            continue
        for name, step in standing.recorded.items():
            assert step.status is not StepStatus.RETRYING, name
            assert step.rollback in duty(story.node(name), step, name in standing.worked), (
                name,
                step,
                fact,
            )


def check_undo_is_the_reverse_of_completion(story: LevelStory) -> None:
    """What failed is compensated first, then what completed is undone, newest first.

    A step that a rollback found to have landed is undone where it was asked about.
    """
    last = infinity = 1 << 60
    asked: set[str] = set()
    turned = False
    for fact, standing in story.moments():
        match fact:
            case Resumed():
                last, turned = infinity, False
                asked.clear()
            case Turned():
                turned = True
            case Did(Action.RECONCILE, name) if turned:
                asked.add(name)
            case Did(Action.COMPENSATE | Action.UNDO, name):
                order = standing.recorded[name].order
                place = infinity if order is None or name in asked else order
                assert place <= last, (fact, place, last)
                last = place


def check_undo_is_a_reverse_topological_order(story: LevelStory) -> None:
    outstanding = frozenset({StepRollback.NONE, StepRollback.COMPENSATING, StepRollback.UNDOING})
    for fact, standing in story.moments():
        if not isinstance(fact, Did) or fact.action not in (Action.COMPENSATE, Action.UNDO):
            continue
        for name in _all_dependents(story.plan, fact.name) & standing.recorded.keys():
            step = standing.recorded[name]
            wanted = duty(story.node(name), step, name in standing.worked)
            idle = StepRollback.NONE in wanted
            assert idle or step.rollback not in outstanding, (fact, name, step)


def _all_dependents(plan: Plan, name: str) -> set[str]:
    found: set[str] = set()
    to_visit = [name]
    while to_visit:
        for dependent in plan.dependents[to_visit.pop()]:
            if dependent not in found:
                found.add(dependent)
                to_visit.append(dependent)
    return found


def check_incomplete_says_whether_something_is_left(story: LevelStory) -> None:
    for fact, standing in story.moments():
        if isinstance(fact, Ended):
            left = any(step.rollback in FAILED_ROLLBACKS for step in standing.recorded.values())
            assert fact.incomplete == (left or standing.remains), (fact, standing.recorded)


def check_the_ending_is_the_expected_one(story: LevelStory) -> None:
    for fact, standing in story.moments():
        if isinstance(fact, Ended):
            assert fact.ending is standing.ending, (fact, standing.ending)
            assert not standing.in_flight, fact
            if fact.ending is Ending.COMPLETED:
                names = [node.name for node in story.plan.nodes]
                assert all(standing.recorded[name].status in DONE for name in names), fact


LEVEL_CHECKS = (*COMMON_CHECKS, *checks_in(globals()))
