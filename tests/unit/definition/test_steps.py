"""Step classes: inputs, actions, inheritance, and what is refused."""

from __future__ import annotations

import asyncio
import inspect
from abc import ABC, abstractmethod
from typing import Any

import pytest

from calandria.coordination.primitives import Lock
from calandria.definition.redaction import Redacted
from calandria.definition.steps import Step, unit_of
from calandria.errors import DefinitionError, ValidationError
from calandria.plan.policies import ONCE, Retry
from calandria.results import Failure, Halt, Skipped, Success
from tests.unit.definition.contexts import context


class Reserve(Step):
    """Takes stock."""

    product_id: int
    quantity: int = 1

    retry = Retry(max_attempts=3)
    coordination = [Lock("a")]

    def run(self) -> int:
        self.seen = True
        return self.product_id * self.quantity

    def undo(self, result: int) -> tuple[int, int, bool]:
        return result, self.product_id, hasattr(self, "seen")

    def compensate(self, reason: object) -> object:
        return reason


def test_each_action_gets_a_fresh_object_with_the_validated_values() -> None:
    unit = unit_of(Reserve)
    values = unit.contract.validate({"product_id": 3, "quantity": 2})

    result = unit.invoke("run", values, context())

    assert result == 6
    assert unit.invoke("undo", values, context(), result) == (6, 3, False)
    assert unit.invoke("compensate", values, context(), "why") == "why"


def test_the_context_is_an_attribute() -> None:
    class Ask(Step):
        def run(self) -> int:
            return self.context.attempt

    assert unit_of(Ask).invoke("run", {}, context(attempt=4)) == 4


def test_the_unit_tells_which_actions_there_are() -> None:
    unit = unit_of(Reserve)

    assert [unit.has(a) for a in ("run", "compensate", "undo", "reconcile")] == [
        True,
        True,
        True,
        False,
    ]
    assert unit.name == "Reserve"
    assert unit.retry == Retry(max_attempts=3)
    assert unit.rollback_retry == ONCE
    assert unit.coordination == (Lock("a"),)


def test_async_actions_return_coroutines() -> None:
    class Fetch(Step):
        url: str

        async def run(self) -> str:
            return self.url

        def undo(self, result: str) -> None: ...

    unit = unit_of(Fetch)
    coroutine = unit.invoke("run", {"url": "u"}, context())

    assert (unit.is_async("run"), unit.is_async("undo")) == (True, False)
    assert inspect.iscoroutine(coroutine)
    assert asyncio.run(coroutine) == "u"


def test_the_return_annotation_is_the_output_contract() -> None:
    output = unit_of(Reserve).output
    assert output is not None

    assert output.annotation is int
    assert output.validate("3") == 3
    with pytest.raises(
        ValidationError, match=r"^Reserve: its return value is invalid\. "
    ) as caught:
        output.validate("x")
    assert list(caught.value.errors) == ["return"]


@pytest.mark.parametrize(
    ("annotation", "good", "bad"),
    [
        (int | None, None, "x"),
        (Success[int], 3, "x"),
        (Success[int] | Failure, 3, "x"),
        (Success[int] | Skipped[str] | None, "x", 3.5),
        (Success[int] | Skipped[int] | Halt | Failure, 3, "x"),
    ],
    ids=["optional", "success", "success or failure", "success, skipped or none", "any result"],
)
def test_result_types_around_the_value_are_taken_off(
    annotation: object, good: object, bad: object
) -> None:
    def run(self: Any) -> object: ...

    run.__annotations__["return"] = annotation
    output = unit_of(type("Probe", (Step,), {"run": run})).output
    assert output is not None

    assert output.validate(good) == good
    with pytest.raises(ValidationError):
        output.validate(bad)


@pytest.mark.parametrize("annotation", [Success, Failure, Success[Any], Any], ids=str)
def test_result_types_without_a_value_type_accept_any_value(annotation: object) -> None:
    def run(self: Any) -> object: ...

    run.__annotations__["return"] = annotation
    output = unit_of(type("Probe", (Step,), {"run": run})).output

    assert output is not None
    assert output.validate("anything") == "anything"


def test_without_a_return_annotation_there_is_no_output_contract() -> None:
    class Do(Step):
        def run(self): ...  # type: ignore[no-untyped-def]  # noqa: ANN202

    assert unit_of(Do).output is None


def test_a_redacted_return_value_is_known() -> None:
    class Token(Step):
        def run(self) -> Redacted[str]:
            return "t"

    output = unit_of(Token).output
    assert output is not None and output.redacted


def test_a_subclass_inherits_extends_and_overrides() -> None:
    class ReserveFast(Reserve):
        courier: str
        quantity: int = 5

        retry = Retry(max_attempts=9)
        coordination = [*Reserve.coordination, Lock("b")]

        def undo(self, result: int) -> str:  # type: ignore[override]
            return f"{self.courier} {result}"

    unit = unit_of(ReserveFast)

    assert unit.contract.validate({"product_id": 2, "courier": "c"}) == {
        "product_id": 2,
        "quantity": 5,
        "courier": "c",
    }
    assert unit.retry.max_attempts == 9
    assert unit.coordination == (Lock("a"), Lock("b"))
    assert unit.output is not None and unit.output.annotation is int
    assert unit.invoke("undo", {"courier": "c"}, context(), 4) == "c 4"
    assert "courier" not in unit_of(Reserve).contract.fields


def test_an_abstract_step_may_lack_run() -> None:
    class Base(Step, ABC):
        order_id: str

        @abstractmethod
        def price(self) -> int: ...

    class Priced(Base):
        def run(self) -> int:
            return self.price()

        def price(self) -> int:
            return len(self.order_id)

    assert not unit_of(Base).has("run")
    assert unit_of(Priced).invoke("run", {"order_id": "abc"}, context()) == 3
    with pytest.raises(DefinitionError, match="Base has no run"):
        Base.call(order_id="x")


def test_an_inherited_action_can_be_taken_away() -> None:
    class Permanent(Reserve):
        undo = None  # type: ignore[assignment]

    assert not unit_of(Permanent).has("undo")


def test_a_mixin_may_declare_inputs_through_a_step() -> None:
    class Audited(Step):
        actor: str

    class Both(Audited, Reserve):
        pass

    assert set(unit_of(Both).contract.fields) == {"product_id", "quantity", "actor"}


def test_constructing_a_step_is_refused() -> None:
    with pytest.raises(TypeError, match=r"Reserve\.call\(\.\.\.\)"):
        Reserve(product_id=1)


def test_positional_inputs_are_refused() -> None:
    with pytest.raises(TypeError, match="by name"):
        Reserve.call(3)  # type: ignore[call-arg]


def test_call_undo_of_a_step_without_undo_is_a_definition_error() -> None:
    class Plain(Step):
        def run(self) -> None: ...

    with pytest.raises(DefinitionError, match="Plain has no undo"):
        Plain.call_undo(3)


def plain(self: object) -> None: ...


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"retry": 3}, r"Probe\.retry is 3: give a Retry"),
        ({"rollback_retry": None}, r"Probe\.rollback_retry is None"),
        ({"run": lambda: None}, r"Probe\.run must be callable as def run\(self\)"),
        ({"undo": plain}, r"Probe\.undo must be callable as def undo\(self, result\)"),
        ({"compensate": plain}, r"def compensate\(self, reason\)"),
        ({"run": staticmethod(lambda: None)}, r"Probe\.run must be a method"),
        ({"run": 3}, r"Probe\.run must be a method"),
        ({"coordination": "lock"}, r"Probe\.coordination is 'lock': give a list, even of one"),
        ({"__init__": plain}, r"Probe\.__init__ would never be called"),
        ({"__annotations__": {"retry": int}}, "an input cannot be called 'retry'"),
        ({"__annotations__": {"call_undo": int}}, "an input cannot be called 'call_undo'"),
    ],
)
def test_wrong_steps_are_refused(body: dict[str, object], message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        type("Probe", (Step,), body)


def test_generators_are_refused() -> None:
    with pytest.raises(DefinitionError, match="is a generator"):

        class Stream(Step):
            def run(self) -> Any:
                yield 1


def test_an_input_may_not_hide_a_method_of_a_base() -> None:
    class Base(Step):
        def price(self) -> int:
            return 3

    with pytest.raises(DefinitionError, match=r"'price' would hide Base\.price"):

        class Priced(Base):
            price: int  # type: ignore[assignment]


def test_an_inherited_input_may_not_be_replaced_without_annotation() -> None:
    with pytest.raises(DefinitionError, match=r"Five\.quantity replaces an inherited input"):

        class Five(Reserve):
            quantity = 5


def test_a_step_may_use_names_that_pydantic_models_may_not() -> None:
    class Send(Step):
        json: str
        copy: int
        model_config: str
        schema: str = "s"

        def run(self) -> str:
            return self.json

    assert unit_of(Send).contract.validate({"json": "{}", "copy": 1, "model_config": "m"}) == {
        "json": "{}",
        "copy": 1,
        "model_config": "m",
        "schema": "s",
    }
