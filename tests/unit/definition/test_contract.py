"""Contracts: what is accepted, what it becomes, and what is said of what is refused."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, ClassVar, Generic, Literal, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, field_validator
from typing_extensions import TypedDict

from calandria.definition.contract import NO_DEFAULT, Contract
from calandria.definition.redaction import Redacted
from calandria.definition.steps import Step, unit_of
from calandria.errors import DefinitionError, ValidationError

T = TypeVar("T")


class Line(BaseModel):
    product_id: int
    quantity: int = Field(default=1, ge=1)


class Box(BaseModel, Generic[T]):
    content: T


@dataclass
class Address:
    street: str
    lines: list[Line] = field(default_factory=list)


class Options(TypedDict, total=False):
    colour: str
    size: int


class Colour(Enum):
    RED = "red"


class Machine:
    """Nothing pydantic knows."""


def contract_of(step: type[Step]) -> Contract:
    return unit_of(step).contract


def errors_of(step: type[Step], **values: object) -> dict[str, list[str]]:
    with pytest.raises(ValidationError) as caught:
        contract_of(step).validate(values)
    return caught.value.errors


class Everything(Step):
    count: Annotated[int, Field(ge=1, le=9)] = 3
    ratio: float = Field(default=0.5, gt=0)
    price: Decimal = Decimal("1.5")
    when: date | None = None
    kind: Literal["a", "b"] = "a"
    colour: Colour = Colour.RED
    line: Line = Line(product_id=1)
    address: Address | None = None
    options: Options = {}
    box: Box[int] | None = None
    path: Path = Path("/")
    tags: list[str] = []
    made: list[int] = Field(default_factory=lambda: [1])
    machine: Machine | None = None
    anything: Any = None
    _hidden: int = 3
    shared: ClassVar[int] = 4

    def run(self) -> None: ...


def test_fields_are_the_public_annotations_in_order() -> None:
    fields = contract_of(Everything).fields

    assert list(fields)[:3] == ["count", "ratio", "price"]
    assert "_hidden" not in fields
    assert "shared" not in fields
    assert not any(found.required for found in fields.values())
    assert fields["count"].default == 3
    assert fields["made"].default is NO_DEFAULT


def test_values_are_converted_and_defaults_applied() -> None:
    validated = contract_of(Everything).validate(
        {
            "count": "7",
            "price": "2.50",
            "when": "2026-01-02",
            "colour": "red",
            "line": {"product_id": "4"},
            "address": {"street": "Low Road", "lines": [{"product_id": 5}]},
            "options": {"size": "3"},
            "box": {"content": "8"},
        }
    )

    assert validated["count"] == 7
    assert validated["price"] == Decimal("2.50")
    assert validated["when"] == date(2026, 1, 2)
    assert validated["colour"] is Colour.RED
    assert validated["line"] == Line(product_id=4, quantity=1)
    assert validated["address"] == Address("Low Road", [Line(product_id=5)])
    assert validated["options"] == {"size": 3}
    assert validated["box"] == Box[int](content=8)
    assert validated["ratio"] == 0.5
    assert list(validated) == list(contract_of(Everything).fields)


def test_arbitrary_classes_are_checked_by_instance() -> None:
    machine = Machine()

    assert contract_of(Everything).validate({"machine": machine})["machine"] is machine
    assert "instance of Machine" in errors_of(Everything, machine=3)["machine"][0]


def test_an_arbitrary_class_inside_a_dataclass_is_checked_as_well() -> None:
    @dataclass
    class Plant:
        machine: Machine

    class Start(Step):
        plant: Plant

        def run(self) -> None: ...

    plant = Plant(Machine())

    assert contract_of(Start).validate({"plant": plant})["plant"] is plant
    assert "machine" in errors_of(Start, plant={"machine": 3})["plant"][0]


def test_mutable_defaults_are_fresh_for_every_validation() -> None:
    contract = contract_of(Everything)

    first: dict[str, Any] = contract.validate({})
    first["tags"].append("x")
    first["made"].append(2)

    second = contract.validate({})
    assert second["tags"] == []
    assert second["made"] == [1]


def test_a_default_factory_may_use_earlier_inputs() -> None:
    class Ship(Step):
        quantity: int
        boxes: int = Field(default_factory=lambda data: data["quantity"] * 2)

        def run(self) -> None: ...

    assert contract_of(Ship).validate({"quantity": "4"}) == {"quantity": 4, "boxes": 8}


def test_a_default_is_validated_only_where_asked() -> None:
    class Ship(Step):
        loose: int = "3"  # type: ignore[assignment]
        checked: int = Field(default="3", validate_default=True)

        def run(self) -> None: ...

    assert contract_of(Ship).validate({}) == {"loose": "3", "checked": 3}


def test_every_offending_input_is_listed_with_its_place() -> None:
    class Ship(Step):
        order_id: str
        address: Address
        quantity: Annotated[int, Field(ge=1)] = 1

        def run(self) -> None: ...

    errors = errors_of(
        Ship, address={"street": 3, "lines": [{}]}, quantity=0, quantty=3, colour="x"
    )

    assert errors == {
        "order_id": ["is required"],
        "address": [
            "street: Input should be a valid string",
            "lines.0.product_id: Field required",
        ],
        "quantity": ["Input should be greater than or equal to 1"],
        "quantty": ["is not an input (did you mean 'quantity'?)"],
        "colour": ["is not an input"],
    }


def test_the_message_names_the_step_and_the_inputs() -> None:
    with pytest.raises(
        ValidationError, match=r"^Everything: invalid inputs\. count: Input should be"
    ):
        contract_of(Everything).validate({"count": 0})


def test_a_validator_that_raises_something_else_is_an_error_of_its_input() -> None:
    def broken(value: object) -> object:
        raise KeyError("gone")

    class Ship(Step):
        code: Annotated[str, AfterValidator(broken)]

        def run(self) -> None: ...

    assert errors_of(Ship, code="x") == {"code": ["the validator raised KeyError: 'gone'"]}


def quote(value: str) -> str:
    raise ValueError(f"bad token {value}")


def lose(value: str) -> str:
    raise KeyError(value)


class Pay(Step):
    card: Redacted[str]
    code: Redacted[Annotated[str, AfterValidator(quote)]] = "0"
    lost: Redacted[Annotated[str, AfterValidator(lose)]] = "0"
    limits: dict[str, Redacted[int]] = {}
    kind: Redacted[Literal["a"]] = "a"

    def run(self) -> None: ...


@pytest.mark.parametrize(
    "values",
    [
        {"card": ["hunter2"]},
        {"card": "ok", "code": "hunter2"},
        {"card": "ok", "lost": "hunter2"},
        {"card": "ok", "limits": {"hunter2": "hunter2"}},
        {"card": "ok", "kind": "hunter2"},
    ],
)
def test_redacted_values_never_appear_in_an_error(values: dict[str, object]) -> None:
    with pytest.raises(ValidationError) as caught:
        contract_of(Pay).validate(values)

    error: BaseException | None = caught.value
    while error is not None:
        assert "hunter2" not in str(error)
        assert "hunter2" not in repr(getattr(error, "errors", ""))
        error = error.__cause__ or error.__context__


def test_pydantics_own_words_are_kept_for_redacted_values_where_they_tell_nothing() -> None:
    assert errors_of(Pay, card=3) == {"card": ["Input should be a valid string"]}


def test_a_field_of_a_model_that_is_redacted_redacts_the_whole_input() -> None:
    class Card(BaseModel):
        number: Redacted[str]

    class Buy(Step):
        card: Card
        note: str = ""

        def run(self) -> None: ...

    assert contract_of(Buy).redacted == {"card"}


class WithValidator(BaseModel):
    x: int

    @field_validator("x")
    @classmethod
    def check(cls, value: int) -> int:
        return value


@dataclass
class WithPostInit:
    x: int

    def __post_init__(self) -> None: ...


@pytest.mark.parametrize(
    ("annotation", "default", "expected"),
    [
        (int, NO_DEFAULT, False),
        (Annotated[int, Field(ge=1)], NO_DEFAULT, False),
        (list[Line], NO_DEFAULT, False),
        (Address, NO_DEFAULT, False),
        (dict[str, Path], NO_DEFAULT, False),
        (Options, NO_DEFAULT, False),
        (Colour, NO_DEFAULT, False),
        (Machine, NO_DEFAULT, False),
        (Decimal | None, None, False),
        (Annotated[int, AfterValidator(abs)], NO_DEFAULT, False),
        (Annotated[int, AfterValidator(lambda v: v)], NO_DEFAULT, True),
        (list[Annotated[int, BeforeValidator(lambda v: v)]], NO_DEFAULT, True),
        (WithValidator, NO_DEFAULT, True),
        (list[WithPostInit], NO_DEFAULT, True),
        (int, Field(default_factory=lambda: 3), True),
    ],
)
def test_it_is_known_whether_validation_calls_user_code(
    annotation: object, default: object, expected: bool
) -> None:
    body: dict[str, object] = {"__annotations__": {"x": annotation}, "run": lambda self: None}
    if default is not NO_DEFAULT:
        body["x"] = default

    step = type("Probe", (Step,), body)

    assert contract_of(step).runs_user_code is expected


@pytest.mark.parametrize("aliased", [Field(alias="n"), Field(validation_alias="n")])
def test_an_alias_is_refused(aliased: Any) -> None:
    class Ship(Step):
        name: str = aliased

        def run(self) -> None: ...

    with pytest.raises(DefinitionError, match="'name' has an alias"):
        contract_of(Ship).validate({"n": "x"})


def test_an_annotation_that_pydantic_cannot_validate_is_a_definition_error() -> None:
    class Ship(Step):
        size: Annotated[int, Field(discriminator="kind")]

        def run(self) -> None: ...

    with pytest.raises(DefinitionError, match=r"Ship: .*'size'"):
        contract_of(Ship).validate({})


@given(st.dictionaries(st.sampled_from(["a", "b", "c"]), st.integers() | st.text() | st.none()))
def test_validation_is_total_and_idempotent(values: dict[str, object]) -> None:
    class Probe(Step):
        a: int
        b: str = "x"

        def run(self) -> None: ...

    contract = contract_of(Probe)
    try:
        validated = contract.validate(values)
    except ValidationError as error:
        assert error.errors
        assert set(error.errors) <= {"a", "b", "c"}
    else:
        assert list(validated) == ["a", "b"]
        assert contract.validate(validated) == validated
