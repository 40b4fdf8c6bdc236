"""Interruptions: no rollback code runs, the run is `aborted`, and `undo` can follow."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from calandria import (
    Failure,
    Middleware,
    Reactor,
    RunStatus,
    Step,
    Success,
    UndoIncomplete,
    element,
    map_each,
    step,
)
from tests.unit.runtime.constructs import CONSTRUCTS, DECLARED, PATHS, plain
from tests.unit.runtime.saga import Outage, async_logged, logged, only_run, raising

pytestmark = pytest.mark.usefixtures("runtime")


class PowerCut(BaseException):
    """Neither an `Exception` nor a signal."""


INTERRUPTIONS = [KeyboardInterrupt, SystemExit, MemoryError, GeneratorExit, PowerCut]


def saga(diary: list[str], make: Callable[..., Any], target: type[Step]) -> type[Reactor]:
    class Saga(Reactor):
        before = step(logged(diary, "before"))
        subject = make(target).after(before)
        later = step(logged(diary, "later")).after(subject)

    return Saga


@pytest.mark.parametrize("make", CONSTRUCTS)
@pytest.mark.parametrize("maker", [logged, async_logged])
@pytest.mark.parametrize("how", ["run", "arun"])
def test_an_interrupted_body_aborts_the_run_and_undo_compensates_it_once(
    diary: list[str], make: Callable[..., Any], maker: Callable[..., type[Step]], how: str
) -> None:
    # Given a step that is interrupted while it runs
    reactor = saga(diary, make, maker(diary, "subject", raising(PowerCut("dark"))))

    # When the reactor is run, the interruption reaches the caller
    with pytest.raises(PowerCut, match="dark"):
        if how == "run":
            reactor.run()
        else:
            asyncio.run(reactor.arun())

    # Then no rollback code ran, and the run says what is pending
    assert diary == ["+before", "+subject"]
    run = only_run()
    assert run.status is RunStatus.ABORTED
    assert run.pending_compensation is not None
    assert run.pending_compensation.startswith("subject")
    assert run.needs_attention

    # And undo compensates what was cut off, then undoes the rest, once
    run.undo()
    assert diary == ["+before", "+subject", "!subject", "-before"]
    undone = only_run()
    assert (undone.status, undone.rollback) == ("cancelled", "complete")
    assert undone.pending_compensation is None
    run.undo()
    assert diary == ["+before", "+subject", "!subject", "-before"]


@pytest.mark.parametrize("make", DECLARED)
def test_pending_compensation_is_the_path_at_any_depth(
    diary: list[str], make: Callable[..., Any]
) -> None:
    with pytest.raises(PowerCut):
        saga(diary, make, logged(diary, "subject", raising(PowerCut()))).run()

    assert only_run().pending_compensation == PATHS[make]


@pytest.mark.parametrize("interruption", INTERRUPTIONS)
@pytest.mark.parametrize("maker", [logged, async_logged])
def test_each_interruption_reaches_the_caller_as_it_was(
    diary: list[str], interruption: type[BaseException], maker: Callable[..., type[Step]]
) -> None:
    error = interruption("as it was")
    reactor = saga(diary, plain, maker(diary, "subject", raising(error)))

    with pytest.raises(interruption) as caught:
        reactor.run()

    assert caught.value is error
    assert only_run().status is RunStatus.ABORTED
    # and the runtime works on
    assert saga(diary, plain, maker(diary, "again")).run() == Success("later")


@pytest.mark.parametrize("interruption", INTERRUPTIONS)
def test_interruptions_of_bodies_under_arun_reach_the_awaiting_task(
    diary: list[str], interruption: type[BaseException]
) -> None:
    reactor = saga(diary, plain, async_logged(diary, "subject", raising(interruption("x"))))

    async def main() -> str:
        try:
            await reactor.arun()
        except interruption:
            return "interrupted"
        return "not interrupted"

    assert asyncio.run(main()) == "interrupted"
    assert only_run().status is RunStatus.ABORTED


def test_an_interruption_in_a_group_outweighs_a_signal_and_an_error(diary: list[str]) -> None:
    group = BaseExceptionGroup("both", [Outage(), PowerCut("in the group")])
    reactor = saga(diary, plain, logged(diary, "subject", raising(group)))

    with pytest.raises(BaseExceptionGroup):
        reactor.run()

    assert only_run().status is RunStatus.ABORTED


def test_an_interrupted_compensate_is_run_again_by_undo(diary: list[str]) -> None:
    cuts = [PowerCut()]

    def compensate() -> None:
        if cuts:
            raise cuts.pop()

    subject = logged(diary, "subject", raising(Outage("first")), compensate=compensate)
    with pytest.raises(PowerCut):
        saga(diary, plain, subject).run()

    run = only_run()
    assert (run.status, run.pending_compensation) == ("aborted", "subject")
    assert diary == ["+before", "+subject", "!subject"]

    run.undo()
    assert diary == ["+before", "+subject", "!subject", "!subject", "-before"]


@pytest.mark.parametrize("make", CONSTRUCTS)
def test_an_interrupted_undo_is_run_again_by_undo_and_nothing_twice(
    diary: list[str], make: Callable[..., Any]
) -> None:
    cuts = [PowerCut()]

    def undo() -> None:
        if cuts:
            raise cuts.pop()

    class Saga(Reactor):
        first = step(logged(diary, "first"))
        subject = make(logged(diary, "subject", undo=undo)).after(first)
        third = step(logged(diary, "third")).after(subject)
        broken = step(logged(diary, "broken", raising(Outage()))).after(third)

    with pytest.raises(PowerCut):
        Saga.run()

    assert diary[4:] == ["!broken", "-third", "-subject"]
    assert only_run().status is RunStatus.ABORTED

    only_run().undo()
    assert diary[7:] == ["-subject", "-first"]


def test_rollback_failures_found_before_an_interruption_are_kept(diary: list[str]) -> None:
    class Saga(Reactor):
        first = step(logged(diary, "first", undo=raising(PowerCut())))
        second = step(logged(diary, "second", undo=raising(Outage("stuck")))).after(first)
        third = step(logged(diary, "third", raising(Outage()))).after(second)

    with pytest.raises(PowerCut):
        Saga.run()

    views = {view.path: view for view in only_run().steps()}
    assert [f.message for f in views["second"].rollback_failures] == ["Outage: stuck"]


@pytest.mark.parametrize("place", ["when", "map", "over", "collect", "returns"])
def test_an_interruption_between_steps_still_aborts_the_run(diary: list[str], place: str) -> None:
    def cut(*_: object) -> Any:
        raise PowerCut

    class Take(Step):
        value: Any = None

        def run(self) -> str:
            return "second"

    class Saga(Reactor):
        first = step(logged(diary, "first"))
        match place:
            case "when":
                second = step(Take).when(lambda: cut()).after(first)
            case "map":
                second = step(Take, value=first.map(cut))
            case "over":
                second = map_each(Take, over=lambda: cut()).after(first)
            case "collect":
                second = map_each(Take, over=[1]).collect(cut).after(first)
            case _:
                second = step(Take).after(first)
                returns = second.map(cut)

    with pytest.raises(PowerCut):
        Saga.run()

    run = only_run()
    assert run.status is RunStatus.ABORTED
    assert run.results["first"] == "first"
    run.undo()
    assert diary == ["+first", "-first"]


def test_concurrent_steps_settle_and_are_recorded_before_the_run_is_aborted(
    diary: list[str],
) -> None:
    cut_off = threading.Event()
    seen: list[bool] = []

    class Slow(Step):
        def run(self) -> str:
            cut_off.wait(10)
            while not self.context.cancelled:
                threading.Event().wait(0.001)
            seen.append(self.context.cancelled)
            return "slow"

        def undo(self, result: str) -> None:
            diary.append(f"-{result}")

    class Cut(Step):
        def run(self) -> None:
            cut_off.set()
            raise PowerCut

        def compensate(self, reason: object) -> None:
            diary.append("!cut")

    class Saga(Reactor):
        concurrency = 2
        slow = step(Slow)
        cut = step(Cut)
        never = step(logged(diary, "never")).after(slow)

    with pytest.raises(PowerCut):
        Saga.run()

    run = only_run()
    assert seen == [True]
    assert run.status is RunStatus.ABORTED
    assert dict(run.results) == {"slow": "slow"}
    assert diary == []
    run.undo()
    assert diary == ["!cut", "-slow"]


def test_two_steps_interrupted_at_once_are_one_interruption(diary: list[str]) -> None:
    both = threading.Barrier(2, timeout=10)

    def body() -> None:
        both.wait()
        raise PowerCut

    class Saga(Reactor):
        concurrency = 2
        one = step(logged(diary, "one", body))
        two = step(logged(diary, "two", body))

    with pytest.raises(PowerCut):
        Saga.run()

    run = only_run()
    assert run.status is RunStatus.ABORTED
    run.undo()
    assert sorted(diary) == ["!one", "!two", "+one", "+two"]


def test_cancelling_the_task_around_arun_aborts_the_run(diary: list[str]) -> None:
    class Slow(Step):
        async def run(self) -> None:
            diary.append("+slow")
            try:
                await asyncio.sleep(60)
            finally:
                diary.append("finally")

        async def compensate(self, reason: object) -> None:
            diary.append("!slow")

    reactor = saga(diary, plain, Slow)

    async def main() -> None:
        task = asyncio.create_task(reactor.arun())
        while "+slow" not in diary:
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())

    assert diary == ["+before", "+slow", "finally"]
    run = only_run()
    assert (run.status, run.pending_compensation) == ("aborted", "subject")
    run.undo()
    assert diary[3:] == ["!slow", "-before"]


@pytest.mark.parametrize("target_is_async", [True, False])
def test_cancelling_arun_reaches_nested_work_and_aborts_too(
    diary: list[str], target_is_async: bool
) -> None:
    entered, leave = threading.Event(), threading.Event()

    class AsyncSlow(Step):
        async def run(self) -> None:
            entered.set()
            await asyncio.sleep(60)

        async def compensate(self, reason: object) -> None:
            diary.append("!nested")

    class SyncSlow(Step):
        def run(self) -> None:
            entered.set()
            while not self.context.cancelled:
                leave.wait(0.001)
            raise Outage

        def compensate(self, reason: object) -> None:
            diary.append("!nested")

    target = AsyncSlow if target_is_async else SyncSlow

    class Caller(Step):
        async def run(self) -> Any:
            return await self.context.acall(target)

    reactor = saga(diary, step, Caller)

    async def main() -> None:
        task = asyncio.create_task(reactor.arun())
        while not entered.is_set():
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())

    run = only_run()
    assert run.status is RunStatus.ABORTED
    assert diary == ["+before"]
    run.undo()
    assert diary == ["+before", "!nested", "-before"]


def test_arun_under_a_timeout_raises_timeout_error_and_is_aborted(diary: list[str]) -> None:
    class Slow(Step):
        async def run(self) -> None:
            await asyncio.sleep(60)

    async def main() -> None:
        async with asyncio.timeout(0.05):
            await saga(diary, plain, Slow).arun()

    with pytest.raises(TimeoutError):
        asyncio.run(main())

    assert only_run().status is RunStatus.ABORTED


def test_a_second_cancellation_leaves_at_once(diary: list[str]) -> None:
    entered = threading.Event()
    leave = threading.Event()

    class Stubborn(Step):
        def run(self) -> None:
            entered.set()
            leave.wait(20)

    async def main() -> None:
        task = asyncio.create_task(saga(diary, plain, Stubborn).arun())
        while not entered.is_set():
            await asyncio.sleep(0.001)
        task.cancel()
        await asyncio.sleep(0.01)
        assert not task.done()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())

    run = only_run()
    assert run.status is RunStatus.RUNNING
    assert run.lease_owner is not None
    leave.set()


def test_a_timeout_that_a_body_puts_around_its_nested_work_is_that_works_failure(
    diary: list[str],
) -> None:
    class Slow(Step):
        async def run(self) -> None:
            await asyncio.sleep(60)

        async def compensate(self, reason: object) -> None:
            diary.append("!slow")

    class Patient(Step):
        async def run(self) -> str:
            try:
                async with asyncio.timeout(0.02):
                    await self.context.acall(Slow)
            except TimeoutError:
                diary.append("timeout")
            return "went on"

    class Saga(Reactor):
        work = step(Patient)

    assert Saga.run() == Success("went on")
    assert asyncio.run(Saga.arun()) == Success("went on")
    assert diary == ["!slow", "timeout"] * 2


def test_an_interrupting_hook_after_the_end_does_not_change_how_the_run_ended(
    diary: list[str],
) -> None:
    class Cutting(Middleware):
        def run_completed(self, run: object, value: object) -> None:
            raise PowerCut

    class Saga(Reactor):
        middleware = [Cutting]
        work = step(logged(diary, "work"))

    with pytest.raises(PowerCut):
        Saga.run()

    run = only_run()
    assert (run.status, run.result) == ("completed", Success("work"))
    assert run.lease_owner is None


def test_an_interrupted_undo_by_hand_can_be_taken_up_by_hand(diary: list[str]) -> None:
    cuts = [PowerCut()]

    def undo() -> None:
        if cuts:
            raise cuts.pop()

    class Saga(Reactor):
        first = step(logged(diary, "first"))
        second = step(logged(diary, "second", undo=undo)).after(first)

    Saga.run()
    run = only_run()
    with pytest.raises(PowerCut):
        run.undo()
    assert run.status is RunStatus.ABORTED

    run.undo()

    assert diary == ["+first", "+second", "-second", "-second", "-first"]
    assert only_run().status is RunStatus.CANCELLED


def test_a_failed_rollback_before_and_after_an_interruption_is_incomplete(
    diary: list[str],
) -> None:
    cuts: list[BaseException] = [PowerCut()]

    def undo() -> None:
        if cuts:
            raise cuts.pop()

    class Saga(Reactor):
        first = step(logged(diary, "first", undo=undo))
        second = step(logged(diary, "second", undo=raising(Outage("stuck")))).after(first)
        third = step(logged(diary, "third", raising(Outage()))).after(second)

    with pytest.raises(PowerCut):
        Saga.run()
    with pytest.raises(UndoIncomplete) as left:
        only_run().undo()

    assert [(f.step, f.message) for f in left.value.rollback_failures] == [
        ("second", "Outage: stuck")
    ]
    assert only_run().rollback == "incomplete"


def test_the_result_of_an_aborted_run_names_the_interruption(diary: list[str]) -> None:
    with pytest.raises(PowerCut):
        saga(diary, plain, logged(diary, "subject", raising(PowerCut("dark")))).run()

    result = only_run().result

    assert isinstance(result, Failure)
    assert (result.error, result.exception_class) == ("PowerCut: dark", "Aborted")


def test_a_map_interrupted_at_an_element_compensates_it_and_undoes_the_others(
    diary: list[str],
) -> None:
    class Element(Step):
        number: int

        def run(self) -> int:
            diary.append(f"+{self.number}")
            if self.number == 2:
                raise PowerCut
            return self.number

        def compensate(self, reason: object) -> None:
            diary.append(f"!{self.number}")

        def undo(self, result: int) -> None:
            diary.append(f"-{result}")

    class Saga(Reactor):
        work = map_each(Element, over=range(5), number=element)

    with pytest.raises(PowerCut):
        Saga.run()

    assert only_run().pending_compensation == "work[2]"
    only_run().undo()
    assert diary == ["+0", "+1", "+2", "!2", "-1", "-0"]


def test_nested_work_that_was_finished_is_undone_with_an_interrupted_body(
    diary: list[str],
) -> None:
    nested = logged(diary, "nested")

    class Caller(Step):
        def run(self) -> None:
            self.context.call(nested)
            raise PowerCut

    with pytest.raises(PowerCut):
        saga(diary, step, Caller).run()

    run = only_run()
    assert run.pending_compensation == "subject"
    run.undo()
    assert diary == ["+before", "+nested", "-nested", "-before"]
