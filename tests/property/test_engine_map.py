"""Thousands of histories of one map: leaf and nested elements, crashes, stops, undo by hand."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calandria.engine.maps import MapPlan
from calandria.plan.model import Node, NodeKind
from calandria.plan.policies import Retry
from calandria.statuses import StepStatus
from tests.property.engine_cases import FEWER, VERDICTS, numbers, retries, scripts
from tests.property.engine_facts import Budget, Script, Verdict
from tests.property.engine_map_checks import MAP_CHECKS, MapStanding, MapStory
from tests.property.engine_map_world import MapWorld, Source

MOST_ELEMENTS = 8


@dataclass(frozen=True)
class Case:
    """A map, what its elements do, and what befalls them."""

    plan: MapPlan
    source: Source
    scripts: list[Script]
    numbers: bytes
    budget: Budget
    bulk_fails: bool
    undos: int

    def world(self, **budget: Any) -> MapWorld:
        """Return a fresh world for it, with parts of its budget replaced."""
        return MapWorld(
            self.plan,
            self.source,
            self.scripts,
            self.numbers,
            replace(self.budget, **budget),
            self.bulk_fails,
        )


@st.composite
def map_plans(draw: st.DrawFn) -> MapPlan:
    leaf = draw(st.booleans())
    return MapPlan(
        Node(
            name="element",
            kind=NodeKind.STEP if leaf else NodeKind.COMPOSE,
            retry=draw(retries(3)) if leaf else Retry(max_attempts=1),
            rollback_retry=draw(retries(2)) if leaf else Retry(max_attempts=1),
            compensates=leaf and draw(st.booleans()),
            undoes=leaf and draw(st.integers(0, 3)) > 0,
            reconciles=leaf and draw(st.booleans()),
        ),
        keep_going=draw(st.booleans()),
        undo_all=draw(st.booleans()),
    )


@st.composite
def cases(
    draw: st.DrawFn,
    *,
    verdicts: list[Verdict] = VERDICTS,
    stops: int = 2,
    max_recoveries: int | None = None,
) -> Case:
    size = draw(st.integers(0, MOST_ELEMENTS))
    allowed = draw(st.integers(0, 2)) if max_recoveries is None else max_recoveries
    return Case(
        plan=draw(map_plans()),
        source=Source(
            size,
            fails_at=draw(st.one_of(st.none(), st.none(), st.integers(0, size))),
            heals=max_recoveries is None and draw(st.booleans()),
        ),
        scripts=[draw(scripts(verdicts)) for _ in range(size)],
        numbers=draw(numbers()),
        budget=Budget(draw(st.integers(0, 6)), draw(st.integers(0, stops)), allowed),
        bulk_fails=draw(st.booleans()),
        undos=draw(st.integers(0, 2)),
    )


def keep_every_promise(case: Case) -> None:
    world = case.world()
    world.run()
    for _ in range(case.undos):
        world.undo()
    story = MapStory(
        world.history,
        case.budget.max_recoveries,
        world.node,
        partial(MapStanding, keep_going=case.plan.keep_going),
        plan=case.plan,
    )
    for check in MAP_CHECKS:
        check(story)


@given(case=cases())
def test_every_history_keeps_every_promise(case: Case) -> None:
    keep_every_promise(case)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@settings(max_examples=5_000)
@given(case=cases())
def test_thousands_of_histories_keep_every_promise(case: Case) -> None:
    keep_every_promise(case)


DETERMINATE = [verdict for verdict in Verdict if verdict is not Verdict.NEVER_START]


@FEWER
@given(case=cases(verdicts=[*DETERMINATE, Verdict.SUCCEED], stops=0, max_recoveries=99))
def test_a_map_that_crashed_and_recovered_ends_as_one_that_did_not(case: Case) -> None:
    assert where_it_ends(case, crashes=6) == where_it_ends(case, crashes=0)


def where_it_ends(case: Case, *, crashes: int) -> object:
    world = case.world(crashes=crashes, in_order=True, undone_after_crash=False)
    finish = world.run()
    return finish, {
        name: (step.status, step.attempts, step.rollback) for name, step in world.journal.items()
    }


@FEWER
@given(case=cases(stops=0))
def test_an_undone_map_keeps_no_completed_element(case: Case) -> None:
    world = case.world()
    world.run()
    world.undo()

    finish = world.undo()

    undoable = case.plan.element.undoes or case.plan.undo_all
    if undoable and not finish.incomplete:
        kept = [s for s in world.journal.values() if s.status is StepStatus.COMPLETED]
        assert all(step.rollback.value == "undone" for step in kept)
