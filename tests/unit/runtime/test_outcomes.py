"""What each outcome of a step does to the run, whatever construct it happens in."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from calandria import (
    Failure,
    Halt,
    Reactor,
    RunStatus,
    Skipped,
    Step,
    Success,
    compose,
    element,
    fail,
    halt,
    map_each,
    skip,
    step,
)
from calandria.results import Signal
from tests.unit.runtime.constructs import (
    CONSTRUCTS,
    composed,
    mapped,
    mapped_reactor,
    plain,
    three_deep,
)
from tests.unit.runtime.saga import THRICE, Outage, async_logged, logged, only_run, raising

pytestmark = pytest.mark.usefixtures("runtime")

SPELLINGS = ["return", "signal"]
Maker = Callable[..., type[Step]]


def sync_and_async() -> list[Any]:
    return [pytest.param(logged, id="sync"), pytest.param(async_logged, id="async")]


def saga(diary: list[str], make: Callable[[type[Step]], Any], target: type[Step]) -> type[Reactor]:
    class Saga(Reactor):
        before = step(logged(diary, "before"))
        subject = make(target).after(before)
        later = step(logged(diary, "later")).after(subject)

    return Saga


@pytest.mark.parametrize("make", CONSTRUCTS)
@pytest.mark.parametrize("maker", sync_and_async())
@pytest.mark.parametrize("value", ["done", Success("done")], ids=["plain", "success"])
def test_a_value_is_a_success_and_the_run_goes_on(
    diary: list[str], make: Callable[..., Any], maker: Maker, value: object
) -> None:
    result = saga(diary, make, maker(diary, "subject", lambda: value)).run()

    assert result == Success("later")
    assert diary == ["+before", "+subject", "+later"]
    assert only_run().status is RunStatus.COMPLETED


@pytest.mark.parametrize("make", CONSTRUCTS)
@pytest.mark.parametrize("maker", sync_and_async())
@pytest.mark.parametrize(
    "body",
    [
        raising(Outage("no power")),
        lambda: Failure("no power"),
        lambda: fail("no power"),
        lambda: fail(Outage("no power")),
        raising(asyncio.CancelledError("no power")),
        raising(ExceptionGroup("no power", [Outage("no power")])),
    ],
    ids=["raise", "return", "fail", "fail-exception", "cancelled-unasked", "group"],
)
def test_a_failure_is_compensated_and_what_came_before_undone(
    diary: list[str], make: Callable[..., Any], maker: Maker, body: Callable[[], Any]
) -> None:
    result = saga(diary, make, maker(diary, "subject", body)).run()

    assert isinstance(result, Failure)
    assert "no power" in result.error
    assert result.rollback_failures == []
    assert diary == ["+before", "+subject", "!subject", "-before"]
    run = only_run()
    assert (run.status, run.rollback) == ("failed", "complete")


@pytest.mark.parametrize("make", CONSTRUCTS)
@pytest.mark.parametrize("maker", sync_and_async())
@pytest.mark.parametrize("body", [lambda: Skipped("kept"), lambda: skip("kept")], ids=SPELLINGS)
def test_skipped_goes_on_as_a_success_and_is_never_undone(
    diary: list[str], make: Callable[..., Any], maker: Maker, body: Callable[[], Any]
) -> None:
    class Saga(Reactor):
        subject = make(maker(diary, "subject", body))
        later = step(logged(diary, "later", raising(Outage()))).after(subject)

    result = Saga.run()

    assert isinstance(result, Failure)
    assert diary == ["+subject", "+later", "!later"]


@pytest.mark.parametrize("body", [lambda: Halt("enough"), lambda: halt("enough")], ids=SPELLINGS)
@pytest.mark.parametrize("maker", sync_and_async())
def test_halt_at_the_top_ends_the_run_with_progress_kept(
    diary: list[str], maker: Maker, body: Callable[[], Any]
) -> None:
    result = saga(diary, plain, maker(diary, "subject", body)).run()

    assert result == Halt("enough")
    assert result.ok
    assert diary == ["+before", "+subject"]
    run = only_run()
    assert (run.status, run.rollback) == ("halted", "none")


def test_the_undo_of_a_halted_run_undoes_its_progress_but_not_the_halt(diary: list[str]) -> None:
    saga(diary, plain, logged(diary, "subject", halt)).run()

    only_run().undo()

    assert diary == ["+before", "+subject", "-before"]
    assert only_run().status is RunStatus.CANCELLED


@pytest.mark.parametrize("make", [composed, mapped, mapped_reactor, three_deep])
def test_halt_below_the_top_ends_only_what_it_happens_in(
    diary: list[str], make: Callable[..., Any]
) -> None:
    result = saga(diary, make, logged(diary, "subject", halt)).run()

    assert result == Success("later")
    assert diary == ["+before", "+subject", "+later"]


def test_the_reader_of_a_halted_child_gets_none_and_its_work_stays_tracked(
    diary: list[str],
) -> None:
    seen: list[object] = []

    class Inner(Reactor):
        first = step(logged(diary, "first"))
        stop = step(logged(diary, "stop", halt)).after(first)
        never = step(logged(diary, "never")).after(stop)

    class Outer(Reactor):
        inner = compose(Inner)

        @step
        def reader(*, inner: object) -> None:
            seen.append(inner)
            raise Outage

    Outer.run()

    assert seen == [None]
    assert diary == ["+first", "+stop", "-first"]


def test_an_element_reactor_that_halts_is_none_in_the_result_and_undone_later(
    diary: list[str],
) -> None:
    class Inner(Reactor):
        number: int
        first = step(logged(diary, "first"))

        @step
        def stop(*, number: int, first: object) -> int:
            return number if number != 1 else halt()

    class Outer(Reactor):
        inner = map_each(Inner, over=[0, 1, 2], number=element)

        @step
        def reader(*, inner: list[int | None]) -> None:
            diary.append(str(inner))
            raise Outage

    Outer.run()

    assert diary == ["+first"] * 3 + ["[0, None, 2]"] + ["-first"] * 3


def test_the_trace_marks_what_was_skipped(diary: list[str]) -> None:
    class Saga(Reactor):
        first = step(logged(diary, "first", skip))
        second = step(logged(diary, "second")).when(lambda: False).after(first)

    assert Saga.run() == Success(None)
    kinds = [(entry.kind, entry.path) for entry in only_run().trace]
    assert ("step.skipped", "first") in kinds
    assert ("step.skipped", "second") in kinds
    assert ("step.started", "second") not in kinds


def test_an_unmet_condition_validates_takes_and_runs_nothing(diary: list[str]) -> None:
    class Picky(Step):
        number: int

        def run(self) -> int:
            raise AssertionError("its condition is false")

        def undo(self, result: object) -> None:
            diary.append("undone")

        def compensate(self, reason: object) -> None:
            diary.append("compensated")

    class Saga(Reactor):
        picky = step(Picky, number="not a number").when(lambda number: False)

        @step
        def reader(*, picky: object) -> str:
            diary.append(repr(picky))
            raise Outage

    Saga.run()

    assert diary == ["None"]


def test_signals_pass_a_bodys_own_except_exception_and_run_its_finally(diary: list[str]) -> None:
    def careful() -> str:
        try:
            fail("from deep down")
        except Exception:
            return "swallowed"
        finally:
            diary.append("finally")

    class Saga(Reactor):
        work = step(logged(diary, "work", careful))

    result = Saga.run()

    assert isinstance(result, Failure)
    assert result.error == "from deep down"
    assert diary == ["+work", "finally", "!work"]


@pytest.mark.parametrize(
    ("signal", "expected"),
    [
        (lambda: skip("kept"), Success("kept")),
        (lambda: halt("enough"), Halt("enough")),
        (lambda: fail("broken"), Failure("broken")),
    ],
    ids=["skip", "halt", "fail"],
)
def test_signals_are_found_in_the_groups_of_a_task_group(
    signal: Callable[[], Any], expected: object
) -> None:
    async def child() -> None:
        signal()

    class Grouped(Step):
        async def run(self) -> Any:
            async with asyncio.TaskGroup() as group:
                group.create_task(child())
                group.create_task(asyncio.sleep(60))

    class Saga(Reactor):
        work = step(Grouped)

    for result in (Saga.run(), asyncio.run(Saga.arun())):
        assert type(result) is type(expected)
        if isinstance(result, Failure):
            assert result.error == "broken"
        else:
            assert result == expected


def test_a_signal_is_found_in_nested_groups() -> None:
    class Saga(Reactor):
        @step
        def work() -> None:
            group = BaseExceptionGroup("in", [ValueError("a"), Signal(Failure("the signal"))])
            raise BaseExceptionGroup("out", [group])

    result = Saga.run()

    assert isinstance(result, Failure)
    assert result.error == "the signal"


def test_a_signal_of_a_condition_or_a_map_function_ends_its_step(diary: list[str]) -> None:
    class Saga(Reactor):
        first = step(logged(diary, "first"))
        second = step(logged(diary, "second")).when(lambda: fail("the condition")).after(first)

    result = Saga.run()

    assert isinstance(result, Failure)
    assert "the condition" in result.error
    assert result.step == "second"
    assert diary == ["+first", "-first"]


@pytest.mark.parametrize("place", ["when", "map", "over", "collect", "returns"])
@pytest.mark.parametrize(
    "error",
    [Outage("broken"), asyncio.CancelledError("broken")],
    ids=lambda error: type(error).__name__,
)
def test_an_error_in_a_function_of_the_definition_fails_its_step_and_rolls_back(
    diary: list[str], place: str, error: BaseException
) -> None:
    """A step whose inputs cannot be had never started: it is not compensated."""
    result = _with_function(diary, place, raising(error)).run()

    assert isinstance(result, Failure)
    assert "broken" in result.error
    assert diary[0] == "+first"
    assert diary[-1] == "-first"
    assert "!second" not in diary
    assert only_run().rollback == "complete"


def _with_function(diary: list[str], place: str, function: Callable[[], Any]) -> type[Reactor]:
    def body(*_: object) -> Any:
        return function()

    class Take(Step):
        value: Any = None

        def run(self) -> str:
            diary.append("+second")
            return "second"

        def compensate(self, reason: object) -> None:
            diary.append("!second")

        def undo(self, result: object) -> None:
            diary.append("-second")

    class Saga(Reactor):
        first = step(logged(diary, "first"))
        match place:
            case "when":
                second = step(Take).when(lambda: function()).after(first)
            case "map":
                second = step(Take, value=first.map(body))
            case "over":
                second = map_each(Take, over=lambda: function()).after(first)
            case "collect":
                second = map_each(Take, over=[1]).collect(body).after(first)
            case "returns":
                second = step(Take).after(first)
                returns = second.map(body)

    return Saga


def test_a_retry_does_not_follow_what_it_cannot_mend(diary: list[str]) -> None:
    class Saga(Reactor):
        work = step(logged(diary, "work", lambda: fail("no", retryable=False), retry=THRICE))

    Saga.run()

    assert diary == ["+work", "!work"]
