"""What cannot be recorded is refused, saying where it is and what to do."""

from __future__ import annotations

import functools
import io
import sys
import threading
from collections import OrderedDict, defaultdict, deque, namedtuple
from dataclasses import dataclass, field
from datetime import datetime, timedelta, tzinfo
from decimal import Decimal
from enum import Enum
from pathlib import Path, PureWindowsPath
from types import MappingProxyType
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from pydantic import BaseModel, PrivateAttr

from calandria.codec import JsonCodec, TypeRegistry
from calandria.codec.format import MAX_DEPTH
from calandria.errors import EncodingError


class Text(str):
    pass


class Number(int):
    pass


class Mapping(dict):  # type: ignore[type-arg]
    pass


class Items(list):  # type: ignore[type-arg]
    pass


class Pair(tuple):  # type: ignore[type-arg]
    pass


class Amount(Decimal):
    pass


class Moment(datetime):
    pass


class Money:
    pass


class OwnZone(tzinfo):
    def utcoffset(self, at: datetime | None) -> timedelta | None:
        return None

    def dst(self, at: datetime | None) -> timedelta | None:
        return None

    def tzname(self, at: datetime | None) -> str | None:
        return None


class Fickle(Enum):
    A = 1


@dataclass
class Line:
    price: object


@dataclass
class ListLine(list):  # type: ignore[type-arg]
    price: int = 0


class WithLock(BaseModel):
    _lock: Any = PrivateAttr(default_factory=threading.Lock)


class Extended(namedtuple("Extended", "a b")):
    pass


@pytest.fixture
def codec() -> JsonCodec:
    return JsonCodec(TypeRegistry())


def refusal(codec: JsonCodec, value: object) -> EncodingError:
    with pytest.raises(EncodingError) as caught:
        codec.encode(value)
    return caught.value


def test_a_refusal_names_the_place_the_class_and_the_fix(codec: JsonCodec) -> None:
    error = refusal(codec, {"lines": [1, 2, 3, Line(Money())]})

    assert error.path == '["lines"][3].price'
    assert str(error) == (
        'Cannot record the value at ["lines"][3].price: tests.unit.codec.test_refusals.Money is '
        "not a kind of value that can be recorded: return a dict or a dataclass of what later "
        "steps need, or register it with calandria.register(Money, encode=..., decode=...)."
    )


def test_a_long_key_is_shortened_in_the_path(codec: JsonCodec) -> None:
    error = refusal(codec, {"k" * 1000: Money(), "other": [1]})

    assert error.path == f'["{"k" * 56}...]'


def test_a_refusal_of_the_whole_value_has_no_path(codec: JsonCodec) -> None:
    error = refusal(codec, Money())

    assert error.path == ""
    assert str(error).startswith("Cannot record the value: tests.unit.codec.test_refusals.Money")


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({1: Money()}, "[1]"),
        ({"a": {"$": Money()}}, '["a"]["$"]'),
        ((0, {"a": Money()}), '[1]["a"]'),
        (deque([0, Money()]), "[1]"),
        (OrderedDict(a=Money()), '["a"]'),
        ([{Fickle.A: Money()}], "[0][<Fickle.A: 1>]"),
        ({Number(1): 1}, "<key 1>"),
        ([{Text("x")}], "[0]<element 'x'>"),
        (WithLock(), "._lock"),
        ([datetime(2024, 1, 1, tzinfo=OwnZone())], "[0]"),
    ],
)
def test_the_path_leads_to_the_part_at_fault(codec: JsonCodec, value: object, path: str) -> None:
    assert refusal(codec, value).path == path


@pytest.mark.parametrize(
    ("value", "fix"),
    [
        (Text("a"), "return str(value)"),
        (Number(1), "return int(value)"),
        (Mapping(a=1), "return dict(value)"),
        (Items([1]), "return list(value)"),
        (Pair((1,)), "return tuple(value)"),
        (sys.version_info, "return tuple(value)"),
        (Amount(1), "register"),
        (Moment(2024, 1, 1), "register"),
        (MappingProxyType({}), "return a dict"),
        (iter([1]), "return list(value)"),
        ((n for n in [1]), "return list(value)"),
        (len, "return what it computes"),
        (lambda: 1, "return what it computes"),
        (functools.partial(len), "return what it computes"),
        (int, "return what it computes"),
        (sys, "return what it computes"),
        (io.StringIO(), "return list(value)"),
        (threading.Lock(), "register"),
        (object(), "return a dict"),
        (..., "return a dict"),
        (memoryview(b"x"), "return a dict"),
        (defaultdict(lambda: 1), "return dict(value)"),
        (ListLine(), "register"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_nothing_is_flattened(codec: JsonCodec, value: object, fix: str) -> None:
    error = refusal(codec, value)

    assert fix in str(error)


def test_an_ordered_dict_with_attributes_is_refused(codec: JsonCodec) -> None:
    value = OrderedDict(a=1)
    value.note = "lost otherwise"  # type: ignore[attr-defined]

    assert "attributes of its own" in str(refusal(codec, value))


def test_a_named_tuple_with_attributes_is_refused(codec: JsonCodec) -> None:
    value = Extended(1, 2)
    value.note = "lost otherwise"  # type: ignore[attr-defined]

    assert "more to it than its fields" in str(refusal(codec, value))


def test_a_member_that_its_name_does_not_find_is_refused(codec: JsonCodec) -> None:
    stray = object.__new__(Fickle)
    stray._name_, stray._value_ = "A", 2

    assert "found by its name" in str(refusal(codec, stray))


def test_a_zone_without_a_key_is_refused(codec: JsonCodec, tmp_path: Path) -> None:
    version_1_file_without_transitions = (
        b"TZif"
        + bytes(16)
        + bytes([0, 0, 0, 0] * 3 + [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 4])
        + bytes(6)
        + b"UTC\0"
    )
    zone = ZoneInfo.from_file(io.BytesIO(version_1_file_without_transitions))

    assert "use ZoneInfo(key)" in str(refusal(codec, zone))


def test_a_path_that_means_something_else_once_written_is_never_changed(codec: JsonCodec) -> None:
    # some releases of Python read `\\\\server\\` back as two parts, others as one
    path = PureWindowsPath("//server/")
    if PureWindowsPath(str(path)).parts == path.parts:
        assert codec.decode(codec.encode(path)) == path
    else:
        assert "means the same" in str(refusal(codec, path))


def test_a_cycle_is_refused_with_the_path_back(codec: JsonCodec) -> None:
    looped: list[object] = [1]
    looped.append({"again": looped})

    error = refusal(codec, {"loop": looped})

    assert error.path == '["loop"][1]["again"]'
    assert "contains itself" in str(error)


def test_a_cycle_through_a_dataclass_is_refused(codec: JsonCodec) -> None:
    line = Line(None)
    line.price = (line,)

    assert refusal(codec, line).path == ".price[0]"


def nested_lists(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 100_000])
def test_nesting_beyond_the_limit_is_refused(codec: JsonCodec, depth: int) -> None:
    assert "nested" in str(refusal(codec, nested_lists(depth)))


def test_nesting_up_to_the_limit_comes_back_even_as_dataclasses(codec: JsonCodec) -> None:
    value: object = 1
    for _ in range(MAX_DEPTH):
        value = Line(value)

    assert codec.decode(codec.encode(nested_lists(MAX_DEPTH))) == nested_lists(MAX_DEPTH)
    assert codec.encode(codec.decode(codec.encode(value))) == codec.encode(value)


def test_a_record_is_refused_only_where_it_would_stand_too_deep(codec: JsonCodec) -> None:
    value: object = 1
    for _ in range(MAX_DEPTH - 1):
        value = {1: value}
    deepest = codec.encode(Line(value))
    stranger = JsonCodec(TypeRegistry())
    record = stranger.decode(deepest)

    assert stranger.encode(record) == deepest
    assert "nested" in str(refusal(stranger, [record]))


def test_a_refused_value_can_be_mended_and_recorded(codec: JsonCodec) -> None:
    looped: list[object] = [1]
    looped.append(looped)
    refusal(codec, looped)

    looped.pop()

    assert codec.encode(looped) == "[1]"


def test_a_value_above_the_limit_is_refused_with_both_sizes() -> None:
    codec = JsonCodec(TypeRegistry(), max_bytes=2_000_000)

    assert len(codec.encode("x" * 1_999_998)) == 2_000_000
    message = str(refusal(codec, "x" * 1_999_999))
    assert "2,000,001 bytes" in message or "1.9 MiB" in message
    assert "max_value_bytes" in message


def test_the_default_limit_is_16_mib(codec: JsonCodec) -> None:
    assert "16.0 MiB" in str(refusal(codec, "x" * (16 * 1024 * 1024)))


def test_text_outside_ascii_counts_as_it_is_written() -> None:
    codec = JsonCodec(TypeRegistry(), max_bytes=8)

    assert codec.encode("é") == '"\\u00e9"'
    assert "14 bytes" in str(refusal(codec, "éé"))


@dataclass
class Hidden:
    shown: int = 0
    lock: Any = field(default_factory=threading.Lock, repr=False)


def test_a_field_that_cannot_be_recorded_is_never_dropped(codec: JsonCodec) -> None:
    assert refusal(codec, Hidden()).path == ".lock"
