"""Thousands of histories of one level: any plan, any outcomes, any interleaving, crashes, stops."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from calandria.engine.commands import Ending
from tests.property.engine_cases import FEWER, Case, cases
from tests.property.engine_facts import Did, Fact, Verdict
from tests.property.engine_level_checks import LEVEL_CHECKS, LevelStory
from tests.property.engine_level_world import LevelWorld

DETERMINATE = [verdict for verdict in Verdict if verdict is not Verdict.NEVER_START]
"""What never starts is compensated if a crash left in doubt whether it did."""

NO_HALTS = [Verdict.SUCCEED] * 6 + [Verdict.SKIP, Verdict.FAIL, Verdict.FAIL_FOR_GOOD]
"""With concurrent steps it depends on the interleaving whether a halt or a failure comes first."""


def keep_every_promise(case: Case) -> None:
    world = case.world()
    world.run()
    for _ in range(case.undos):
        world.undo()
    story = LevelStory(world.history, case.budget.max_recoveries, case.plan.node, plan=case.plan)
    for check in LEVEL_CHECKS:
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


@FEWER
@given(
    case=cases(concurrency=st.just(1), verdicts=DETERMINATE, stops=0, max_recoveries=99),
)
def test_a_run_that_crashed_and_recovered_ends_as_one_that_did_not(case: Case) -> None:
    assert where_it_ends(case, crashes=6) == where_it_ends(case, crashes=0)


def where_it_ends(case: Case, *, crashes: int) -> object:
    """Return all that may be compared: the numbers of recoveries and orders may differ."""
    world = case.world(crashes=crashes, in_order=True, undone_after_crash=False)
    finish = world.run()
    completed = sorted(
        (step.order, name) for name, step in world.journal.items() if step.order is not None
    )
    steps = {
        name: (step.status, step.attempts, step.rollback) for name, step in world.journal.items()
    }
    return finish, steps, [name for _, name in completed]


@FEWER
@given(case=cases(verdicts=NO_HALTS, stops=0, max_recoveries=99))
def test_concurrent_steps_end_the_same_whatever_the_interleaving_and_the_crashes(
    case: Case,
) -> None:
    with_crashes = case.world(undone_after_crash=False).run()

    assert with_crashes.ending is case.world(crashes=0).run().ending


@FEWER
@given(case=cases(stops=0))
def test_a_finished_level_taken_up_again_does_nothing(case: Case) -> None:
    world = case.world(undone_after_crash=False)
    first = world.run()
    journal, facts = dict(world.journal), len(world.history)
    world.crashes_left = 0

    again = world.take_up()

    assert world.journal == journal
    assert not done_since(world, facts)
    assert again.ending is first.ending
    assert again.incomplete == first.incomplete


def done_since(world: LevelWorld, facts: int) -> list[Fact]:
    return [fact for fact in world.history[facts:] if isinstance(fact, Did)]


@FEWER
@given(case=cases(stops=0))
def test_an_undo_leaves_nothing_to_undo(case: Case) -> None:
    world = case.world(crashes=0)
    world.run()
    world.undo()
    assume(not world.undo().incomplete)
    facts = len(world.history)

    finish = world.undo()

    assert (finish.ending, finish.incomplete) == (Ending.UNDONE, False)
    assert not done_since(world, facts)
