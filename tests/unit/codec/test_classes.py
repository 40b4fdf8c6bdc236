"""Instances of the classes users write come back as instances, with nothing of theirs run."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import InitVar, dataclass, field
from enum import KEEP, Enum, Flag, IntEnum, IntFlag, StrEnum, auto
from functools import cached_property
from typing import Any, Generic, NamedTuple, TypeVar

import pydantic.dataclasses
import pytest
from pydantic import BaseModel, ConfigDict, PrivateAttr, RootModel, field_validator

from calandria.codec import JsonCodec, TypeRegistry
from calandria.results import (
    Failure,
    Halt,
    RecordedFailure,
    RollbackFailure,
    Skipped,
    Success,
)
from tests.unit.codec.sameness import numbered, same

T = TypeVar("T")
ran: list[str] = []


@dataclass
class Line:
    sku: str
    quantity: int = 1
    tags: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, order=True)
class Point:
    x: int
    y: int


@dataclass(kw_only=True)
class Order(Line):
    lines: tuple[Line, ...] = ()
    factor: InitVar[int] = 2
    total: int = field(init=False)

    def __post_init__(self, factor: int) -> None:
        ran.append("__post_init__")
        self.total = self.quantity * factor
        self.seen_at = "a place of its own"

    @cached_property
    def doubled(self) -> int:
        return self.total * 2


@dataclass
class Mangled:
    __private: int = 1

    def __post_init__(self) -> None:
        self.__more = 2


class Base:
    __slots__ = ("__inner", "outer")

    def fill(self) -> None:
        self.__inner, self.outer = 1, 2

    def inner(self) -> int:
        return self.__inner


@dataclass(slots=True)
class Slotted(Base):
    name: str
    unset: int = field(init=False, compare=False, repr=False)


@dataclass
class Guarded:
    value: int

    def __new__(cls, *args: object) -> Guarded:
        ran.append("__new__")
        return object.__new__(cls)

    def __setattr__(self, name: str, value: object) -> None:
        ran.append("__setattr__")
        object.__setattr__(self, name, value)

    def __setstate__(self, state: object) -> None:
        ran.append("__setstate__")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Guarded) and vars(self) == vars(other)


@dataclass
class Box(Generic[T]):
    content: T


class Plain(Line):
    pass


class Money(BaseModel):
    amount: int
    currency: str = "EUR"

    @field_validator("amount")
    @classmethod
    def positive(cls, amount: int) -> int:
        ran.append("validator")
        return abs(amount)


class Open(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True)

    name: str
    _secret: int = PrivateAttr(default=7)
    _unset: int = PrivateAttr()

    def __init__(self, **values: Any) -> None:
        ran.append("__init__")
        super().__init__(**values)

    @cached_property
    def shouted(self) -> str:
        return self.name.upper()


class Wallet(BaseModel, Generic[T]):
    held: list[T]


class Names(RootModel[list[str]]):
    pass


@pydantic.dataclasses.dataclass
class Checked:
    count: int = pydantic.Field(default=3, ge=0)
    items: list[int] = pydantic.Field(default_factory=list)


class Colour(Enum):
    RED = [1]
    CRIMSON = RED
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Word(StrEnum):
    YES = "yes"


class Mixed(str, Enum):
    A = "a"


class Access(Flag):
    READ = auto()
    WRITE = auto()
    BOTH = READ | WRITE
    EXECUTE = auto()


class Bits(IntFlag, boundary=KEEP):
    ONE = 1
    EIGHT = 8
    WIDE = 48


class Pair(NamedTuple):
    left: object
    right: object = None


Old = namedtuple("Old", ["a", "b"])


def order() -> Order:
    made = Order(sku="a", lines=(Line("b"), Line("c", 2, ["x"])), quantity=3)
    assert made.doubled == 12
    return made


def slotted() -> Slotted:
    made = Slotted("n")
    made.fill()
    return made


def opened() -> Open:
    model = Open.model_validate({"name": "n", "extra": (1, 2), "$": 3})
    model._secret = 8
    assert model.shouted == "N"
    return model


MADE = [
    Line("a", tags=["x"]),
    Point(1, 2),
    order(),
    Mangled(),
    slotted(),
    Guarded(1),
    Box((1, 2)),
    Plain("a"),
    Money(amount=1),
    Money(amount=1, currency="EUR"),
    Money.model_construct(amount=-1),
    Money.model_construct(currency="CHF"),
    Wallet[Money](held=[Money(amount=2)]),
    Names(["a", "b"]),
    Checked(items=[1]),
    Colour.RED,
    Colour.CRIMSON,
    Level.HIGH,
    Word.YES,
    Mixed.A,
    Access.READ,
    Access.BOTH,
    Access.READ | Access.EXECUTE,
    Access(0),
    ~Access.READ,
    Bits.ONE | Bits.EIGHT,
    Bits.WIDE,
    Bits(1 | 4),
    Bits(2**70),
    Pair((1,)),
    Pair(Pair(1), {1: 2}),
    Old(1, "b"),
    Success([1, (2,)]),
    Success(1, run_id="r"),
    Skipped(),
    Halt("enough"),
    RollbackFailure("charge", "undo", "raised", element_index=3),
]


@pytest.fixture
def codec() -> JsonCodec:
    return JsonCodec(TypeRegistry())


def back(codec: JsonCodec, value: object) -> object:
    return codec.decode(codec.encode(value))


@pytest.mark.parametrize("value", MADE, ids=numbered(MADE))
def test_an_instance_comes_back_the_same(codec: JsonCodec, value: object) -> None:
    text = codec.encode({"value": value})
    ran.clear()

    decoded = codec.decode(text)

    assert isinstance(decoded, dict)
    assert ran == []
    assert type(decoded["value"]) is type(value)
    assert decoded["value"] == value
    assert codec.encode(decoded) == text


def test_members_do_not_become_the_numbers_and_texts_they_equal(codec: JsonCodec) -> None:
    value = [Level.LOW, 1, Word.YES, "yes", Mixed.A, "a", {Level.LOW: 1}]

    assert same(back(codec, value), value)


def test_what_was_set_besides_the_fields_comes_back(codec: JsonCodec) -> None:
    decoded = back(codec, order())

    assert isinstance(decoded, Order)
    assert decoded.seen_at == "a place of its own"
    assert decoded.total == 6
    assert "doubled" not in vars(decoded)
    assert decoded.doubled == 12


def test_private_and_slotted_attributes_come_back(codec: JsonCodec) -> None:
    mangled, made = back(codec, Mangled()), back(codec, slotted())

    assert isinstance(mangled, Mangled) and isinstance(made, Slotted)
    assert vars(mangled) == {"_Mangled__private": 1, "_Mangled__more": 2}
    assert (made.name, made.inner(), made.outer) == ("n", 1, 2)
    with pytest.raises(AttributeError):
        _ = made.unset


def test_the_trace_of_a_generic_alias_is_not_part_of_the_value(codec: JsonCodec) -> None:
    made = Box[int](1)
    assert "__orig_class__" in vars(made)

    assert back(codec, made) == made


def test_all_that_a_model_keeps_comes_back(codec: JsonCodec) -> None:
    decoded = back(codec, opened())

    assert isinstance(decoded, Open)
    assert decoded.model_fields_set == {"name", "extra", "$"}
    assert decoded.model_extra == {"extra": (1, 2), "$": 3}
    assert decoded._secret == 8
    assert decoded == opened()
    with pytest.raises(AttributeError):
        _ = decoded._unset


def test_a_model_whose_private_attributes_were_never_made_stays_without(codec: JsonCodec) -> None:
    model = Open(name="n")
    object.__setattr__(model, "__pydantic_private__", None)

    assert same(back(codec, model), model)


def test_which_fields_of_a_model_were_set_comes_back(codec: JsonCodec) -> None:
    implied, explicit = Money(amount=1), Money(amount=1, currency="EUR")

    assert same(back(codec, implied), implied)
    assert same(back(codec, explicit), explicit)
    assert not same(implied, explicit)


def test_a_rebuilt_model_works_like_any_other(codec: JsonCodec) -> None:
    decoded = back(codec, opened())

    assert isinstance(decoded, Open)
    assert decoded.model_dump() == {"name": "n", "extra": (1, 2), "$": 3}
    assert decoded.model_copy(update={"name": "m"}).name == "m"
    with pytest.raises(pydantic.ValidationError):
        decoded.name = "other"


def test_a_frozen_instance_is_hashable_again(codec: JsonCodec) -> None:
    value = {Point(1, 2): "a", Pair(1): "b"}

    assert back(codec, value) == value


class Refused(Exception):
    def __init__(self, code: int, hint: str) -> None:
        super().__init__(code, hint)

    def __str__(self) -> str:
        return "refused \ud800\udc00"


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("broken")


@pytest.mark.parametrize(
    ("exception", "message", "original"),
    [
        (ValueError("no"), "no", "ValueError"),
        (Refused(1, "h"), "refused \ud800\udc00", "Refused"),
        (KeyError(), "KeyError", "KeyError"),
        (Mute(), "Mute", "Mute"),
        (KeyboardInterrupt(), "KeyboardInterrupt", "KeyboardInterrupt"),
        (RecordedFailure("was", "Other"), "was", "Other"),
        (RecordedFailure(""), "", None),
        (ExceptionGroup("many", [ValueError("no")]), "many (1 sub-exception)", "ExceptionGroup"),
    ],
)
def test_an_exception_comes_back_as_a_recorded_failure(
    codec: JsonCodec, exception: BaseException, message: str, original: str | None
) -> None:
    text = codec.encode([exception])

    back_in_a_list = codec.decode(text)

    assert isinstance(back_in_a_list, list)
    decoded = back_in_a_list[0]
    assert type(decoded) is RecordedFailure
    assert (str(decoded), decoded.original_class) == (message, original)
    assert codec.encode([decoded]) == text


def test_a_failure_comes_back_with_all_it_says(codec: JsonCodec) -> None:
    failure = Failure(
        ValueError("no"),  # type: ignore[arg-type]
        retryable=False,
        step="charge",
        inputs={"amount": Money(amount=1)},
        attempts=2,
        validation_errors={"amount": ["too small"]},
        rollback_failures=[RollbackFailure("ship", "undo", "raised")],
    )

    decoded = back(codec, failure)

    assert isinstance(decoded, Failure)
    assert decoded == failure
    assert decoded.inputs == {"amount": Money(amount=1)}
    assert decoded.rollback_failures == failure.rollback_failures
    assert decoded.traceback == failure.traceback
    assert isinstance(decoded.exception, RecordedFailure)
    assert decoded.exception.original_class == "ValueError"


def test_results_are_known_without_being_met_first() -> None:
    text = JsonCodec(TypeRegistry()).encode([Success(1), Halt(), Failure("no")])

    assert JsonCodec(TypeRegistry()).decode(text) == [Success(1), Halt(), Failure("no")]
