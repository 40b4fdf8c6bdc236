"""Wires that can never match: nothing is refused that pydantic would accept for some value."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from pathlib import Path
from typing import Annotated, Any, Literal, NewType, Protocol, TypeVar
from uuid import UUID

import pytest
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from calandria.definition.compatibility import can_match

T = TypeVar("T")
UserId = NewType("UserId", int)


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    LOW = 1


class Size(str, Enum):
    S = "s"


@dataclass
class Point:
    x: int = 0


class Model(BaseModel):
    x: int = 0


class FromAttributes(BaseModel):
    model_config = ConfigDict(from_attributes=True)
    x: int = 0


class Record(TypedDict, total=False):
    x: int


class Plain:
    pass


class SubPlain(Plain):
    pass


class Unrelated:
    pass


class Floating:
    def __float__(self) -> float:
        return 1.0


class Named(Protocol):
    name: str


# values of each type, chosen to be the ones most likely to be accepted by another
SAMPLES: dict[Any, list[object]] = {
    bool: [True, False],
    int: [0, 1, 86400],
    float: [0.0, 1.0, 1.5],
    Decimal: [Decimal(0), Decimal(1)],
    str: [
        *("", "1", "true", "1.5", "red", "2026-01-01", "2026-01-01T00:00:00", "12:00", "P1D"),
        "12345678-1234-5678-1234-567812345678",
    ],
    bytes: [b"", b"1", b"true", b"2026-01-01", b"12:00", b"P1D", b"0123456789abcdef"],
    datetime: [datetime(2026, 1, 1), datetime(2026, 1, 1, 12)],
    date: [date(2026, 1, 1)],
    time: [time(12)],
    timedelta: [timedelta(1)],
    UUID: [UUID(int=1)],
    Path: [Path("/a")],
    type(None): [None],
    list: [[], [1], [0, (1,), 0]],
    tuple: [(), (1,), (0, (1,), 0)],
    set: [set(), {1}],
    frozenset: [frozenset(), frozenset({1})],
    deque: [deque(), deque([1])],
    dict: [{}, {"x": 1}],
    Colour: [Colour.RED],
    Level: [Level.LOW],
    Size: [Size.S],
    Point: [Point()],
    Model: [Model()],
    FromAttributes: [FromAttributes()],
    Record: [{}, {"x": 1}],
    Plain: [Plain()],
    Unrelated: [Unrelated()],
    Floating: [Floating()],
}


def accepts(target: Any, value: object) -> bool:
    if target in (Plain, Unrelated, Floating):
        return isinstance(value, target)
    try:
        TypeAdapter(target).validate_python(value)
    except ValidationError:
        return False
    return True


@pytest.mark.parametrize("target", SAMPLES, ids=lambda found: found.__name__)
@pytest.mark.parametrize("source", SAMPLES, ids=lambda found: found.__name__)
def test_nothing_is_refused_that_some_value_satisfies(source: Any, target: Any) -> None:
    accepted = [value for value in SAMPLES[source] if accepts(target, value)]

    if accepted:
        assert can_match(source, target), f"{accepted[0]!r} passes for {target}"


REFUSED: list[tuple[Any, Any]] = [
    (int, str),
    (bool, str),
    (float, str),
    (Decimal, str),
    (datetime, str),
    (UUID, str),
    (UUID, int),
    (int, UUID),
    (str, list),
    (str, list[str]),
    (int, list[int]),
    (list, int),
    (list[int], str),
    (list[int], dict[str, int]),
    (dict, list),
    (dict[str, int], list[int]),
    (dict, str),
    (dict, int),
    (list, Model),
    (str, Model),
    (int, Point),
    (None, int),
    (int, None),
    (None, Model),
    (Point, str),
    (Point, int),
    (Model, str),
    (Model, dict[str, int]),
    (Plain, Unrelated),
    (Plain, Point),
    (int, Plain),
    (str, Plain),
    (timedelta, date),
    (time, datetime),
    (int, Path),
    (Path, int),
    (int | float, str),
    (int | None, str),
    (Literal[1], str),
    (UserId, str),
    (Annotated[int, Field(ge=1)], Annotated[str, Field(min_length=1)]),
    (Record, int),
    (list[str], str | int),
]

ALLOWED: list[tuple[Any, Any]] = [
    (int, int),
    (int, float),
    (float, int),
    (str, int),
    (str, Decimal),
    (str, datetime),
    (str, date),
    (str, UUID),
    (str, Path),
    (str, bool),
    (int, datetime),
    (int, timedelta),
    (date, datetime),
    (datetime, date),
    (list[int], tuple[int, ...]),
    (set[int], list[int]),
    (list[int], list[str]),
    (list[int], Sequence[int]),
    (list[int], Iterable[int]),
    (dict[str, int], Mapping[str, int]),
    (dict[str, int], Model),
    (Model, list[tuple[str, int]]),
    (dict[str, int], Point),
    (Record, Model),
    (Record, dict[str, int]),
    (Plain, FromAttributes),
    (int | None, int),
    (int, str | int),
    (int | str, str),
    (Literal["a"], str),
    (str, Literal["a"]),
    (Literal["a"], Colour),
    (Literal[1, "a"], list[int]),
    (int, Colour),
    (Size, str),
    (Level, int),
    (Colour, str),
    (SubPlain, Plain),
    (Plain, SubPlain),
    (Point, Any),
    (Any, int),
    (object, int),
    (int, object),
    (T, int),
    (int, T),
    (Point, Named),
    (Plain, int),
    (Floating, float),
    (UserId, int),
    (int, UserId),
    (Callable[[], int], Callable[..., int]),
    (type[int], type[int]),
    (int, int | None),
    (None, int | None),
]


@pytest.mark.parametrize(("source", "target"), REFUSED, ids=lambda found: repr(found))
def test_what_can_never_match_is_refused(source: Any, target: Any) -> None:
    assert not can_match(source, target)


@pytest.mark.parametrize(("source", "target"), ALLOWED, ids=lambda found: repr(found))
def test_what_may_match_is_allowed(source: Any, target: Any) -> None:
    assert can_match(source, target)
