"""Functions as steps: their parameters, their other actions, and what is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial, wraps
from itertools import count
from typing import Annotated, Any

import pytest
from pydantic import Field

from calandria.coordination.primitives import Lock
from calandria.definition.reactors import Reactor
from calandria.definition.references import inputs
from calandria.definition.step_function import step
from calandria.definition.unit import StepUnit
from calandria.errors import DefinitionError, ValidationError
from calandria.plan.policies import Retry
from tests.unit.definition.contexts import context


def unit(reactor: type[Reactor], name: str) -> StepUnit:
    found = reactor.definition().nodes[name].unit
    assert found is not None
    return found


class Checkout(Reactor):
    order_id: str
    amount: int

    @step
    def charge(*, order_id: str, amount: Annotated[int, Field(ge=1)], note: str = "-") -> str:
        return f"{order_id}:{amount}:{note}"

    @charge.undo
    def _(*, result: str, order_id: str, context: Any) -> tuple[str, str, int]:
        return result, order_id, context.attempt

    @charge.compensate
    def _(*, reason: object) -> object:
        return reason

    @charge.reconcile
    def charge_landed(*, context: Any) -> None:
        return None

    @step(
        retry=Retry(max_attempts=2), rollback_retry=Retry(max_attempts=7), coordination=[Lock("c")]
    )
    async def mail(*, charge: str, context: Any) -> str:
        return f"{charge} {context.attempt}"

    def ship(*, order_id, charge):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
        return order_id, charge

    shipped = step(ship, order_id="x")


def test_parameters_are_the_contract() -> None:
    contract = unit(Checkout, "charge").contract

    assert contract.validate({"order_id": "o", "amount": "3"}) == {
        "order_id": "o",
        "amount": 3,
        "note": "-",
    }
    with pytest.raises(ValidationError, match="amount: Input should be greater"):
        contract.validate({"order_id": "o", "amount": 0})


def test_parameters_without_annotation_take_anything() -> None:
    value = object()

    found = unit(Checkout, "shipped").contract.validate({"order_id": 1, "charge": value})

    assert found["charge"] is value


def test_actions_get_the_parameters_they_name() -> None:
    charge = unit(Checkout, "charge")
    values = {"order_id": "o", "amount": 3, "note": "n"}

    assert charge.invoke("run", values, context()) == "o:3:n"
    assert charge.invoke("undo", values, context(attempt=2), "r") == ("r", "o", 2)
    assert charge.invoke("compensate", values, context(), "why") == "why"
    assert charge.invoke("reconcile", values, context()) is None
    assert charge.name == "Checkout.charge"


def test_async_functions_return_coroutines() -> None:
    mail = unit(Checkout, "mail")

    coroutine: Any = mail.invoke("run", {"charge": "c"}, context(attempt=1))

    assert mail.is_async("run")
    assert asyncio.run(coroutine) == "c 1"


def test_options_of_the_decorator_reach_plan_and_definition() -> None:
    definition = Checkout.definition()

    assert definition.nodes["mail"].retry.max_attempts == 2
    assert definition.nodes["mail"].coordination == (Lock("c"),)
    assert definition.plan.node("mail").rollback_retry.max_attempts == 7
    assert definition.plan.node("charge").undoes
    assert definition.plan.node("charge").compensates
    assert definition.plan.node("charge").reconciles
    assert not definition.plan.node("mail").undoes


def test_parameters_are_wired_by_name_from_inputs_and_steps() -> None:
    nodes = Checkout.definition().nodes

    assert list(nodes) == ["charge", "mail", "shipped"]
    assert {n: repr(s) for n, s in nodes["charge"].wiring.items()} == {
        "order_id": "<Reference inputs.order_id>",
        "amount": "<Reference inputs.amount>",
    }
    assert repr(nodes["mail"].wiring["charge"]) == "<Reference charge>"
    assert Checkout.definition().plan.node("mail").dependencies == ("charge",)
    assert repr(nodes["shipped"].wiring["order_id"]) == "Literal(value='x')"


def test_an_undo_may_share_the_name_of_its_step() -> None:
    class Single(Reactor):
        @step
        def charge() -> int:
            return 1

        @charge.undo  # type: ignore[no-redef]
        def charge(*, result: int) -> int:
            return result + 1

    assert list(Single.definition().nodes) == ["charge"]
    assert unit(Single, "charge").invoke("undo", {}, context(), 3) == 4


def test_decorated_partial_and_bound_functions_are_steps() -> None:
    def logged(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def inner(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return inner

    @logged
    def double(*, amount: int) -> int:
        return amount * 2

    class Bank:
        def __init__(self, factor: int) -> None:
            self.factor = factor

        def charge(self, amount: int) -> int:
            return amount * self.factor

    def scale(amount: int, factor: int) -> int:
        return amount * factor

    class Mixed(Reactor):
        amount: int

        doubled = step(double)
        charged = step(Bank(5).charge)
        scaled = step(partial(scale, factor=7))

    def run(name: str) -> object:
        found = unit(Mixed, name)
        return found.invoke("run", found.contract.validate({"amount": "2"}), context())

    assert (run("doubled"), run("charged"), run("scaled")) == (4, 10, 14)


def test_the_same_function_may_be_several_steps() -> None:
    def add(*, left: int, right: int) -> int:
        return left + right

    class Sum(Reactor):
        left: int

        first = step(add, right=1)
        second = step(add, left=first, right=2)

        @second.undo
        def _(*, result: int) -> None: ...

    assert not unit(Sum, "first").has("undo")
    assert unit(Sum, "second").has("undo")


def star(*args: int) -> None: ...
def stars(**kwargs: int) -> None: ...
def positional(a: int, /) -> None: ...
def with_result(*, result: int) -> None: ...
def with_reason(*, reason: int) -> None: ...
def generator(*, a: int) -> Any:
    yield a


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (star, r"parameter \*args cannot be wired by name"),
        (stars, r"parameter \*\*kwargs cannot be wired by name"),
        (positional, "parameter a cannot be wired by name"),
        (with_result, "'result' is what the library passes"),
        (with_reason, "'reason' is what the library passes"),
        (generator, "generator is a generator"),
        (lambda a: a, "a lambda cannot be a step"),
    ],
    ids=count(),
)
def test_functions_that_cannot_be_wired_are_refused(target: Any, message: str) -> None:
    with pytest.raises(DefinitionError, match=rf"^Bad\.only: .*{message}") as caught:

        class Bad(Reactor):
            a: int

            only = step(target)

    assert (caught.value.reactor, caught.value.step) == ("Bad", "only")


@pytest.mark.parametrize(
    ("action", "function", "message"),
    [
        ("undo", lambda *, reason: None, "undo has no 'reason' to give"),
        ("undo", lambda *, b: None, "undo has no 'b' to give. Its parameters may be result, "),
        ("compensate", lambda *, result: None, "compensate has no 'result' to give"),
        ("reconcile", lambda *, result: None, "reconcile has no 'result' to give"),
        ("undo", 3, r"\.undo\(3\) needs a function"),
    ],
    ids=count(),
)
def test_wrong_actions_are_refused(action: str, function: Any, message: str) -> None:
    def run(*, a: int) -> None: ...

    with pytest.raises(DefinitionError, match=rf"^Bad\.only: .*{message}"):

        class Bad(Reactor):
            a: int

            only = step(run)
            getattr(only, action)(function)


def test_an_action_given_twice_is_refused() -> None:
    with pytest.raises(DefinitionError, match=r"Bad\.only: \.undo is given twice"):

        class Bad(Reactor):
            @step
            def only() -> None: ...

            @only.undo
            def _() -> None: ...

            @only.undo
            def _() -> None: ...


def test_a_function_in_a_map_may_have_an_undo() -> None:
    from calandria.definition.nodes import map_each
    from calandria.definition.references import element

    def reserve(*, sku: str) -> str:
        return sku

    class Order(Reactor):
        skus: list[str]

        reserved = map_each(reserve, over=inputs.skus, sku=element)

        @reserved.undo
        def _(*, result: str, sku: str) -> str:
            return result + sku

    assert unit(Order, "reserved").invoke("undo", {"sku": "s"}, context(), "r") == "rs"
