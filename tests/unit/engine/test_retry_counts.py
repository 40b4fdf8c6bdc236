"""`semantics.md` 3: how often a step is tried, and what does not count."""

from __future__ import annotations

from calandria.engine.commands import (
    BeginRollback,
    Compensate,
    Ending,
    Finish,
    RetryLater,
    RunStep,
)
from calandria.engine.events import RetryDue
from tests.unit.engine.levels import Level, step


def test_max_attempts_counts_failed_attempts_the_first_included() -> None:
    level = Level(step("a", retries=3))
    level.begin()

    assert level.fail("a") == [RetryLater("a", 1.0)]
    assert level.tell(RetryDue("a")) == [RunStep("a", 2)]
    assert level.fail("a") == [RetryLater("a", 2.0)]
    assert level.tell(RetryDue("a")) == [RunStep("a", 3)]
    assert level.fail("a") == [BeginRollback(), Compensate("a")]


def test_an_attempt_cut_off_by_a_crash_is_no_failed_attempt() -> None:
    level = Level(step("a", retries=2))
    level.begin()
    level.crash()

    assert level.fail("a") == [RetryLater("a", 1.0)]
    assert level.tell(RetryDue("a")) == [RunStep("a", 2)]
    assert level.crash() == [RunStep("a", 2, recovery=True)]


def test_recoveries_are_counted_for_each_attempt_apart() -> None:
    level = Level(step("a", retries=2), max_recoveries=1)
    level.begin()
    level.crash()
    level.fail("a")
    level.tell(RetryDue("a"))

    assert level.crash() == [RunStep("a", 2, recovery=True)]


def test_counts_live_in_the_journal() -> None:
    level = Level(step("a", retries=2))
    level.begin()
    level.fail("a")

    # the delay was set before the crash, so the engine asks for no new one
    assert level.crash() == [RetryLater("a", None)]
    assert level.tell(RetryDue("a")) == [RunStep("a", 2)]
    assert level.fail("a") == [BeginRollback(), Compensate("a")]


def test_what_is_not_retryable_is_not_retried() -> None:
    level = Level(step("a", retries=5))
    level.begin()

    assert level.fail("a", retryable=False) == [BeginRollback(), Compensate("a")]


def test_another_ready_step_runs_while_one_waits_for_its_retry() -> None:
    level = Level(step("a", retries=2), step("b"))
    level.begin()

    assert level.fail("a") == [RetryLater("a", 1.0), RunStep("b", 1)]


def test_a_due_retry_waits_for_a_place_among_those_in_flight() -> None:
    # Given one place, taken by b while a's retry comes due
    level = Level(step("a", retries=2), step("b"), step("c", "b"))
    level.begin()
    level.fail("a")

    # When b ends, the retry goes before the next step
    assert level.tell(RetryDue("a")) == []
    assert level.succeed("b") == [RunStep("a", 2)]
    assert level.succeed("a") == [RunStep("c", 1)]
    assert level.succeed("c") == [Finish(Ending.COMPLETED)]
