"""`semantics.md` 2 and 8, for a map that runs in this process."""

from __future__ import annotations

from dataclasses import replace

from calandria.engine.commands import (
    BeginRollback,
    Command,
    Compensate,
    Ending,
    FindOutstanding,
    Finish,
    Reconcile,
    RetryLater,
    RunStep,
    Undo,
    UndoAll,
)
from calandria.engine.events import (
    AllUndone,
    Began,
    Exhausted,
    Found,
    MapEvent,
    NoneLeft,
    Outcome,
    Reconciled,
    RetryDue,
    RolledBack,
    Settled,
    SourceFailed,
    Stopped,
    Stopping,
    TakenUp,
    UndoAsked,
)
from calandria.engine.maps import MapPlan, MapState, advance_map, restore_map
from calandria.engine.node_state import NodeState
from calandria.plan.model import Node
from calandria.statuses import StepRollback, StepStatus
from tests.unit.engine.levels import asking, nested, step

COMPLETED = NodeState(StepStatus.COMPLETED, attempts=1, order=1)


class Map:
    """A map that is told of events one at a time."""

    def __init__(
        self, element: Node | None = None, *, keep_going: bool = False, undo_all: bool = False
    ) -> None:
        self.plan = MapPlan(element or step("element"), keep_going, undo_all)
        self.state = MapState()
        self.tell(Began())

    def tell(self, event: MapEvent) -> list[Command]:
        """Tell the engine of `event`."""
        self.state, commands = advance_map(self.plan, self.state, event)
        return commands

    def settle(self, outcome: Outcome, **rest: bool) -> list[Command]:
        """Let the element in hand end."""
        order = None if outcome is Outcome.FAILED else self.state.index + 1
        return self.tell(Settled(str(self.state.index), outcome, order, **rest))

    def crash(self, *, going_back: bool = False) -> list[Command]:
        """Die after the element in hand was recorded, and be taken up."""
        step = None if self.state.step is None else replace(self.state.step)
        self.state = restore_map(self.plan, self.state.index, step, going_back=going_back)
        return self.tell(TakenUp(2))


def test_elements_run_in_index_order_until_the_source_ends() -> None:
    here = Map()
    assert here.settle(Outcome.SUCCEEDED) == [RunStep("1", 1)]
    assert here.settle(Outcome.SKIPPED) == [RunStep("2", 1)]
    assert here.settle(Outcome.HALTED) == [RunStep("3", 1)]
    assert here.tell(Exhausted()) == [Finish(Ending.COMPLETED)]


def test_fail_fast_compensates_the_element_then_rolls_back_the_highest_first() -> None:
    here = Map()
    here.settle(Outcome.SUCCEEDED)

    assert here.settle(Outcome.FAILED, retryable=False) == [Compensate("1")]
    assert here.tell(RolledBack("1", ok=True)) == [BeginRollback(), FindOutstanding(None)]
    assert here.tell(Found("0", replace(COMPLETED))) == [Undo("0")]
    assert here.tell(RolledBack("0", ok=True)) == [FindOutstanding(0)]
    assert here.tell(NoneLeft()) == [Finish(Ending.FAILED)]


def test_keep_going_runs_every_element() -> None:
    here = Map(keep_going=True)

    assert here.settle(Outcome.FAILED, retryable=False) == [Compensate("0")]
    assert here.tell(RolledBack("0", ok=True)) == [RunStep("1", 1)]
    assert here.tell(Exhausted()) == [Finish(Ending.COMPLETED)]


def test_a_kept_going_elements_failed_compensate_is_not_repeated_after_a_crash() -> None:
    here = Map(keep_going=True)
    here.settle(Outcome.FAILED, retryable=False)
    failed = here.state.step
    here.tell(RolledBack("0", ok=False))

    here.state.index, here.state.step = 0, failed
    assert here.crash() == [RunStep("1", 1)]


def test_an_element_that_is_a_reactor_has_rolled_itself_back() -> None:
    here = Map(nested("element"))

    assert here.settle(Outcome.FAILED) == [BeginRollback(), FindOutstanding(None)]


def test_an_element_retries() -> None:
    here = Map(step("element", retries=2))

    assert here.settle(Outcome.FAILED) == [RetryLater("0", 1.0)]
    assert here.tell(RetryDue("0")) == [RunStep("0", 2)]
    assert here.crash() == [RunStep("0", 2, recovery=True)]
    assert here.settle(Outcome.FAILED) == [Compensate("0")]


def test_undo_all_is_one_call_after_what_was_cut_off() -> None:
    here = Map(nested("element"), undo_all=True)
    here.settle(Outcome.SUCCEEDED)
    here.settle(Outcome.HALTED)
    halted = NodeState(StepStatus.HALTED, attempts=1, order=2)

    asked = here.settle(Outcome.FAILED)
    assert asked == [BeginRollback(), FindOutstanding(None, cut_off_only=True)]
    assert here.tell(Found("1", halted)) == [Undo("1")]
    assert here.tell(RolledBack("1", ok=True)) == [FindOutstanding(1, cut_off_only=True)]
    assert here.tell(NoneLeft()) == [UndoAll()]
    assert here.tell(AllUndone(ok=False)) == [Finish(Ending.FAILED, incomplete=True)]


def test_an_element_found_to_have_landed_is_left_to_the_bulk_undo() -> None:
    here = Map(asking("element"), undo_all=True)
    here.tell(Stopped(Stopping.ABORTED))
    here.settle(Outcome.CUT_OFF)
    in_doubt = here.state.step
    assert in_doubt is not None

    here.state = restore_map(here.plan, 0, in_doubt)
    here.tell(UndoAsked(2))
    here.tell(Found("0", in_doubt))
    found = here.tell(Reconciled("0", Outcome.SUCCEEDED, 1))

    assert found == [FindOutstanding(0, cut_off_only=True, failed_too=True)]


def test_a_reconcile_that_ends_after_a_stop_starts_nothing() -> None:
    here = Map(asking("element"))
    assert here.crash() == [Reconcile("0")]
    here.tell(Stopped(Stopping.CANCELLED))

    assert here.tell(Reconciled("0", None)) == [Finish(Ending.CANCELLED)]


def test_a_source_that_fails_rolls_the_map_back() -> None:
    here = Map()
    here.settle(Outcome.SUCCEEDED)

    assert here.tell(SourceFailed()) == [BeginRollback(), FindOutstanding(None)]


def test_a_map_whose_source_failed_stays_on_its_way_back_after_a_crash() -> None:
    here = Map()
    here.settle(Outcome.SKIPPED)
    here.tell(SourceFailed())

    assert here.crash(going_back=True) == [BeginRollback(), FindOutstanding(None)]


def test_a_source_that_fails_after_a_stop_rolls_nothing_back() -> None:
    here = Map()
    here.settle(Outcome.SUCCEEDED)
    assert here.tell(Stopped(Stopping.ABORTED)) == []

    assert here.tell(SourceFailed()) == [Finish(Ending.ABORTED)]


def test_a_stop_keeps_the_elements_that_are_done() -> None:
    here = Map()
    here.settle(Outcome.SUCCEEDED)
    here.tell(Stopped(Stopping.CANCELLED))

    assert here.settle(Outcome.SUCCEEDED) == [Finish(Ending.CANCELLED)]


def test_cancel_does_not_turn_an_abort_into_a_cancel() -> None:
    here = Map()
    here.tell(Stopped(Stopping.ABORTED))
    here.tell(Stopped(Stopping.CANCELLED))

    assert here.settle(Outcome.CUT_OFF) == [Finish(Ending.ABORTED)]


def test_cancel_while_rolling_back_is_ignored() -> None:
    here = Map()
    here.settle(Outcome.SUCCEEDED)
    here.tell(SourceFailed())

    assert here.tell(Stopped(Stopping.CANCELLED)) == []
    assert here.tell(Found("0", replace(COMPLETED))) == [Undo("0")]


def test_a_failed_undo_does_not_stop_the_rest_and_undo_tries_just_it_again() -> None:
    here = Map()
    here.settle(Outcome.SUCCEEDED)
    here.tell(SourceFailed())
    here.tell(Found("0", replace(COMPLETED)))
    assert here.tell(RolledBack("0", ok=False)) == [FindOutstanding(0)]
    assert here.tell(NoneLeft()) == [Finish(Ending.FAILED, incomplete=True)]

    left = replace(COMPLETED, rollback=StepRollback.UNDO_FAILED)
    here.state = restore_map(here.plan, 0, left, incomplete=True)
    assert here.tell(UndoAsked(2)) == [BeginRollback(), FindOutstanding(None, failed_too=True)]
    assert here.tell(Found("0", left)) == [Undo("0")]
    assert here.tell(RolledBack("0", ok=True)) == [FindOutstanding(0, failed_too=True)]
    assert here.tell(NoneLeft()) == [Finish(Ending.UNDONE)]
