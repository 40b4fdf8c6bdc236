"""Nested work: journalled below its step, adopted by retries, rolled back with the step."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from calandria import (
    Failure,
    Halt,
    Reactor,
    Skipped,
    Step,
    Success,
    compose,
    fail,
    halt,
    map_each,
    skip,
    step,
)
from tests.unit.runtime.saga import THRICE, TWICE, Outage, logged, only_run, raising

pytestmark = pytest.mark.usefixtures("runtime")

WAYS = ["sync", "async"]


def leaf(diary: list[str]) -> type[Step]:
    class Leaf(Step):
        name: str

        def run(self) -> str:
            diary.append(f"+{self.name}")
            if self.name == "bad":
                raise Outage("bad leaf")
            return self.name

        def compensate(self, reason: object) -> None:
            diary.append(f"!{self.name}")

        def undo(self, result: str) -> None:
            diary.append(f"-{result}")

    return Leaf


def caller(way: str, body: Any, **options: Any) -> type[Step]:
    """Return a step whose body is an async function of a call function and the attempt."""

    class Sync(Step):
        retry = options.get("retry", Step.retry)

        def run(self) -> Any:
            async def call(step: Any, **inputs: Any) -> Any:
                if issubclass(step, Reactor):
                    return self.context.run(step, **inputs)
                return self.context.call(step, **inputs)

            coroutine = body(call, self.context.attempt)
            try:
                coroutine.send(None)
            except StopIteration as end:
                return end.value
            raise AssertionError("nothing in it waits")

        def compensate(self, reason: object) -> None:
            options.get("compensate", lambda: None)()

    class Async(Step):
        retry = options.get("retry", Step.retry)

        async def run(self) -> Any:
            async def call(step: Any, **inputs: Any) -> Any:
                if issubclass(step, Reactor):
                    return await self.context.arun(step, **inputs)
                return await self.context.acall(step, **inputs)

            return await body(call, self.context.attempt)

        async def compensate(self, reason: object) -> None:
            options.get("compensate", lambda: None)()

    return Sync if way == "sync" else Async


def run_both_ways(reactor: type[Reactor], how: str) -> Any:
    return reactor.run() if how == "run" else asyncio.run(reactor.arun())


pytest_ways = pytest.mark.parametrize("way", WAYS)
pytest_hows = pytest.mark.parametrize("how", ["run", "arun"])


@pytest_ways
@pytest_hows
def test_nested_work_is_undone_with_its_step_newest_first(
    diary: list[str], way: str, how: str
) -> None:
    Leaf = leaf(diary)

    async def body(call: Any, attempt: int) -> str:
        assert await call(Leaf, name="a") == Success("a")
        assert await call(Leaf, name="b") == Success("b")
        return "done"

    class Saga(Reactor):
        before = step(logged(diary, "before"))
        work = step(caller(way, body)).after(before)
        broken = step(logged(diary, "broken", raising(Outage()))).after(work)

    run_both_ways(Saga, how)

    assert diary == ["+before", "+a", "+b", "+broken", "!broken", "-b", "-a", "-before"]


@pytest_ways
@pytest_hows
def test_the_steps_own_compensate_comes_before_the_undo_of_its_nested_work(
    diary: list[str], way: str, how: str
) -> None:
    Leaf = leaf(diary)

    async def body(call: Any, attempt: int) -> None:
        await call(Leaf, name="a")
        raise Outage

    class Saga(Reactor):
        work = step(caller(way, body, compensate=lambda: diary.append("!work")))

    run_both_ways(Saga, how)

    assert diary == ["+a", "!work", "-a"]


@pytest_ways
@pytest_hows
def test_a_retry_adopts_what_an_earlier_attempt_completed(
    diary: list[str], way: str, how: str
) -> None:
    Leaf = leaf(diary)

    async def body(call: Any, attempt: int) -> object:
        first = await call(Leaf, name="a")
        if attempt < 3:
            raise Outage
        return first.value

    class Saga(Reactor):
        work = step(caller(way, body, retry=THRICE))

    assert run_both_ways(Saga, how) == Success("a")
    assert diary == ["+a"]


@pytest_ways
@pytest_hows
def test_what_a_later_attempt_does_not_ask_for_is_undone_at_once(
    diary: list[str], way: str, how: str
) -> None:
    Leaf = leaf(diary)

    async def body(call: Any, attempt: int) -> None:
        await call(Leaf, name=f"of attempt {attempt}")
        await call(Leaf, name="of both")
        if attempt == 1:
            raise Outage

    class Saga(Reactor):
        work = step(caller(way, body, retry=TWICE))
        later = step(logged(diary, "later")).after(work)

    run_both_ways(Saga, how)

    assert diary == ["+of attempt 1", "+of both", "+of attempt 2", "-of attempt 1", "+later"]
    only_run().undo()
    assert diary[5:] == ["-later", "-of attempt 2", "-of both"]


@pytest_ways
def test_equal_calls_in_one_attempt_are_work_of_their_own(diary: list[str], way: str) -> None:
    Leaf = leaf(diary)

    async def body(call: Any, attempt: int) -> None:
        await call(Leaf, name="a")
        await call(Leaf, name="a")
        if attempt == 1:
            raise Outage

    class Saga(Reactor):
        work = step(caller(way, body, retry=TWICE))

    Saga.run()

    assert diary == ["+a", "+a"]


@pytest_ways
@pytest_hows
def test_outcomes_of_nested_work_are_results_for_the_body_to_match(way: str, how: str) -> None:
    class Work(Step):
        how: str

        def run(self) -> str:
            match self.how:
                case "skip":
                    skip("skipped")
                case "halt":
                    halt("enough")
                case "fail":
                    fail("no")
            return "done"

    class Inner(Reactor):
        how: str
        work = step(Work)

    seen: list[Any] = []

    async def body(call: Any, attempt: int) -> None:
        for target in (Work, Inner):
            for kind in ("plain", "skip", "halt", "fail"):
                seen.append(await call(target, how=kind))

    class Saga(Reactor):
        work = step(caller(way, body))

    run_both_ways(Saga, how)

    assert seen[0] == Success("done")
    assert seen[1] == Skipped("skipped")
    assert seen[2] == Halt("enough")
    assert isinstance(seen[3], Failure)
    assert seen[3].error == "no"
    assert seen[4:7] == [Success("done"), Success("skipped"), Halt("enough")]
    assert isinstance(seen[7], Failure)


@pytest_ways
@pytest_hows
def test_a_retry_adopts_what_was_skipped_or_halted_too(
    diary: list[str], way: str, how: str
) -> None:
    skipping, halting = logged(diary, "skipping", skip), logged(diary, "halting", lambda: halt("x"))

    class Inner(Reactor):
        first = step(logged(diary, "first"))
        stop = step(halting).after(first)

    seen: list[Any] = []

    async def body(call: Any, attempt: int) -> None:
        seen.append([await call(target) for target in (skipping, halting, Inner)])
        if attempt == 1:
            raise Outage

    class Saga(Reactor):
        work = step(caller(way, body, retry=TWICE))
        broken = step(logged(diary, "broken", raising(Outage()))).after(work)

    run_both_ways(Saga, how)

    assert seen[0] == seen[1]
    assert seen[0][1:] == [Halt("x"), Halt("x")]
    assert diary == ["+skipping", "+halting", "+first", "+halting", "+broken", "!broken", "-first"]


@pytest_ways
@pytest_hows
def test_failed_nested_work_rolled_itself_back_and_the_step_decides(
    diary: list[str], way: str, how: str
) -> None:
    Leaf = leaf(diary)

    async def body(call: Any, attempt: int) -> str:
        result = await call(Leaf, name="bad")
        assert isinstance(result, Failure)
        assert result.error == "bad leaf"
        return "went on"

    class Saga(Reactor):
        work = step(caller(way, body))

    assert run_both_ways(Saga, how) == Success("went on")
    assert diary == ["+bad", "!bad"]
    only_run().undo()
    assert diary == ["+bad", "!bad"]


@pytest_ways
def test_a_returned_failure_of_nested_work_fails_the_step(diary: list[str], way: str) -> None:
    Leaf = leaf(diary)

    async def body(call: Any, attempt: int) -> Any:
        await call(Leaf, name="a")
        return await call(Leaf, name="bad")

    class Saga(Reactor):
        work = step(caller(way, body))

    result = Saga.run()

    assert isinstance(result, Failure)
    assert result.error == "bad leaf"
    assert diary == ["+a", "+bad", "!bad", "-a"]


@pytest_ways
def test_invalid_nested_inputs_are_a_failure_and_leave_no_trace(diary: list[str], way: str) -> None:
    Leaf = leaf(diary)

    async def body(call: Any, attempt: int) -> object:
        result = await call(Leaf, nonsense=1)
        assert isinstance(result, Failure)
        assert "nonsense" in result.error
        return "fine"

    class Saga(Reactor):
        work = step(caller(way, body))

    assert Saga.run() == Success("fine")
    assert list(only_run().steps("work")) == []


@pytest_ways
@pytest_hows
def test_nested_work_nests(diary: list[str], way: str, how: str) -> None:
    Leaf = leaf(diary)

    async def inner(call: Any, attempt: int) -> object:
        return (await call(Leaf, name="a")).value

    Inner = caller(way, inner)

    class Middle(Reactor):
        inner = step(Inner)
        leaf = step(Leaf, name="b").after(inner)

    async def outer(call: Any, attempt: int) -> object:
        return (await call(Middle)).value

    class Saga(Reactor):
        work = step(caller(way, outer))
        broken = step(logged(diary, "broken", raising(Outage()))).after(work)

    run_both_ways(Saga, how)

    assert diary == ["+a", "+b", "+broken", "!broken", "-b", "-a"]


@pytest_ways
def test_an_undo_of_nested_work_that_fails_is_reported_and_can_be_repeated(
    diary: list[str], way: str
) -> None:
    mended = False

    def undo() -> None:
        if not mended:
            raise Outage("stuck")

    stuck, fine = logged(diary, "stuck", undo=undo), logged(diary, "fine")

    async def body(call: Any, attempt: int) -> None:
        await call(stuck)
        await call(fine)

    class Saga(Reactor):
        work = step(caller(way, body))
        broken = step(logged(diary, "broken", raising(Outage()))).after(work)

    result = Saga.run()

    assert isinstance(result, Failure)
    (left,) = result.rollback_failures
    assert left.step.startswith("work/~1:")
    assert left.message == "Outage: stuck"
    assert diary[4:] == ["-fine", "-stuck"]

    mended = True
    only_run().undo()
    assert diary[6:] == ["-stuck"]
    assert only_run().rollback == "complete"


def test_two_classes_of_one_name_are_told_apart_within_a_run(diary: list[str]) -> None:
    def make(name: str) -> type[Step]:
        class SameName(Step):
            def run(self) -> None:
                diary.append(f"+{name}")

            def undo(self, result: object) -> None:
                diary.append(f"-{name}")

        return SameName

    one, two = make("one"), make("two")

    class Caller(Step):
        def run(self) -> None:
            self.context.call(one)
            self.context.call(two)
            raise Outage

    class Saga(Reactor):
        work = step(Caller)

    Saga.run()

    assert diary == ["+one", "+two", "-two", "-one"]


@pytest_ways
def test_nested_work_in_a_map_and_a_compose(diary: list[str], way: str) -> None:
    Leaf = leaf(diary)

    async def body(call: Any, attempt: int) -> None:
        await call(Leaf, name="a")

    Caller = caller(way, body)

    class Inner(Reactor):
        work = step(Caller)

    class Saga(Reactor):
        inner = compose(Inner)
        each = map_each(Caller, over=[0, 1]).after(inner)
        broken = step(logged(diary, "broken", raising(Outage()))).after(each)

    Saga.run()

    assert diary == ["+a"] * 3 + ["+broken", "!broken"] + ["-a"] * 3


def test_nested_work_runs_at_the_same_time_in_an_async_body(diary: list[str]) -> None:
    class Meet(Step):
        number: int

        async def run(self) -> int:
            met.add(self.number)
            while len(met) < 3:
                await asyncio.sleep(0)
            return self.number

        def undo(self, result: int) -> None:
            diary.append(f"-{result}")

    met: set[int] = set()

    class Gather(Step):
        async def run(self) -> list[Any]:
            results = await asyncio.gather(*(self.context.acall(Meet, number=n) for n in range(3)))
            return [result.value for result in results]  # type: ignore[union-attr]

    class Saga(Reactor):
        work = step(Gather)

    assert Saga.run() == Success([0, 1, 2])
    assert len(list(only_run().steps("work"))) == 3
    only_run().undo()
    assert sorted(diary) == ["-0", "-1", "-2"]


@pytest_ways
def test_nested_work_that_could_not_compensate_is_left_when_its_step_fails(
    diary: list[str], way: str
) -> None:
    mended = False

    def compensate() -> None:
        if not mended:
            raise Outage("stuck")

    broken = logged(diary, "nested", raising(Outage("why")), compensate=compensate)

    async def body(call: Any, attempt: int) -> Any:
        return await call(broken)

    class Saga(Reactor):
        before = step(logged(diary, "before"))
        work = step(caller(way, body)).after(before)

    result = Saga.run()

    assert isinstance(result, Failure)
    assert [f.message for f in result.rollback_failures] == ["Outage: stuck"]
    assert diary == ["+before", "+nested", "!nested", "-before"]
    assert only_run().rollback == "incomplete"
    mended = True
    only_run().undo()
    assert diary[4:] == ["!nested"]
    assert only_run().rollback == "complete"
