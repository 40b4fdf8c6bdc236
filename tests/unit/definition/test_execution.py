"""What the declarations hand to the executor."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from calandria.definition import execution
from calandria.definition.execution import CallOptions, RunOptions, executor, set_executor
from calandria.definition.reactors import Reactor
from calandria.definition.step_function import step
from calandria.definition.steps import Step, unit_of
from calandria.results import Result, Success


class Charge(Step):
    amount: int
    currency: str = "EUR"

    def run(self) -> int:
        return self.amount

    def undo(self, result: int) -> None: ...

    def compensate(self, reason: object) -> None: ...


class Checkout(Reactor):
    amount: int

    charge = step(Charge)


class Recorder:
    """An executor that succeeds with what it was asked."""

    def run(self, reactor: object, values: object, options: object) -> Result[Any]:
        return Success(("run", reactor, values, options))

    async def arun(self, reactor: object, values: object, options: object) -> Result[Any]:
        return Success(("arun", reactor, values, options))

    def call(self, unit: object, values: object, options: object) -> Result[Any]:
        return Success(("call", unit, values, options))

    async def acall(self, unit: object, values: object, options: object) -> Result[Any]:
        return Success(("acall", unit, values, options))

    def call_undo(self, unit: object, result: object, values: object) -> Result[Any]:
        return Success(("call_undo", unit, result, values))

    def call_compensate(self, unit: object, reason: object, values: object) -> Result[Any]:
        return Success(("call_compensate", unit, reason, values))

    def find(self, reactor: object, run_id: str) -> Any:
        return ("find", reactor, run_id)

    def undo(self, reactor: object, run_id: str) -> Result[Any]:
        return Success(("undo", reactor, run_id))

    def cancel(self, reactor: object, run_id: str, reason: str) -> Any:
        return ("cancel", reactor, run_id, reason)

    def recover(self, reactor: object, run_id: str) -> Result[Any]:
        return Success(("recover", reactor, run_id))


@pytest.fixture(autouse=True)
def recorder() -> Iterator[None]:
    before = execution._executor
    set_executor(Recorder())
    yield
    execution._executor = before


def test_a_reactor_is_run_with_its_inputs_as_given() -> None:
    assert Checkout.run(amount=3) == Success(("run", Checkout, {"amount": 3}, RunOptions()))
    assert asyncio.run(Checkout.arun(amount=3)) == Success(
        ("arun", Checkout, {"amount": 3}, RunOptions())
    )


def test_options_are_handed_on() -> None:
    bound = Checkout.options(idempotency_key="k", correlation_id="c")
    expected = RunOptions(idempotency_key="k", correlation_id="c")

    assert bound.run(amount=3) == Success(("run", Checkout, {"amount": 3}, expected))
    assert asyncio.run(bound.arun(amount=3)) == Success(("arun", Checkout, {"amount": 3}, expected))


def test_a_step_is_called_by_its_unit() -> None:
    unit = unit_of(Charge)

    assert Charge.call(amount=3) == Success(("call", unit, {"amount": 3}, CallOptions()))
    assert asyncio.run(Charge.acall(amount=3)) == Success(
        ("acall", unit, {"amount": 3}, CallOptions())
    )


def test_the_ways_back_get_inputs_with_defaults_and_unvalidated() -> None:
    unit = unit_of(Charge)

    assert Charge.call_undo("r", amount="x") == Success(
        ("call_undo", unit, "r", {"amount": "x", "currency": "EUR"})
    )
    assert Charge.call_compensate("why", amount=1, currency="GBP") == Success(
        ("call_compensate", unit, "why", {"amount": 1, "currency": "GBP"})
    )


def test_runs_are_found_undone_cancelled_and_recovered() -> None:
    found: object = Checkout.find("r1")
    cancelled: object = Checkout.cancel("r1", "why")

    assert found == ("find", Checkout, "r1")
    assert Checkout.undo("r1") == Success(("undo", Checkout, "r1"))
    assert cancelled == ("cancel", Checkout, "r1", "why")
    assert Checkout.recover("r1") == Success(("recover", Checkout, "r1"))


def test_without_an_executor_the_error_says_what_to_import(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(execution, "_executor", None)
    monkeypatch.setattr(execution, "_make_executor", None)

    with pytest.raises(RuntimeError, match="import the calandria package"):
        executor()


def test_many_threads_may_use_a_contract_first() -> None:
    class Fresh(Step):
        amount: int
        names: list[str] = []

        def run(self) -> None: ...

    contract = unit_of(Fresh).contract
    start = threading.Barrier(8)
    found: list[dict[str, object]] = []

    def use() -> None:
        start.wait()
        found.append(contract.validate({"amount": "3"}))

    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert found == [{"amount": 3, "names": []}] * 8
