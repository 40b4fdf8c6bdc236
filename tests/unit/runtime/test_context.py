"""What a body sees of its execution: `self.context`."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from calandria import (
    CalandriaError,
    Failure,
    Reactor,
    Retry,
    Step,
    Success,
    compose,
    inputs,
    map_each,
    step,
)
from tests.unit.runtime.saga import Outage, only_run

pytestmark = pytest.mark.usefixtures("runtime")


def test_ids_names_attempt_and_epoch() -> None:
    seen: list[dict[str, Any]] = []

    class Look(Step):
        retry = Retry(max_attempts=2, base_delay=0)

        def run(self) -> None:
            context = self.context
            seen.append(
                {
                    "run_id": context.run_id,
                    "root_id": context.root_id,
                    "reactor": context.reactor,
                    "step": context.step,
                    "attempt": context.attempt,
                    "epoch": context.epoch,
                    "holds": tuple(context.holds),
                    "cancelled": context.cancelled,
                }
            )
            if context.attempt == 1:
                raise Outage

    class Saga(Reactor):
        look = step(Look)

    run_id = Saga.run().run_id

    expected = {
        "run_id": run_id,
        "root_id": run_id,
        "reactor": Saga.definition().name,
        "step": "look",
        "attempt": 1,
        "epoch": 1,
        "holds": (),
        "cancelled": False,
    }
    assert seen == [expected, expected | {"attempt": 2}]


def test_paths_name_the_place_at_any_depth() -> None:
    paths: list[tuple[str, str | None]] = []

    class Look(Step):
        def run(self) -> None:
            paths.append((self.context.step, self.context.reactor))

    class Inner(Reactor):
        look = step(Look)

    class Middle(Reactor):
        each = map_each(Inner, over=[0, 1])
        steps = map_each(Look, over=[0])

    class Outer(Reactor):
        middle = compose(Middle)

    Outer.run()

    inner, middle = Inner.definition().name, Middle.definition().name
    assert paths == [
        ("middle/each[0]/look", inner),
        ("middle/each[1]/look", inner),
        ("middle/steps[0]", middle),
    ]


def test_the_idempotency_key_is_one_per_action_through_all_its_attempts() -> None:
    keys: dict[str, list[str]] = {"run": [], "undo": [], "compensate": []}

    class Work(Step):
        retry = Retry(max_attempts=2, base_delay=0)
        rollback_retry = Retry(max_attempts=2, base_delay=0)
        broken: bool

        def note(self, action: str) -> None:
            keys[action].append(self.context.idempotency_key)
            if len(keys[action]) == 1:
                raise Outage

        def run(self) -> None:
            if self.broken:
                raise Outage
            self.note("run")

        def undo(self, result: None) -> None:
            self.note("undo")

        def compensate(self, reason: object) -> None:
            self.note("compensate")

    class Saga(Reactor):
        good = step(Work, broken=False)
        bad = step(Work, broken=True).after(good)

    Saga.run()

    assert {action: len(found) for action, found in keys.items()} == {
        "run": 2,
        "undo": 2,
        "compensate": 2,
    }
    assert all(len(set(found)) == 1 for found in keys.values())
    assert len({found[0] for found in keys.values()}) == 3


def test_elements_and_runs_have_keys_of_their_own() -> None:
    keys: list[str] = []

    class Work(Step):
        def run(self) -> None:
            keys.append(self.context.idempotency_key)

    class Saga(Reactor):
        work = map_each(Work, over=range(3))

    Saga.run()
    Saga.run()

    assert len(set(keys)) == 6


def test_results_are_read_by_step_or_by_name_and_only_when_done() -> None:
    class First(Step):
        def run(self) -> int:
            return 7

    class Saga(Reactor):
        first = step(First)

        @step
        def second(*, context: Any, first: int) -> tuple[int, int]:
            with pytest.raises(KeyError):
                context.result("third")
            with pytest.raises(KeyError):
                context.result("no such step")
            with pytest.raises(KeyError):
                context.result(42)
            return context.result("first"), context.result(Saga.first)

        third = step(First).after(second)

    assert Saga.run() == Success(7)
    assert only_run().results["second"] == (7, 7)


def test_inputs_are_the_validated_ones_of_the_reactor_around() -> None:
    seen: list[object] = []

    class Look(Step):
        def run(self) -> None:
            seen.append(dict(self.context.inputs))

        def undo(self, result: object) -> None:
            seen.append(dict(self.context.inputs))

    class Inner(Reactor):
        half: float
        look = step(Look)

    class Outer(Reactor):
        number: int
        name: str = "default"
        look = step(Look)
        inner = compose(Inner, half=inputs.number.map(lambda n: n / 2)).after(look)
        each = map_each(Look, over=[0]).after(inner)

    Outer.run(number="8")  # type: ignore[arg-type]
    only_run().undo()

    top = {"number": 8, "name": "default"}
    inner = {"half": 4.0}
    assert seen == [top, inner, top, top, inner, top]


def test_the_logger_carries_run_and_step(caplog: pytest.LogCaptureFixture) -> None:
    class Talk(Step):
        def run(self) -> None:
            self.context.logger.info("hello")

    class Saga(Reactor):
        talk = step(Talk)

    with caplog.at_level(logging.INFO, logger="calandria.step"):
        run_id = Saga.run().run_id

    (record,) = [r for r in caplog.records if r.getMessage() == "hello"]
    assert (record.run, record.step, record.attempt) == (run_id, "talk", 1)  # type: ignore[attr-defined]


def test_nested_work_is_refused_outside_of_run_and_sync_calls_on_an_event_loop() -> None:
    class Leaf(Step):
        def run(self) -> int:
            return 1

    class Saga(Reactor):
        @step
        async def on_loop(*, context: Any) -> None:
            context.call(Leaf)

    result = Saga.run()
    assert isinstance(result, Failure)
    assert "acall" in result.error
    assert result.exception_class == "CalandriaError"

    refused: list[str] = []

    class InUndo(Step):
        def run(self) -> None: ...

        def undo(self, result: object) -> None:
            with pytest.raises(CalandriaError) as caught:
                self.context.call(Leaf)
            refused.append(str(caught.value))

    class Other(Reactor):
        work = step(InUndo)

    run_id = Other.run().run_id
    assert run_id is not None
    Other.undo(run_id)
    assert "`undo`" in refused[0]


def test_a_sync_call_of_something_async_on_our_own_loop_is_an_error_not_a_deadlock() -> None:
    class Leaf(Step):
        async def run(self) -> int:
            return 1

    class Inner(Reactor):
        leaf = step(Leaf)

    class Saga(Reactor):
        @step
        async def caller() -> object:
            return Leaf.call()

    class Other(Reactor):
        @step
        async def caller() -> object:
            return Inner.run()

    first = Saga.run()
    assert isinstance(first, Failure)
    assert "acall" in first.error
    assert isinstance(Other.run(), (Success, Failure))


def test_a_context_in_a_direct_call() -> None:
    class Look(Step):
        def run(self) -> dict[str, Any]:
            context = self.context
            return {
                "run_id": context.run_id,
                "attempt": context.attempt,
                "key": context.idempotency_key,
                "inputs": dict(context.inputs),
                "cancelled": context.cancelled,
            }

    one, two = Look.call(), asyncio.run(Look.acall())

    assert isinstance(one, Success)
    assert isinstance(two, Success)
    assert one.value.pop("key") != two.value.pop("key")
    assert one == two == Success({"run_id": None, "attempt": 1, "inputs": {}, "cancelled": False})
