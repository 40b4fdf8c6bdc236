"""`semantics.md` 2: the rollback rule, and its table of constructs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from calandria.engine.commands import (
    BeginRollback,
    Compensate,
    Ending,
    Finish,
    GiveUpRollback,
    Reconcile,
    RollbackLater,
    RunStep,
    Undo,
)
from calandria.engine.events import (
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
)
from calandria.plan.model import NodeKind
from calandria.statuses import StepRollback, StepStatus
from tests.unit.engine.levels import Level, asking, nested, step


def failed_after_two(concurrency: int = 1) -> Level:
    """Return a level whose steps a and b completed, and whose step c just failed."""
    level = Level(step("a"), step("b", "a"), step("c", "b"), concurrency=concurrency)
    level.begin()
    level.succeed("a")
    level.succeed("b")
    level.fail("c")
    return level


def test_what_failed_is_compensated_then_what_completed_is_undone_newest_first() -> None:
    level = failed_after_two()

    assert level.did == [BeginRollback(), Compensate("c")]
    assert level.rolled_back("c") == [Undo("b")]
    assert level.rolled_back("b") == [Undo("a")]
    assert level.rolled_back("a") == [Finish(Ending.FAILED)]


def test_undo_goes_by_the_order_stamped_where_steps_ended_not_where_they_were_collected() -> None:
    # Given three steps at once, of which b ended before a but was collected after it
    level = Level(step("a"), step("b"), step("c"), concurrency=3)
    level.begin()
    level.tell(Settled("a", Outcome.SUCCEEDED, order=2))
    level.tell(Settled("b", Outcome.SUCCEEDED, order=1))

    # When the third fails, a is undone before b
    level.fail("c")
    assert level.rolled_back("c") == [Undo("a")]
    assert level.rolled_back("a") == [Undo("b")]


def test_what_never_started_is_not_compensated() -> None:
    level = Level(step("a"), step("b", "a"))
    level.begin()
    level.succeed("a")

    assert level.fail("b", started=False, retryable=False) == [BeginRollback(), Undo("a")]


def test_what_may_have_started_before_a_crash_is_compensated() -> None:
    # Given an attempt in doubt whose repetition could not start
    level = Level(step("a"))
    level.begin()
    level.crash()

    # Then the first try may have begun its work, so it is compensated
    assert level.fail("a", started=False, retryable=False) == [BeginRollback(), Compensate("a")]


def test_rollback_waits_for_what_is_in_flight_and_a_late_success_is_undone() -> None:
    level = Level(step("a"), step("b"), concurrency=2)
    level.begin()

    assert level.fail("a") == []
    assert level.succeed("b") == [BeginRollback(), Compensate("a")]
    assert level.rolled_back("a") == [Undo("b")]


def test_two_that_fail_are_both_compensated() -> None:
    level = Level(step("a"), step("b"), concurrency=2)
    level.begin()
    level.fail("a")

    assert level.fail("b") == [BeginRollback(), Compensate("b")]
    assert level.rolled_back("b") == [Compensate("a")]
    assert level.rolled_back("a") == [Finish(Ending.FAILED)]


def test_a_failure_drops_the_attempt_another_step_waits_for() -> None:
    level = Level(step("a", retries=3), step("b"), concurrency=2)
    level.begin()
    level.fail("a")

    assert level.fail("b") == [BeginRollback(("a",)), Compensate("b")]
    assert level.tell(RetryDue("a")) == []
    assert level.state.nodes["a"].status is StepStatus.FAILED
    assert level.rolled_back("b") == [Compensate("a")]


def test_a_failed_undo_does_not_stop_the_rest_and_undo_tries_just_it_again() -> None:
    # Given an undo that fails
    level = failed_after_two()
    level.rolled_back("c")
    assert level.rolled_back("b", ok=False) == [Undo("a")]
    assert level.rolled_back("a") == [Finish(Ending.FAILED, incomplete=True)]

    # When a person asks for the undo, just that one is tried
    assert level.undo() == [BeginRollback(), Undo("b")]
    assert level.rolled_back("b") == [Finish(Ending.UNDONE)]


def test_a_failed_compensate_does_not_stop_the_rest() -> None:
    level = failed_after_two()

    assert level.rolled_back("c", ok=False) == [Undo("b")]


def test_rollback_retry_applies_to_each_compensate_and_undo() -> None:
    level = Level(step("a", rollback_retries=2))
    level.begin()
    level.fail("a")

    assert level.rolled_back("a", ok=False) == [RollbackLater("a", 1.0)]
    assert level.tell(RollbackRetryDue("a")) == [Compensate("a")]
    assert level.rolled_back("a", ok=False) == [Finish(Ending.FAILED, incomplete=True)]


def test_a_rollback_failure_that_cannot_be_retried_is_final() -> None:
    level = Level(step("a", rollback_retries=5))
    level.begin()
    level.fail("a")

    again = level.tell(RolledBack("a", ok=False, retryable=False))
    assert again == [Finish(Ending.FAILED, incomplete=True)]


def test_an_interrupted_rollback_repeats_only_the_action_in_flight() -> None:
    level = failed_after_two()
    level.rolled_back("c")

    assert level.crash() == [BeginRollback(), Undo("b")]
    assert level.rolled_back("b") == [Undo("a")]


def test_an_interrupted_rollback_does_not_repeat_what_failed() -> None:
    level = failed_after_two()
    level.rolled_back("c", ok=False)

    assert level.crash() == [BeginRollback(), Undo("b")]
    level.rolled_back("b")
    assert level.rolled_back("a") == [Finish(Ending.FAILED, incomplete=True)]


def test_an_undo_that_keeps_killing_its_process_is_given_up() -> None:
    level = failed_after_two()
    level.rolled_back("c")
    level.crash()
    assert level.crash() == [BeginRollback(), Undo("b")]

    assert level.crash() == [BeginRollback(), GiveUpRollback("b")]
    assert level.tell(RolledBack("b", ok=False, retryable=False)) == [Undo("a")]


def test_cancel_while_rolling_back_is_ignored() -> None:
    level = failed_after_two()

    assert level.tell(Stopped(Stopping.CANCELLED)) == []
    assert level.rolled_back("c") == [Undo("b")]


def test_cancel_while_a_failure_waits_for_others_to_settle_is_ignored() -> None:
    level = Level(step("a"), step("b"), concurrency=2)
    level.begin()
    level.fail("a")

    assert level.tell(Stopped(Stopping.CANCELLED)) == []
    assert level.succeed("b") == [BeginRollback(), Compensate("a")]


def test_abort_while_rolling_back_leaves_the_rest_to_an_undo_by_hand() -> None:
    level = failed_after_two()
    level.tell(Stopped(Stopping.ABORTED))

    assert level.tell(RollbackCutOff("c")) == [Finish(Ending.ABORTED)]

    assert level.undo() == [BeginRollback(), Compensate("c")]
    assert level.rolled_back("c") == [Undo("b")]


def test_a_compensate_that_finished_before_an_abort_does_not_run_again() -> None:
    level = failed_after_two()
    level.tell(Stopped(Stopping.ABORTED))
    assert level.rolled_back("c") == [Finish(Ending.ABORTED)]

    assert level.undo() == [BeginRollback(), Undo("b")]


def test_a_rollback_failure_before_an_abort_is_kept() -> None:
    level = failed_after_two()
    level.tell(Stopped(Stopping.ABORTED))

    assert level.rolled_back("c", ok=False) == [Finish(Ending.ABORTED, incomplete=True)]


def test_a_rollback_asks_whether_an_attempt_in_doubt_landed() -> None:
    # Given a step that failed while another, in doubt, was cut off by a crash
    level = Level(step("a"), asking("b"), concurrency=2)
    level.begin()
    level.fail("a")

    # When it landed, it is undone; else it is compensated
    assert level.crash() == [BeginRollback(), Reconcile("b")]
    assert level.tell(Reconciled("b", Outcome.SUCCEEDED, 1)) == [Undo("b")]
    assert level.rolled_back("b") == [Compensate("a")]


@pytest.mark.parametrize("outcome", [None, Outcome.FAILED])
def test_a_rollback_compensates_an_attempt_in_doubt_that_did_not_land(
    outcome: Outcome | None,
) -> None:
    level = Level(step("a"), asking("b"), concurrency=2)
    level.begin()
    level.fail("a")
    level.crash()

    assert level.tell(Reconciled("b", outcome)) == [Compensate("b")]


def test_a_reconcile_that_keeps_killing_a_rollback_is_given_up_and_compensated() -> None:
    level = Level(step("a"), asking("b"), concurrency=2, max_recoveries=1)
    level.begin()
    level.fail("a")
    assert level.crash() == [BeginRollback(), Reconcile("b")]
    assert level.crash() == [BeginRollback(), Reconcile("b")]

    assert level.crash() == [BeginRollback(), Compensate("b")]


@pytest.mark.parametrize("kind", [NodeKind.COMPOSE, NodeKind.MAP])
def test_a_nested_level_that_failed_has_rolled_itself_back(kind: NodeKind) -> None:
    level = Level(step("a"), nested("child", "a", kind=kind))
    level.begin()
    level.succeed("a")

    assert level.fail("child") == [BeginRollback(), Undo("a")]
    assert level.state.nodes["child"].rollback is StepRollback.UNDONE


@pytest.mark.parametrize("kind", [NodeKind.COMPOSE, NodeKind.MAP])
def test_a_nested_level_that_completed_is_undone(kind: NodeKind) -> None:
    level = Level(nested("child", kind=kind), step("b", "child"))
    level.begin()
    level.succeed("child")
    level.fail("b")

    assert level.rolled_back("b") == [Undo("child")]


def test_a_nested_level_is_never_retried() -> None:
    level = Level(nested("child"))
    level.begin()

    assert level.fail("child", retryable=True) == [BeginRollback(), Finish(Ending.FAILED)]


def test_what_a_nested_level_could_not_roll_back_is_left_to_an_undo_by_hand() -> None:
    level = Level(nested("child"))
    level.begin()

    left = level.fail("child", incomplete=True)
    assert left == [BeginRollback(), Finish(Ending.FAILED, incomplete=True)]
    assert level.undo() == [BeginRollback(), Undo("child")]
    assert level.rolled_back("child") == [Finish(Ending.UNDONE)]


def test_what_a_nested_level_left_behind_although_it_succeeded_is_not_dropped() -> None:
    level = Level(nested("child", kind=NodeKind.MAP), step("b", "child"))
    level.begin()
    level.tell(Settled("child", Outcome.SUCCEEDED, 1, incomplete=True))
    level.crash(incomplete=True)

    assert level.succeed("b") == [Finish(Ending.COMPLETED, incomplete=True)]


def test_nested_work_of_a_step_without_an_undo_is_undone() -> None:
    level = Level(replace(step("a"), undoes=False), step("b", "a"))
    level.begin()
    level.tell(Settled("a", Outcome.SUCCEEDED, 1, nested=True))
    level.fail("b")

    assert level.rolled_back("b") == [Undo("a")]


def test_steps_without_compensate_and_undo_are_passed_over() -> None:
    bare = replace(step("b", "a"), compensates=False)
    level = Level(replace(step("a"), undoes=False), bare)
    level.begin()
    level.succeed("a")

    assert level.fail("b") == [BeginRollback(), Finish(Ending.FAILED)]


def test_a_value_that_cannot_be_returned_rolls_everything_back() -> None:
    level = Level(step("a"))
    level.begin()
    level.succeed("a")

    assert level.tell(ReturnFailed()) == [BeginRollback(), Undo("a")]
    assert level.crash() == [BeginRollback(), Undo("a")]
    assert level.rolled_back("a") == [Finish(Ending.FAILED)]


def test_nothing_starts_after_a_failure() -> None:
    level = Level(step("a"), step("b"), step("c"), concurrency=2)
    assert level.begin() == [RunStep("a", 1), RunStep("b", 1)]

    assert level.fail("a") == []
