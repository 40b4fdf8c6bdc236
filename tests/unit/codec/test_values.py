"""Values that need no class of the user's come back as they were."""

from __future__ import annotations

import math
import struct
from collections import Counter, OrderedDict, defaultdict, deque
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path, PurePosixPath, PureWindowsPath
from uuid import UUID, SafeUUID
from zoneinfo import ZoneInfo

import pytest

from calandria.codec import JsonCodec, TypeRegistry
from tests.unit.codec.sameness import numbered, same

PARIS = ZoneInfo("Europe/Paris")
ODD_OFFSET = timezone(timedelta(hours=-3, minutes=-7, seconds=11, microseconds=5))
STRANGE_NAN = struct.unpack(">d", bytes.fromhex("fff8000000000123"))[0]

VALUES = [
    None,
    True,
    False,
    0,
    -1,
    2**80,
    -(2**80),
    2**2048 - 1,
    2**2048,
    -(10**6000),
    0.1,
    -0.0,
    5e-324,
    1.7976931348623157e308,
    math.inf,
    -math.inf,
    math.nan,
    -math.nan,
    STRANGE_NAN,
    complex(-0.0, math.nan),
    "",
    "text \x00 \x7f é \U0001f600",
    "$",
    "\ud800",
    "\udc00\ud800",
    "\ud800\udc00",
    "a\ud83d\ude00\ud83d\ude00b",
    b"",
    bytes(range(256)),
    bytearray(b"abc"),
    Decimal("1.10"),
    Decimal("-0E+7"),
    Decimal("1E-999999"),
    Decimal("NaN123"),
    Decimal("-sNaN"),
    Decimal("-Infinity"),
    Decimal("1." + "3" * 5000),
    UUID(int=5),
    UUID(int=5, is_safe=SafeUUID.safe),
    UUID(int=5, is_safe=SafeUUID.unsafe),
    date(1, 1, 1),
    datetime(2024, 2, 29, 12, 30, 1, 7),
    datetime(2024, 10, 27, 2, 30, fold=1),
    datetime(2024, 1, 1, tzinfo=UTC),
    datetime(2024, 1, 1, tzinfo=ODD_OFFSET),
    datetime(2024, 1, 1, tzinfo=timezone(timedelta(0), "Zulu")),
    datetime(2024, 1, 1, tzinfo=timezone(timedelta(hours=1), "\ud800\udc00")),
    datetime(2024, 10, 27, 2, 30, fold=1, tzinfo=PARIS),
    time(23, 59, 59, 999999),
    time(1, 2, fold=1, tzinfo=PARIS),
    time(1, 2, tzinfo=ODD_OFFSET),
    timedelta(days=-1, microseconds=1),
    timedelta.max,
    UTC,
    ODD_OFFSET,
    PARIS,
    Path("/tmp/x"),
    Path(""),
    Path("odd\udcff name"),
    PurePosixPath("a/../b"),
    PureWindowsPath(r"C:\Users\x"),
    PureWindowsPath("//host/share/y"),
    range(0),
    range(1, 1),
    range(10, -(2**3000), -(2**2500)),
    [],
    (),
    {},
    set(),
    frozenset(),
    [1, (2, [3, {4}], frozenset({5}))],
    (1, 1.0, True, "1"),
    {"b": 1, "a": 2},
    {1: "int", "1": "text", (1, 2): "tuple", None: "none", b"1": "bytes", 2.5: "float"},
    {True: 1},
    {math.nan: 1},
    {"$": "dict"},
    {"$": "dict", "v": [], "other": {"$": 5}},
    {"\ud800\udc00": 1, "\U00010000": 2},
    {"é": 1},
    {frozenset({(1, 2)}): {PARIS: 1}},
    {1, "1", (1,), None, 2.5, frozenset({1})},
    deque([1, 2]),
    deque([1, 2, 3], maxlen=3),
    deque(maxlen=0),
    OrderedDict([("b", 1), (2, "a")]),
    Counter("abracadabra"),
    defaultdict(list, {"a": [1]}),
    defaultdict(None, {1: 2}),
]


@pytest.fixture
def codec() -> JsonCodec:
    return JsonCodec(TypeRegistry())


@pytest.mark.parametrize("value", VALUES, ids=numbered(VALUES))
def test_a_value_comes_back_the_same(codec: JsonCodec, value: object) -> None:
    text = codec.encode(value)

    assert text.isascii()
    assert same(codec.decode(text), value)
    assert codec.encode(codec.decode(text)) == text


@pytest.mark.parametrize("value", VALUES, ids=numbered(VALUES))
def test_a_value_comes_back_the_same_from_within_others(codec: JsonCodec, value: object) -> None:
    nested = {"plain": 1, "list": [value, {"deep": (value,)}], "value": value}

    assert same(codec.decode(codec.encode(nested)), nested)


@pytest.mark.parametrize("value", VALUES, ids=numbered(VALUES))
def test_a_value_comes_back_the_same_as_one_of_a_steps_inputs(
    codec: JsonCodec, value: object
) -> None:
    inputs = {"order_id": 1, "value": value, "note": "x", "price": 1.5, "paid": False}

    assert same(codec.decode(codec.encode(inputs)), inputs)


def test_what_comes_back_is_fresh_each_time(codec: JsonCodec) -> None:
    text = codec.encode({"lines": [1], "tags": {1}})

    first, second = codec.decode(text), codec.decode(text)

    assert isinstance(first, dict) and isinstance(second, dict)
    first["lines"].append(2)
    first["tags"].add(2)
    assert second == {"lines": [1], "tags": {1}}


def test_a_value_used_twice_becomes_two(codec: JsonCodec) -> None:
    shared = [1]

    back = codec.decode(codec.encode({"a": shared, "b": shared}))

    assert isinstance(back, dict)
    assert back == {"a": [1], "b": [1]}
    assert back["a"] is not back["b"]


def test_a_set_has_one_text_whatever_its_order(codec: JsonCodec) -> None:
    # in a table of eight slots 0 and 8 collide, so the order is that of insertion
    left, right = {0, 8}, {8, 0}
    assert list(left) != list(right)

    assert codec.encode(left) == codec.encode(right)


def test_the_order_of_a_dict_is_kept(codec: JsonCodec) -> None:
    back = codec.decode(codec.encode({"z": 1, "a": 2, "m": 3}))

    assert isinstance(back, dict)
    assert list(back) == ["z", "a", "m"]


def test_a_path_of_the_other_system_comes_back_pure(codec: JsonCodec) -> None:
    back = codec.decode('{"$":"path","c":"WindowsPath","v":"C:\\\\x"}')

    assert same(back, PureWindowsPath(r"C:\x"))


def test_plain_values_are_plain_json(codec: JsonCodec) -> None:
    value = {"order_id": 1, "note": "é", "lines": [{"sku": "a", "price": 1.5}], "paid": None}

    assert codec.encode(value) == (
        '{"order_id":1,"note":"\\u00e9","lines":[{"sku":"a","price":1.5}],"paid":null}'
    )
