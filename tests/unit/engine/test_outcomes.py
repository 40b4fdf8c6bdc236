"""`semantics.md` 1: what each outcome of a step means for the run, and for a later rollback."""

from __future__ import annotations

from calandria.engine.commands import (
    BeginRollback,
    Compensate,
    Ending,
    Finish,
    GiveUp,
    Reconcile,
    RetryLater,
    RunStep,
    Undo,
)
from calandria.engine.events import Outcome, Reconciled, RetryDue, Settled, Stopped, Stopping
from calandria.statuses import StepStatus
from tests.unit.engine.levels import Level, asking, nested, step


def test_success_goes_on_and_is_undone_later() -> None:
    # Given two steps, one after the other
    level = Level(step("a"), step("b", "a"))
    assert level.begin() == [RunStep("a", 1)]

    # When the first succeeds, the second starts; when both did, the level completes
    assert level.succeed("a") == [RunStep("b", 1)]
    assert level.succeed("b") == [Finish(Ending.COMPLETED)]

    # Then an undo reverses both, newest first
    assert level.undo() == [BeginRollback(), Undo("b")]
    assert level.rolled_back("b") == [Undo("a")]
    assert level.rolled_back("a") == [Finish(Ending.UNDONE)]


def test_skipped_goes_on_as_success_does_and_is_never_undone() -> None:
    level = Level(step("a"), step("b", "a"))
    level.begin()

    assert level.skip("a") == [RunStep("b", 1)]
    level.succeed("b")

    assert level.undo() == [BeginRollback(), Undo("b")]
    assert level.rolled_back("b") == [Finish(Ending.UNDONE)]


def test_halt_ends_the_level_with_its_progress_kept_and_tracked_for_undo() -> None:
    level = Level(step("a"), step("b", "a"), step("c", "b"))
    level.begin()
    level.succeed("a")

    assert level.halt("b") == [Finish(Ending.HALTED)]

    assert level.undo() == [BeginRollback(), Undo("a")]


def test_halt_lets_what_is_in_flight_settle() -> None:
    level = Level(step("a"), step("b"), step("c", "b"), concurrency=2)
    level.begin()

    assert level.halt("a") == []
    assert level.succeed("b") == [Finish(Ending.HALTED)]


def test_halt_while_another_retries_waits_for_its_last_attempt() -> None:
    # Given one step waiting for its second attempt while another halts
    level = Level(step("a", retries=2), step("b"), concurrency=2)
    level.begin()
    level.fail("a")
    assert level.halt("b") == []

    # When the attempt is due, it is made; its success lets the level halt
    assert level.tell(RetryDue("a")) == [RunStep("a", 2)]
    assert level.succeed("a") == [Finish(Ending.HALTED)]


def test_failure_after_a_halt_rolls_back() -> None:
    level = Level(step("a"), step("b"), concurrency=2)
    level.begin()
    level.halt("a")

    assert level.fail("b") == [BeginRollback(), Compensate("b")]
    assert level.rolled_back("b") == [Finish(Ending.FAILED)]


def test_failure_retries_if_allowed_else_compensates() -> None:
    level = Level(step("a", retries=2))
    level.begin()

    assert level.fail("a") == [RetryLater("a", 1.0)]
    assert level.tell(RetryDue("a")) == [RunStep("a", 2)]
    assert level.fail("a") == [BeginRollback(), Compensate("a")]
    assert level.rolled_back("a") == [Finish(Ending.FAILED)]


def test_interruption_aborts_and_no_rollback_code_runs() -> None:
    # Given a completed step and one in flight
    level = Level(step("a"), step("b", "a"))
    level.begin()
    level.succeed("a")

    # When the process is interrupted, what is in flight settles, then the level is aborted
    assert level.tell(Stopped(Stopping.ABORTED)) == []
    assert level.tell(Settled("b", Outcome.CUT_OFF)) == [Finish(Ending.ABORTED)]
    assert level.state.nodes["b"].status is StepStatus.STARTED

    # Then only an undo by hand cleans up: first what was cut off, then what completed
    assert level.undo() == [BeginRollback(), Compensate("b")]
    assert level.rolled_back("b") == [Undo("a")]


def test_a_failure_after_an_interruption_is_recorded_and_not_compensated() -> None:
    level = Level(step("a", retries=3))
    level.begin()
    level.tell(Stopped(Stopping.ABORTED))

    assert level.fail("a") == [Finish(Ending.ABORTED)]
    assert level.state.nodes["a"].status is StepStatus.FAILED


def test_an_attempt_in_doubt_runs_again_under_its_number() -> None:
    level = Level(step("a", retries=2))
    level.begin()

    assert level.crash() == [RunStep("a", 1, recovery=True)]


def test_an_attempt_in_doubt_that_landed_is_adopted() -> None:
    level = Level(asking("a"), step("b", "a"))
    level.begin()

    assert level.crash() == [Reconcile("a")]
    assert level.tell(Reconciled("a", Outcome.SUCCEEDED, 1)) == [RunStep("b", 1)]


def test_an_attempt_in_doubt_that_did_not_land_runs_again() -> None:
    level = Level(asking("a"))
    level.begin()
    level.crash()

    assert level.tell(Reconciled("a", None)) == [RunStep("a", 1, recovery=True)]


def test_a_reconcile_that_ends_after_a_stop_starts_nothing() -> None:
    level = Level(asking("a"))
    level.begin()
    level.crash()
    level.tell(Stopped(Stopping.CANCELLED))

    assert level.tell(Reconciled("a", None)) == [Finish(Ending.CANCELLED)]
    assert level.undo() == [BeginRollback(), Reconcile("a")]


def test_a_step_that_keeps_killing_its_process_is_given_up() -> None:
    level = Level(step("a"), max_recoveries=2)
    level.begin()
    assert level.crash() == [RunStep("a", 1, recovery=True)]
    assert level.crash() == [RunStep("a", 1, recovery=True)]

    assert level.crash() == [GiveUp("a")]
    assert level.fail("a", retryable=False) == [BeginRollback(), Compensate("a")]


def test_a_nested_level_is_taken_up_however_often() -> None:
    level = Level(nested("child"), max_recoveries=1)
    level.begin()

    for _ in range(4):
        assert level.crash() == [RunStep("child", 1, recovery=True)]


def test_cancel_keeps_progress_and_leaves_the_step_it_cut_off_pending() -> None:
    level = Level(step("a"), step("b", "a"), step("c", "b"))
    level.begin()
    level.succeed("a")

    assert level.tell(Stopped(Stopping.CANCELLED)) == []
    assert level.tell(Settled("b", Outcome.CUT_OFF)) == [Finish(Ending.CANCELLED)]
    assert level.undo() == [BeginRollback(), Compensate("b")]


def test_cancel_does_not_wait_for_a_retry() -> None:
    level = Level(step("a", retries=2))
    level.begin()
    level.fail("a")

    assert level.tell(Stopped(Stopping.CANCELLED)) == [Finish(Ending.CANCELLED)]
    assert level.tell(RetryDue("a")) == []


def test_cancel_does_not_turn_an_abort_into_a_cancel() -> None:
    level = Level(step("a"))
    level.begin()
    level.tell(Stopped(Stopping.ABORTED))
    level.tell(Stopped(Stopping.CANCELLED))

    assert level.succeed("a") == [Finish(Ending.ABORTED)]
