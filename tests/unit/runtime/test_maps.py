"""Inline maps: order, failures, results, bulk undo, and any number of elements."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from calandria import (
    Failure,
    MapResult,
    Reactor,
    Retry,
    RunStatus,
    Step,
    StepStatus,
    Success,
    UndoIncomplete,
    compose,
    element,
    fail,
    halt,
    index,
    inputs,
    map_each,
    skip,
    step,
)
from tests.unit.runtime.saga import TWICE, Outage, logged, only_run, raising

pytestmark = pytest.mark.usefixtures("runtime")


def numbered(diary: list[str], run: Any = None, **actions: Any) -> type[Step]:
    """Return a step class over a number; `run` is told it."""
    policy = actions.get("retry", Step.retry)

    class Numbered(Step):
        number: int
        retry = policy

        def run(self) -> Any:
            diary.append(f"+{self.number}")
            return self.number * 10 if run is None else run(self.number)

        def compensate(self, reason: object) -> None:
            diary.append(f"!{self.number}")
            actions.get("compensate", lambda number: None)(self.number)

        def undo(self, result: object) -> None:
            diary.append(f"-{self.number}")
            actions.get("undo", lambda number: None)(self.number)

    return Numbered


def broken_at(bad: int) -> Any:
    def run(number: int) -> int:
        if number == bad:
            raise Outage(f"element {number}")
        return number * 10

    return run


def test_elements_run_in_index_order_and_the_result_is_a_lazy_sequence(diary: list[str]) -> None:
    class Saga(Reactor):
        each = map_each(numbered(diary), over=range(5), number=element)

    result = Saga.run()

    assert isinstance(result, Success)
    assert isinstance(result.value, MapResult)
    assert diary == ["+0", "+1", "+2", "+3", "+4"]
    assert result.value == [0, 10, 20, 30, 40]


def test_the_result_answers_as_a_sequence_does() -> None:
    class Saga(Reactor):
        each = map_each(numbered([]), over=range(5), number=element)

    result = Saga.run()
    assert isinstance(result, Success)
    values = result.value

    assert len(values) == 5
    assert (values[0], values[-1], values[-5]) == (0, 40, 0)
    assert values[1:3] == [10, 20]
    assert values[::-2] == [40, 20, 0]
    assert values[7:] == []
    assert list(reversed(values)) == [40, 30, 20, 10, 0]
    assert (30 in values, 31 in values, values.index(30), values.count(30)) == (True, False, 3, 1)
    assert values == (0, 10, 20, 30, 40)
    assert values != [0, 10]
    assert list(values.successes) == [0, 10, 20, 30, 40]
    assert values.failures == []
    for position in (5, -6):
        with pytest.raises(IndexError):
            values[position]


def test_element_and_index_reach_paths_and_transformations() -> None:
    seen: list[tuple[str, int, int]] = []

    class Note(Step):
        name: str
        place: int
        doubled: int

        def run(self) -> None:
            seen.append((self.name, self.place, self.doubled))

    class Saga(Reactor):
        rows: list[dict[str, Any]]
        each = map_each(
            Note,
            over=inputs.rows,
            name=element["name"],
            place=index,
            doubled=element["n"].map(lambda n: n * 2),
        )

    Saga.run(rows=[{"name": "a", "n": 1}, {"name": "b", "n": 2}])

    assert seen == [("a", 0, 2), ("b", 1, 4)]


@pytest.mark.parametrize("empty", [[], (), range(0)], ids=["list", "tuple", "range"])
def test_an_empty_source_gives_an_empty_result(empty: Any) -> None:
    collected: list[int] = []

    class Saga(Reactor):
        each = map_each(numbered([]), over=empty, number=element)
        summed = map_each(numbered([]), over=empty, number=element).collect(
            lambda results: sum(results)
        )
        undone = map_each(numbered([]), over=empty, number=element).undo_all(
            lambda results: collected.append(1)
        )
        returns = each

    assert Saga.run() == Success([])
    assert only_run().results["summed"] == 0
    only_run().undo()
    assert collected == []


def test_a_generator_is_read_once_in_order_and_lazily(diary: list[str]) -> None:
    def source(*, count: int) -> Iterator[int]:
        for number in range(count):
            diary.append(f"read {number}")
            yield number

    class Saga(Reactor):
        count: int
        each = map_each(numbered(diary), over=source, number=element)

    assert Saga.run(count=2) == Success([0, 10])
    assert diary == ["read 0", "+0", "read 1", "+1"]


def test_a_source_that_raises_on_the_way_fails_the_map_and_rolls_back(diary: list[str]) -> None:
    def source() -> Iterator[int]:
        yield from range(3)
        raise Outage("source broken")

    class Saga(Reactor):
        first = step(logged(diary, "first"))
        each = map_each(numbered(diary), over=source, number=element).after(first)

    result = Saga.run()

    assert isinstance(result, Failure)
    assert "source broken" in result.error
    assert (result.step, result.exception_class) == ("each", "Outage")
    assert diary == ["+first", "+0", "+1", "+2", "-2", "-1", "-0", "-first"]
    assert only_run().rollback == "complete"


def test_a_source_that_is_no_collection_is_named() -> None:
    class Saga(Reactor):
        thing: Any
        each = map_each(numbered([]), over=inputs.thing, number=element)

    result = Saga.run(thing=7)

    assert isinstance(result, Failure)
    assert "each" in result.error
    assert "int" in result.error


def test_fail_fast_starts_nothing_more_and_undoes_highest_index_first(diary: list[str]) -> None:
    class Saga(Reactor):
        first = step(logged(diary, "first"))
        each = map_each(numbered(diary, broken_at(2)), over=range(5), number=element).after(first)

    result = Saga.run()

    assert isinstance(result, Failure)
    assert (result.error, result.step) == ("element 2", "each[2]")
    assert result.inputs == {"number": 2}
    assert diary == ["+first", "+0", "+1", "+2", "!2", "-1", "-0", "-first"]


def test_an_element_whose_inputs_are_wrong_is_not_compensated(diary: list[str]) -> None:
    class Saga(Reactor):
        each = map_each(numbered(diary), over=[1, "x", 3], number=element)

    result = Saga.run()

    assert isinstance(result, Failure)
    assert result.step == "each[1]"
    assert diary == ["+1", "-1"]


def test_keep_going_runs_every_element_and_collects_failures(diary: list[str]) -> None:
    class Saga(Reactor):
        each = map_each(
            numbered(diary, broken_at(1)), over=[0, 1, 2, "x", 4], number=element
        ).keep_going()

    result = Saga.run()

    assert isinstance(result, Success)
    assert diary == ["+0", "+1", "!1", "+2", "+4"]
    assert len(result.value) == 5
    assert list(result.value.successes) == [0, 20, 40]
    failures = list(result.value.failures)
    assert [f.step for f in failures] == ["each[1]", "each[3]"]
    assert failures[0].error == "element 1"
    assert result.value[1] == failures[0]
    assert (len(result.value.failures), bool(result.value.failures)) == (2, True)
    assert result.value.failures == failures
    assert (result.value.failures[1], result.value.failures[-2:]) == (failures[1], failures)
    with pytest.raises(IndexError):
        result.value.failures[2]
    # a later rollback undoes only what completed
    only_run().undo()
    assert diary[5:] == ["-4", "-2", "-0"]


def test_keep_going_with_all_elements_failing_is_a_success() -> None:
    class Saga(Reactor):
        each = map_each(logged([], "x", raising(Outage())), over=range(3)).keep_going()

    result = Saga.run()

    assert isinstance(result, Success)
    assert len(result.value.failures) == 3
    assert not result.value.successes


def test_a_compensate_that_fails_under_keep_going_is_reported_and_left(diary: list[str]) -> None:
    mended = False

    def compensate(number: int) -> None:
        if not mended:
            raise Outage("stuck")

    class Saga(Reactor):
        each = map_each(
            numbered(diary, broken_at(1), compensate=compensate), over=range(3), number=element
        ).keep_going()
        broken = step(logged(diary, "broken", raising(Outage()))).after(each)

    result = Saga.run()

    assert isinstance(result, Failure)
    assert diary == ["+0", "+1", "!1", "+2", "+broken", "!broken", "-2", "-0"]
    assert [(f.step, f.kind, f.element_index) for f in result.rollback_failures] == [
        ("each[1]", "compensate", 1)
    ]
    mended = True
    only_run().undo()
    assert diary[8:] == ["!1"]
    assert only_run().rollback == "complete"


def test_elements_are_retried_each_on_its_own(diary: list[str]) -> None:
    seen: set[int] = set()

    def flaky(number: int) -> int:
        if number not in seen:
            seen.add(number)
            raise Outage
        return number

    class Saga(Reactor):
        each = map_each(numbered(diary, flaky, retry=TWICE), over=range(2), number=element)
        declared = map_each(logged(diary, "x"), over=[0]).retry(TWICE)

    Saga.run()

    assert diary == ["+0", "+0", "+1", "+1", "+x"]


def test_skipped_and_halted_elements(diary: list[str]) -> None:
    def body(number: int) -> int:
        if number == 1:
            skip("skipped")
        if number == 2:
            halt("enough")
        return number

    class Saga(Reactor):
        each = map_each(numbered(diary, body), over=range(4), number=element)

    result = Saga.run()

    assert isinstance(result, Success)
    assert list(result.value) == [0, "skipped", None, 3]
    assert list(result.value.successes) == [0, 3]
    assert [view.status for view in only_run().steps("each")] == [
        StepStatus.COMPLETED,
        StepStatus.SKIPPED,
        StepStatus.HALTED,
        StepStatus.COMPLETED,
    ]
    only_run().undo()
    assert diary[4:] == ["-3", "-0"]


def test_collect_reduces_and_its_error_rolls_the_map_back(diary: list[str]) -> None:
    class Summed(Reactor):
        each = map_each(numbered(diary), over=range(4), number=element).collect(
            lambda results: sum(results)
        )

    assert Summed.run() == Success(60)

    class Broken(Reactor):
        each = map_each(numbered(diary), over=range(2), number=element).collect(
            lambda results: fail("cannot reduce")
        )

    diary.clear()
    result = Broken.run()
    assert isinstance(result, Failure)
    assert "cannot reduce" in result.error
    assert diary == ["+0", "+1", "-1", "-0"]


def test_a_collected_value_that_cannot_be_recorded_rolls_the_map_back(diary: list[str]) -> None:
    class Saga(Reactor):
        each = map_each(numbered(diary), over=range(2), number=element).collect(
            lambda results: object()
        )

    result = Saga.run()

    assert isinstance(result, Failure)
    assert "each" in (result.step or "")
    assert diary == ["+0", "+1", "-1", "-0"]


def test_collect_sees_failures_under_keep_going() -> None:
    class Saga(Reactor):
        each = (
            map_each(numbered([], broken_at(1)), over=range(3), number=element)
            .keep_going()
            .collect(lambda r: (list(r.successes), [f.error for f in r.failures], len(r)))
        )

    assert Saga.run() == Success(([0, 20], ["element 1"], 3))


def test_a_map_over_a_map_result_and_a_step_that_takes_one(diary: list[str]) -> None:
    class Saga(Reactor):
        first = map_each(numbered([]), over=range(3), number=element)
        second = map_each(numbered([]), over=first, number=element)

        @step
        def total(*, first: list[int], second: MapResult[int]) -> int:
            assert isinstance(first, list)
            return sum(first) + sum(second)

    assert Saga.run() == Success(30 + 300)


def test_a_map_inside_a_compose_inside_a_map(diary: list[str]) -> None:
    class Innermost(Reactor):
        group: int
        each = map_each(numbered(diary), over=lambda group: range(group), number=element)

    class Middle(Reactor):
        group: int
        inner = compose(Innermost)

    class Outer(Reactor):
        groups = map_each(Middle, over=[2, 1], group=element)
        broken = step(logged(diary, "broken", raising(Outage()))).after(groups)

    Outer.run()

    assert diary == ["+0", "+1", "+0", "+broken", "!broken", "-0", "-1", "-0"]
    paths = [view.path for view in only_run().steps("groups[0]/inner/each")]
    assert paths == ["groups[0]/inner/each[0]", "groups[0]/inner/each[1]"]


def test_a_failing_element_reactor_rolls_itself_back_before_the_others(diary: list[str]) -> None:
    class Inner(Reactor):
        number: int
        a = step(numbered(diary), number=inputs.number)
        b = step(numbered(diary, broken_at(11)), number=inputs.number.map(lambda n: n + 10)).after(
            a
        )

    class Outer(Reactor):
        each = map_each(Inner, over=range(3), number=element)

    Outer.run()

    assert diary == ["+0", "+10", "+1", "+11", "!11", "-1", "-10", "-0"]


def test_undo_all_is_one_lazy_call_with_the_results_in_index_order(diary: list[str]) -> None:
    def undo_all(results: Any) -> None:
        diary.append(f"undo_all {list(results)} {list(results)}")

    class Saga(Reactor):
        first = step(logged(diary, "first"))
        each = (
            map_each(numbered(diary), over=range(3), number=element).undo_all(undo_all).after(first)
        )
        broken = step(logged(diary, "broken", raising(Outage()))).after(each)

    Saga.run()

    assert diary[4:] == [
        "+broken",
        "!broken",
        "undo_all [0, 10, 20] [0, 10, 20]",
        "-first",
    ]
    assert only_run().rollback == "complete"


@pytest.mark.parametrize("is_async", [True, False])
def test_undo_all_follows_the_compensate_of_the_failed_element(
    diary: list[str], is_async: bool
) -> None:
    def undo_all(results: Any) -> None:
        diary.append(f"undo_all {list(results)}")

    async def undo_all_async(results: Any) -> None:
        await asyncio.sleep(0)
        undo_all(results)

    class Saga(Reactor):
        each = map_each(numbered(diary, broken_at(2)), over=range(4), number=element).undo_all(
            undo_all_async if is_async else undo_all
        )

    Saga.run()

    assert diary == ["+0", "+1", "+2", "!2", "undo_all [0, 10]"]


def test_undo_all_is_not_called_when_nothing_completed(diary: list[str]) -> None:
    class Saga(Reactor):
        each = map_each(numbered(diary, broken_at(0)), over=range(2), number=element).undo_all(
            lambda results: diary.append("undo_all")
        )

    Saga.run()

    assert diary == ["+0", "!0"]


def test_a_failing_undo_all_is_one_rollback_failure_and_can_be_repeated(diary: list[str]) -> None:
    mended = False

    def undo_all(results: Any) -> None:
        diary.append(f"undo_all {list(results)}")
        if not mended:
            raise Outage("stuck")

    class Saga(Reactor):
        first = step(logged(diary, "first"))
        each = (
            map_each(numbered(diary), over=range(2), number=element).undo_all(undo_all).after(first)
        )
        broken = step(logged(diary, "broken", raising(Outage()))).after(each)

    result = Saga.run()

    assert isinstance(result, Failure)
    (left,) = result.rollback_failures
    assert (left.step, left.kind, left.reason, left.message) == (
        "each",
        "undo_all",
        "raised",
        "Outage: stuck",
    )
    assert left.map_step == "each"
    assert diary[-2:] == ["undo_all [0, 10]", "-first"]

    with pytest.raises(UndoIncomplete):
        only_run().undo()
    mended = True
    only_run().undo()
    assert diary[-2:] == ["undo_all [0, 10]"] * 2
    assert (only_run().status, only_run().rollback) == ("failed", "complete")


def test_halted_element_reactors_are_undone_one_by_one_beside_undo_all(diary: list[str]) -> None:
    class Inner(Reactor):
        number: int
        work = step(numbered(diary))

        @step
        def stop(*, number: int, work: int) -> int:
            return work if number != 1 else halt()

    class Saga(Reactor):
        each = map_each(Inner, over=range(3), number=element).undo_all(
            lambda results: diary.append(f"undo_all {list(results)}")
        )
        broken = step(logged(diary, "broken", raising(Outage()))).after(each)

    Saga.run()

    assert diary == ["+0", "+1", "+2", "+broken", "!broken", "-1", "undo_all [0, 20]"]


def test_many_elements_are_paged_forward_back_and_in_the_result() -> None:
    undone: list[int] = []

    class Work(Step):
        number: int

        def run(self) -> int:
            return self.number

        def undo(self, result: int) -> None:
            undone.append(result)

    class Saga(Reactor):
        each = map_each(Work, over=range(2500), number=element)

    result = Saga.run()

    assert isinstance(result, Success)
    assert list(result.value) == list(range(2500))
    assert result.value[-1] == 2499
    only_run().undo()
    assert undone == list(range(2499, -1, -1))
    assert only_run().status is RunStatus.CANCELLED


def test_a_map_result_survives_as_the_value_of_a_run() -> None:
    class Saga(Reactor):
        each = map_each(numbered([]), over=range(3), number=element)

    Saga.run()

    result = only_run().result
    assert result == Success([0, 10, 20])
    assert only_run().results["each"][1] == 10


def test_a_compose_returns_a_map_result_to_its_parent() -> None:
    class Inner(Reactor):
        each = map_each(numbered([]), over=range(3), number=element)

    class Outer(Reactor):
        inner = compose(Inner)

        @step
        def total(*, inner: list[int]) -> int:
            return sum(inner)

    assert Outer.run() == Success(30)


@pytest.mark.parametrize("how", ["run", "arun"])
def test_async_elements_in_both_drivers(diary: list[str], how: str) -> None:
    class Work(Step):
        number: int
        retry = Retry(max_attempts=2, base_delay=0)

        async def run(self) -> int:
            await asyncio.sleep(0)
            if self.number == 1 and self.context.attempt == 1:
                raise Outage
            return self.number

        async def undo(self, result: int) -> None:
            await asyncio.sleep(0)
            diary.append(f"-{result}")

    class Saga(Reactor):
        each = map_each(Work, over=range(3), number=element)
        broken = step(logged(diary, "broken", raising(Outage()))).after(each)

    if how == "run":
        Saga.run()
    else:
        asyncio.run(Saga.arun())

    assert diary == ["+broken", "!broken", "-2", "-1", "-0"]


def test_a_condition_on_a_map_skips_it_whole(diary: list[str]) -> None:
    class Saga(Reactor):
        wanted: bool
        each = map_each(numbered(diary), over=range(3), number=element).when(inputs.wanted)

    assert Saga.run(wanted=False) == Success(None)
    assert diary == []
