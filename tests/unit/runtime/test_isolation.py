"""No action shares an object with another: everyone works on copies of what is recorded."""

from __future__ import annotations

from typing import Any

import pytest

from calandria import Failure, Reactor, Retry, Step, Success, compose, inputs, map_each, step
from tests.unit.runtime.saga import Outage, only_run

pytestmark = pytest.mark.usefixtures("runtime")


def test_each_action_gets_a_fresh_object() -> None:
    seen: list[object] = []

    class Work(Step):
        retry = Retry(max_attempts=2, base_delay=0)

        def run(self) -> str:
            seen.append(getattr(self, "mark", "no mark"))
            self.mark = "set in run"
            if len(seen) == 1:
                raise Outage
            return "done"

        def undo(self, result: str) -> None:
            seen.append(getattr(self, "mark", "no mark"))

    class Saga(Reactor):
        work = step(Work)

    Saga.run()
    only_run().undo()

    assert seen == ["no mark"] * 3


def test_a_step_that_changes_its_inputs_changes_nobody_elses() -> None:
    seen: list[object] = []

    class Spoil(Step):
        items: list[int]
        retry = Retry(max_attempts=2, base_delay=0)

        def run(self) -> None:
            seen.append(list(self.items))
            self.items.append(99)
            if len(seen) == 1:
                raise Outage

        def undo(self, result: object) -> None:
            seen.append(list(self.items))

    class Saga(Reactor):
        items: list[int]
        one = step(Spoil)
        two = step(Spoil).after(one)

    given = [1, 2]
    assert Saga.run(items=given).ok
    only_run().undo()

    assert seen == [[1, 2]] * 5
    assert given == [1, 2]


def test_a_reader_that_changes_a_result_changes_nobody_elses() -> None:
    seen: list[object] = []

    def spoil(items: list[int]) -> None:
        seen.append(list(items))
        items.append(99)

    class Make(Step):
        rollback_retry = Retry(max_attempts=2, base_delay=0)

        def run(self) -> list[int]:
            return [1, 2]

        def undo(self, result: list[int]) -> None:
            spoil(result)
            if len(seen) == 5:
                raise Outage("once more")

    class Saga(Reactor):
        make = step(Make)

        @step
        def one(*, make: list[int]) -> None:
            spoil(make)

        @step
        def two(*, make: list[int], context: Any, one: None) -> None:
            spoil(context.result("make"))
            spoil(context.result("make"))
            spoil(make)

        returns = make

    assert Saga.run() == Success([1, 2])
    only_run().undo()

    assert seen == [[1, 2]] * 6


def test_what_a_map_function_or_a_condition_changes_stays_its_own() -> None:
    seen: list[object] = []

    def spoil(items: list[int]) -> list[int]:
        items.append(99)
        return items

    def keep(items: list[int], more: object = None) -> None:
        seen.append((items, more))

    class Saga(Reactor):
        numbers: list[int]

        @step
        def make() -> list[int]:
            return [1, 2]

        spoiled = step(keep, items=make.map(spoil))
        conditional = step(keep, items=make).when(lambda items: spoil(items)).after(spoiled)
        of_input = step(keep, items=inputs.numbers.map(spoil)).after(conditional)
        reader = step(keep, items=make, more=inputs.numbers).after(of_input)

    assert Saga.run(numbers=[5]).ok
    assert seen == [([1, 2, 99], None), ([1, 2], None), ([5, 99], None), ([1, 2], [5])]


def test_context_inputs_are_a_copy() -> None:
    class Saga(Reactor):
        items: list[int]

        @step
        def spoil(*, context: Any) -> None:
            context.inputs["items"].append(99)
            context.inputs["more"] = 1

        @step
        def reader(*, context: Any, spoil: None) -> dict[str, Any]:
            return dict(context.inputs)

    assert Saga.run(items=[1]) == Success({"items": [1]})


def test_what_a_body_keeps_of_its_result_does_not_reach_the_record() -> None:
    kept: list[list[int]] = []

    class Make(Step):
        def run(self) -> list[int]:
            result = [1]
            kept.append(result)
            return result

    class Saga(Reactor):
        make = step(Make)

        @step
        def spoil(*, make: list[int]) -> list[int]:
            kept[0].append(99)
            return make

    assert Saga.run() == Success([1])
    assert only_run().results["make"] == [1]


def test_the_caller_cannot_change_what_is_recorded() -> None:
    class Saga(Reactor):
        @step
        def make() -> list[int]:
            return [1]

    result = Saga.run()
    assert isinstance(result, Success)
    result.value.append(99)

    assert only_run().result == Success([1])


def test_a_compose_and_its_steps_share_nothing_with_the_outside() -> None:
    class Inner(Reactor):
        items: list[int]

        @step
        def spoil(*, items: list[int]) -> None:
            items.append(99)

        @step
        def read(*, items: list[int], spoil: None) -> list[int]:
            return items

    class Outer(Reactor):
        items: list[int]
        inner = compose(Inner)

        @step
        def read(*, items: list[int], inner: list[int]) -> list[list[int]]:
            return [items, inner]

    assert Outer.run(items=[1]) == Success([[1], [1]])


def test_defaults_are_recorded_and_not_shared_between_runs() -> None:
    class Work(Step):
        items: list[int] = [1]
        name: str = "x"

        def run(self) -> list[int]:
            self.items.append(99)
            return self.items

    class Saga(Reactor):
        work = step(Work)

    assert Saga.run() == Success([1, 99])
    second = Saga.run()
    assert second == Success([1, 99])
    run = Saga.find(second.run_id or "")
    (view,) = run.steps()
    assert view.inputs == {"items": [1], "name": "x"}


def test_values_are_validated_before_run_on_every_path() -> None:
    class Typed(Step):
        number: int

        def run(self) -> int:
            return self.number + 1

    class Saga(Reactor):
        number: str
        work = step(Typed, number=inputs.number)

    class Mapped(Reactor):
        work = map_each(Typed, over=["1"], number="7").collect(list)

    assert Saga.run(number="41") == Success(42)
    assert Mapped.run() == Success([8])
    assert Typed.call(number="5") == Success(6)  # type: ignore[arg-type]


def test_the_output_contract_is_validated_and_its_breach_compensated() -> None:
    diary: list[str] = []

    class Promises(Step):
        def run(self) -> int:
            return "no number"  # type: ignore[return-value]

        def compensate(self, reason: object) -> None:
            diary.append(type(reason).__name__)

    class Saga(Reactor):
        work = step(Promises).retry(max_attempts=3, base_delay=0)

    result = Saga.run()

    assert isinstance(result, Failure)
    assert result.exception_class == "ValidationError"
    assert result.attempts == 1
    assert result.validation_errors
    assert diary == ["ValidationError"]
