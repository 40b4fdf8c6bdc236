"""A step that is called inside one called on its own belongs to the same execution [FR-019]."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from calandria import Failure, Lock, LockNotAcquired, Reactor, Runtime, Step, Success, step
from tests.unit.coordination.helping import held_keys, stranger


class Inner(Step):
    coordination = [Lock("k"), Lock("inner")]

    def run(self) -> Any:
        return [(hold.key, hold.path) for hold in self.context.holds], self.context.idempotency_key


class Outer(Step):
    coordination = [Lock("k")]

    def run(self) -> Any:
        one, two = (self.context.call(Inner) for _ in range(2))
        assert isinstance(one, Success) and isinstance(two, Success)
        return one.value, two.value, [hold.key for hold in self.context.holds]


class AsyncOuter(Step):
    coordination = [Lock("k")]

    async def run(self) -> Any:
        result = await self.context.acall(Inner)
        assert isinstance(result, Success)
        return result.value[0]


def test_fr_019_a_call_inside_a_call_re_enters_what_its_caller_holds(runtime: Runtime) -> None:
    result = Outer.call()
    assert isinstance(result, Success)
    (first, first_key), (second, second_key), kept = result.value
    assert first == [("k", "Outer"), ("inner", "Outer/~1:Inner"), ("k", "Outer/~1:Inner")]
    assert [path for _, path in second] == ["Outer", "Outer/~2:Inner", "Outer/~2:Inner"]
    assert first_key != second_key
    assert kept == ["k"]
    assert held_keys(runtime) == []


def test_fr_019_an_awaited_call_inside_a_call_re_enters_too(runtime: Runtime) -> None:
    expected = Success([("k", "AsyncOuter"), *_of_inner("AsyncOuter/~1:Inner")])
    assert AsyncOuter.call() == expected
    assert asyncio.run(AsyncOuter.acall()) == expected
    assert held_keys(runtime) == []


def _of_inner(path: str) -> list[tuple[str, str]]:
    return [("inner", path), ("k", path)]


def test_a_call_inside_a_call_contends_with_strangers(runtime: Runtime) -> None:
    with stranger(runtime, "inner"):
        found = Outer.call()
        assert isinstance(found, Failure)
        assert isinstance(found.exception, LockNotAcquired)
    assert (found.exception.reactor, found.exception.step) == (None, "Inner")
    assert found.exception.key == "inner"
    assert held_keys(runtime) == []


def test_a_refused_direct_call_names_its_step_and_a_refused_run_its_reactor(
    runtime: Runtime,
) -> None:
    class Guarded(Reactor):
        coordination = [Lock("k")]
        inner = step(Inner)

    with stranger(runtime, "k"):
        with pytest.raises(LockNotAcquired) as of_step:
            Inner.call()
        with pytest.raises(LockNotAcquired) as of_reactor:
            Guarded.run()
    assert (of_step.value.reactor, of_step.value.step) == (None, "Inner")
    assert (of_reactor.value.reactor, of_reactor.value.step) == ("Guarded", None)
