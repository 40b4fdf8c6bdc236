"""The promises of `semantics.md` that concern a map, each as a check."""

from __future__ import annotations

from dataclasses import dataclass, field

from calandria.engine.commands import Ending
from calandria.engine.events import AllUndone, Exhausted, MapEvent, Outcome, SourceFailed
from calandria.engine.maps import MapPlan
from calandria.statuses import StepRollback, StepStatus
from tests.property.engine_checks import COMMON_CHECKS, Story, checks_in
from tests.property.engine_facts import (
    BACKWARD,
    Action,
    Crashed,
    Did,
    Ended,
    Fact,
    Heard,
    Resumed,
    Turned,
)
from tests.property.engine_model import FAILED_ROLLBACKS, GOES_ON, Standing, duty


@dataclass
class MapStanding(Standing):
    """Where a map stands, by the facts so far: only fail-fast lets an element end it."""

    keep_going: bool = False
    element_failed: bool = False
    source_failed: bool = False
    bulk_failed: bool = False

    def note(self, fact: Fact) -> None:
        if isinstance(fact, Turned) and not self.by_hand:
            self.ending = Ending.FAILED
        if isinstance(fact, Resumed):
            self.bulk_failed = False
        super().note(fact)

    def hear(self, event: MapEvent) -> None:
        match event:
            case SourceFailed() if self.ending in GOES_ON:
                self.source_failed, self.ending = True, Ending.FAILED
            case AllUndone(ok):
                self.in_flight.clear()
                self.bulk_failed = not ok
            case _:
                super().hear(event)

    def came_to(self, name: str, outcome: Outcome, retryable: bool, started: bool) -> None:
        if outcome is not Outcome.FAILED:
            return
        self.failures[name] += started
        again = retryable and self.failures[name] < self.node(name).retry.max_attempts
        if self.ending in GOES_ON and not again and not self.keep_going:
            self.element_failed = True

    def ending_so_far(self) -> Ending:
        failed = any(step.status is StepStatus.FAILED for step in self.recorded.values())
        self.element_failed = failed and not self.keep_going
        return Ending.FAILED if self.source_failed else Ending.COMPLETED


@dataclass(frozen=True)
class MapStory(Story):
    """The history of a map."""

    plan: MapPlan = field(kw_only=True)


def check_elements_run_one_at_a_time_in_order(story: MapStory) -> None:
    for fact, standing in story.moments():
        if isinstance(fact, Did):
            assert not standing.in_flight, (fact, standing.in_flight)
        if isinstance(fact, Did) and fact.action is Action.RUN:
            assert int(fact.name) == len(standing.recorded) - 1, fact


def check_nothing_starts_after_an_element_failed_unless_it_keeps_going(story: MapStory) -> None:
    for fact, standing in story.moments():
        assert isinstance(standing, MapStanding)
        if isinstance(fact, Did) and fact.action is Action.RUN:
            assert not standing.element_failed, fact


def check_a_stop_lets_nothing_start(story: MapStory) -> None:
    for fact, standing in story.moments():
        if isinstance(fact, Did):
            assert standing.ending not in (Ending.CANCELLED, Ending.ABORTED), fact


def check_only_failed_elements_are_rolled_back_on_the_way_forward(story: MapStory) -> None:
    for fact, standing in story.moments():
        if isinstance(fact, Did) and fact.action in BACKWARD and standing.ending in GOES_ON:
            assert fact.action is not Action.UNDO_ALL, fact
            assert standing.recorded[fact.name].status is StepStatus.FAILED, fact


def check_elements_are_rolled_back_highest_first(story: MapStory) -> None:
    lowest: int | None = None
    turned = False
    for fact, _ in story.moments():
        match fact:
            case Resumed():
                lowest, turned = None, False
            case Turned():
                turned = True
            case Did(Action.COMPENSATE | Action.UNDO, name) if turned:
                assert lowest is None or int(name) <= lowest, fact
                lowest = int(name)


def check_every_element_is_rolled_back_as_the_table_says(story: MapStory) -> None:
    for fact, standing in story.moments():
        if not isinstance(fact, Ended) or fact.ending not in (Ending.FAILED, Ending.UNDONE):
            continue
        assert isinstance(standing, MapStanding)
        for name, step in standing.recorded.items():
            if story.plan.undo_all and step.status is StepStatus.COMPLETED:
                kept = StepRollback.NONE if standing.bulk_failed else StepRollback.UNDONE
                assert step.rollback in {kept, StepRollback.UNDONE}, step
            else:
                assert step.rollback in duty(story.node(name), step, name in standing.worked), step


def check_undo_all_is_called_once_and_last_and_only_for_something(story: MapStory) -> None:
    called = False
    for fact, standing in story.moments():
        match fact:
            case Resumed() | Crashed():
                called = False
            case Did(Action.UNDO_ALL):
                assert story.plan.undo_all and not called, fact
                assert any(
                    step.status is StepStatus.COMPLETED and step.rollback is not StepRollback.UNDONE
                    for step in standing.recorded.values()
                ), fact
                called = True
            case Did():
                assert not called, fact


def check_completed_elements_of_a_bulk_undo_are_not_undone_one_by_one(story: MapStory) -> None:
    for fact, standing in story.moments():
        if isinstance(fact, Did) and fact.action is Action.UNDO and story.plan.undo_all:
            assert standing.recorded[fact.name].status is not StepStatus.COMPLETED, fact


def check_incomplete_says_whether_something_is_left(story: MapStory) -> None:
    for fact, standing in story.moments():
        if isinstance(fact, Ended):
            assert isinstance(standing, MapStanding)
            left = any(step.rollback in FAILED_ROLLBACKS for step in standing.recorded.values())
            left = left or standing.bulk_failed or standing.remains
            cut_short = standing.by_hand and fact.ending is Ending.ABORTED
            # a map does not know of elements that an undo by hand has not come to yet
            assert fact.incomplete == left or cut_short, (fact, standing.recorded)


def check_the_ending_is_the_expected_one(story: MapStory) -> None:
    exhausted = False
    for fact, standing in story.moments():
        match fact:
            case Heard(Exhausted()):
                exhausted = True
            case Ended(ending):
                assert ending is standing.ending, (fact, standing.ending)
                assert exhausted or ending is not Ending.COMPLETED, fact


MAP_CHECKS = (*COMMON_CHECKS, *checks_in(globals()))
