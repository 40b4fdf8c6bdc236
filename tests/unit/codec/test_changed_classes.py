"""A class that is unknown, or has changed since, never loses a value and never fails a read."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from dataclasses import dataclass, field, make_dataclass
from enum import Enum, Flag
from typing import Any, NamedTuple

import pytest
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, create_model

from calandria.codec import JsonCodec, Record, TypeRegistry
from calandria.errors import DecodingError


def recorded(value: object, name: str = "shop:It") -> str:
    """Record `value` in a process that knows its class as `name`."""
    registry = TypeRegistry()
    registry.register(type(value), name=name)
    return JsonCodec(registry).encode(value)


def read(text: str, cls: type | None = None, name: str = "shop:It") -> Any:
    """Read `text` in a process that knows `cls` under `name`."""
    registry = TypeRegistry()
    if cls is not None:
        registry.register(cls, name=name)
    return JsonCodec(registry).decode(text)


@dataclass
class Line:
    sku: str
    quantity: int


class Money(BaseModel):
    model_config = ConfigDict(extra="allow")

    amount: int
    _note: str = PrivateAttr(default="private")


class Colour(Enum):
    RED = 1
    BLUE = 2


class Access(Flag):
    READ = 1
    WRITE = 2


class Pair(NamedTuple):
    left: int
    right: int


class Own:
    pass


def own_text() -> str:
    registry = TypeRegistry()
    registry.register(Own, name="shop:It", encode=lambda own: (1, 2), decode=lambda data: Own())
    return JsonCodec(registry).encode(Own())


TEXTS = {
    "dataclass": recorded(Line("a", 2)),
    "model": recorded(Money(amount=5, extra="x")),  # type: ignore[call-arg]
    "enum": recorded(Colour.RED),
    "flag": recorded(Access.READ | Access.WRITE),
    "namedtuple": recorded(Pair(1, 2)),
    "custom": own_text(),
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_an_unknown_class_comes_back_as_a_record_that_gives_the_same_text(text: str) -> None:
    record = read(text)

    assert type(record) is Record
    assert record.type_name == "shop:It"
    assert record == read(text)
    assert hash(record) == hash(read(text))
    assert JsonCodec(TypeRegistry()).encode(record) == text


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("dataclass", {"sku": "a", "quantity": 2}),
        ("model", {"_note": "private", "extra": "x", "amount": 5}),
        ("enum", {"name": "RED"}),
        ("flag", {"names": ["READ", "WRITE"], "rest": 0}),
        ("namedtuple", {"left": 1, "right": 2}),
        ("custom", {"value": (1, 2)}),
    ],
)
def test_a_record_has_the_fields(kind: str, fields: dict[str, object]) -> None:
    record = read(TEXTS[kind])

    assert {name: record[name] for name in record} == fields
    assert [getattr(record, name) for name in fields] == list(fields.values())


def test_a_record_says_what_it_was_and_cannot_be_changed() -> None:
    record = read(TEXTS["dataclass"])

    assert repr(record) == "<Record of shop:It(sku='a', quantity=2)>"
    assert len(record) == 2 and "sku" in record and "price" not in record
    with pytest.raises(AttributeError, match="no field 'price'; it has: sku, quantity"):
        _ = record.price
    with pytest.raises(KeyError):
        _ = record["price"]
    with pytest.raises(AttributeError, match="cannot be changed"):
        record.sku = "b"
    with pytest.raises(AttributeError, match="cannot be changed"):
        del record.sku


def test_records_differ_by_class_and_content() -> None:
    assert read(recorded(Line("a", 1))) != read(recorded(Line("a", 2)))
    assert read(recorded(Line("a", 1))) != read(recorded(Line("a", 1), "shop:Other"))
    assert read(recorded(Line("a", 1))) != {"sku": "a", "quantity": 1}


def test_a_record_can_be_copied_and_sent_between_processes() -> None:
    record = read(TEXTS["dataclass"])

    assert copy.copy(record) == copy.deepcopy(record) == record
    assert pickle.loads(pickle.dumps(record)) == record


def test_a_record_serves_as_key_and_element_even_if_it_holds_a_list() -> None:
    registry = TypeRegistry()
    registry.register(Pair, name="shop:Pair")
    text = JsonCodec(registry).encode({Pair(1, 2): {Pair(3, 4)}})

    back = read(text.replace('"left":1', '"left":[1]'))

    ((key, value),) = back.items()
    assert (key.left, [element.left for element in value]) == ([1], [3])


def test_a_known_class_within_an_unknown_one_is_rebuilt() -> None:
    registry = TypeRegistry()
    registry.register(Pair, name="shop:Pair")
    registry.register(Line, name="shop:Line")
    text = JsonCodec(registry).encode(Pair(Line("a", 1), 2))  # type: ignore[arg-type]

    assert read(text, Line, "shop:Line").left == Line("a", 1)


def gained_dataclass() -> type:
    @dataclass
    class It:
        sku: str
        quantity: int
        price: int = 7
        tags: list[str] = field(default_factory=lambda: ["new"])

    return It


def gained_slots() -> type:
    @dataclass(frozen=True, slots=True)
    class It:
        sku: str
        quantity: int
        price: int = 7

    return It


def test_a_new_field_of_a_dataclass_gets_its_default() -> None:
    one, other = (read(TEXTS["dataclass"], gained_dataclass()) for _ in range(2))

    assert (one.sku, one.quantity, one.price, one.tags) == ("a", 2, 7, ["new"])
    assert one.tags is not other.tags
    assert read(TEXTS["dataclass"], gained_slots()).price == 7


def test_a_new_field_of_a_model_gets_its_default_and_counts_as_not_set() -> None:
    class It(BaseModel):
        amount: int
        currency: str = "EUR"
        tags: list[str] = Field(default_factory=list)
        doubled: int = Field(default_factory=lambda data: data["amount"] * 2)
        _since: int = PrivateAttr(default=3)
        _calls: list[int] = PrivateAttr(default_factory=list)

    back = read(TEXTS["model"], It)

    assert back.model_dump() == {"amount": 5, "currency": "EUR", "tags": [], "doubled": 10}
    assert back.model_fields_set == {"amount"}
    assert (back._since, back._calls) == (3, [])
    assert back.model_extra is None


def test_a_new_field_of_a_named_tuple_gets_its_default() -> None:
    class It(NamedTuple):
        left: int
        right: int
        middle: int = 9

    assert read(TEXTS["namedtuple"], It) == It(1, 2, 9)


def broken_factory() -> object:
    raise RuntimeError("no default today")


CHANGED: dict[str, tuple[str, Callable[[], Any]]] = {
    "a dataclass with a new required field": (
        "dataclass",
        lambda: make_dataclass("It", ["sku", "quantity", "price"]),
    ),
    "a dataclass whose new default cannot be made": (
        "dataclass",
        lambda: make_dataclass(
            "It", ["sku", "quantity", ("new", int, field(default_factory=broken_factory))]
        ),
    ),
    "a dataclass become a model": (
        "dataclass",
        lambda: create_model("It", sku=str, quantity=int),
    ),
    "a model with a new required field": (
        "model",
        lambda: create_model("It", amount=int, price=int),
    ),
    "a named tuple with a new required field": (
        "namedtuple",
        lambda: NamedTuple("It", [("left", int), ("right", int), ("new", int)]),
    ),
    "a member gone": ("enum", lambda: Enum("It", ["BLUE"])),
    "an enumeration become a flag": ("enum", lambda: Access),
    "a flag's member gone": ("flag", lambda: Flag("It", ["READ"])),
}


@pytest.mark.parametrize(("kind", "now"), CHANGED.values(), ids=CHANGED)
def test_a_class_that_changed_too_much_comes_back_as_a_record(
    kind: str, now: Callable[[], type]
) -> None:
    record = read(TEXTS[kind], now())

    assert type(record) is Record
    assert JsonCodec(TypeRegistry()).encode(record) == TEXTS[kind]


def test_many_nested_instances_that_no_longer_fit_are_read_in_no_time() -> None:
    chain = Line("end", 0)
    for _ in range(60):
        chain = Line("link", chain)  # type: ignore[arg-type]

    record = read(recorded(chain), make_dataclass("It", ["sku", "quantity", "price"]))

    links = 0
    while record.sku == "link":
        record, links = record.quantity, links + 1
    assert links == 60


def test_a_field_that_a_class_no_longer_has_is_left_out() -> None:
    dataclass_now = make_dataclass("It", ["sku"])
    model_now = create_model("It", other=(int, 1))

    class TupleNow(NamedTuple):
        right: int

    assert vars(read(TEXTS["dataclass"], dataclass_now)) == {"sku": "a"}
    assert read(TEXTS["model"], model_now).model_dump() == {"other": 1}
    assert read(TEXTS["model"], model_now).model_fields_set == set()
    assert tuple(read(TEXTS["namedtuple"], TupleNow)) == (2,)


def test_an_attribute_that_became_a_field_keeps_its_value() -> None:
    line = Line("a", 2)
    line.price = 5  # type: ignore[attr-defined]

    assert read(recorded(line), gained_dataclass()).price == 5


def test_a_member_may_change_its_value() -> None:
    now = Enum("now", {"RED": "#f00"})

    assert read(TEXTS["enum"], now) is now.RED


def test_elements_that_became_equal_are_an_error_not_a_loss() -> None:
    registry = TypeRegistry()
    registry.register(Colour, name="shop:It")
    text = JsonCodec(registry).encode({Colour.RED, Colour.BLUE})
    keys = JsonCodec(registry).encode({Colour.RED: 1, Colour.BLUE: 2})
    now = Enum("now", {"RED": 1, "BLUE": 1})

    with pytest.raises(DecodingError, match="equal now"):
        read(text, now)
    with pytest.raises(DecodingError, match="equal now"):
        read(keys, now)
