"""Histories with hand-offs, spawned units, parks, crashes and jobs that come twice."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from calandria.engine.commands import Ending
from calandria.plan.model import NodeKind
from calandria.statuses import StepStatus
from tests.property.engine_cases import FEWER, Case, background_cases
from tests.property.engine_facts import Action, Crashed, Did, Handed, Resumed
from tests.property.engine_level_checks import LEVEL_CHECKS, LevelStory
from tests.property.engine_level_world import LevelWorld
from tests.property.engine_model import DONE


def keep_every_promise(case: Case) -> LevelWorld:
    world = case.world()
    world.run()
    for _ in range(case.undos):
        world.undo()
    story = LevelStory(world.history, case.budget.max_recoveries, case.plan.node, plan=case.plan)
    for check in (*LEVEL_CHECKS, *BACKGROUND_CHECKS):
        check(story)
    return world


def check_the_caller_does_only_its_part(story: LevelStory) -> None:
    """`before` is the first step in the worker, `after` the last one in the caller."""
    point = story.plan.hand_off
    if point is None:
        return
    for fact, standing in story.moments():
        if isinstance(fact, (Crashed, Resumed, Handed)):
            return
        if isinstance(fact, Did) and fact.action is Action.RUN:
            waits_only = story.node(fact.name).kind is NodeKind.AWAIT
            assert fact.name != point.before, fact
            trigger = standing.recorded.get(point.after or "")
            assert waits_only or trigger is None or trigger.status not in DONE, fact


def check_nothing_is_in_flight_when_a_process_steps_aside(story: LevelStory) -> None:
    for fact, standing in story.moments():
        if isinstance(fact, Handed):
            assert not standing.in_flight, (fact, standing.in_flight)


def check_it_is_handed_over_once_at_most(story: LevelStory) -> None:
    assert story.history.count(Handed(over=True)) <= 1


def check_a_step_aside_costs_no_attempt_and_no_recovery(story: LevelStory) -> None:
    aside = False
    for fact, standing in story.moments():
        match fact:
            case Handed():
                aside = True
            case Resumed():
                pass
            case Did(Action.RUN, name, recovery=True) if aside:
                kind = story.node(name).kind
                assert kind in (NodeKind.AWAIT,), (fact, standing.recorded[name])
            case Crashed():
                aside = False
            case Did():
                aside = False


BACKGROUND_CHECKS = (
    check_the_caller_does_only_its_part,
    check_nothing_is_in_flight_when_a_process_steps_aside,
    check_it_is_handed_over_once_at_most,
    check_a_step_aside_costs_no_attempt_and_no_recovery,
)


@given(case=background_cases())
def test_every_history_in_the_background_keeps_every_promise(case: Case) -> None:
    keep_every_promise(case)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@settings(max_examples=5_000)
@given(case=background_cases())
def test_thousands_of_histories_in_the_background_keep_every_promise(case: Case) -> None:
    keep_every_promise(case)


@FEWER
@given(case=background_cases())
def test_stepping_aside_changes_nothing_about_the_end(case: Case) -> None:
    quiet = {"crashes": 0, "stops": 0, "in_order": True}
    parking = case.world(**quiet, parks=6)
    staying = case.world(**quiet, parks=0)
    first, second = parking.run(), staying.run()
    if case.plan.concurrency == 1:
        assert (first.ending, first.incomplete) == (second.ending, second.incomplete)
    for name, step in parking.journal.items():
        if first.ending is Ending.COMPLETED:
            assert step.status in (StepStatus.COMPLETED, StepStatus.SKIPPED), name
