"""The format does not change: what an earlier release recorded is read, and written, as it was."""

from __future__ import annotations

import json
import math
import struct
from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, Flag, IntFlag
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import NamedTuple
from uuid import UUID, SafeUUID
from zoneinfo import ZoneInfo

import pytest
from pydantic import BaseModel, ConfigDict, PrivateAttr

from calandria.codec import JsonCodec, TypeRegistry
from calandria.results import (
    Dispatched,
    Failure,
    Halt,
    Paused,
    RecordedFailure,
    RollbackFailure,
    Skipped,
    Success,
)
from tests.unit.codec.sameness import same

TEXTS: dict[str, str] = json.loads(Path(__file__).with_name("golden.json").read_text())


@dataclass
class Line:
    sku: str
    quantity: int = 1
    total: int = field(init=False, repr=False, compare=False)


class Money(BaseModel):
    model_config = ConfigDict(extra="allow")

    amount: int
    currency: str = "EUR"
    _note: str = PrivateAttr(default="kept")


class Colour(Enum):
    RED = "red"


class Access(Flag):
    READ = 1
    WRITE = 2


class Wide(IntFlag):
    ONE = 1


class Pair(NamedTuple):
    left: object
    right: object


class Own:
    def __init__(self, value: object) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Own) and self.value == other.value

    __hash__ = None  # type: ignore[assignment]


def with_attribute() -> Line:
    line = Line("a")
    line.seen = True  # type: ignore[attr-defined]
    return line


VALUES: dict[str, object] = {
    "null": None,
    "boolean": [True, False],
    "integer": [0, -5, 2**80],
    "integer above 2048 bits": -(2**2048),
    "number": [0.1, -0.0, 1e300],
    "infinity": [math.inf, -math.inf],
    "not a number": math.nan,
    "unusual not a number": struct.unpack(">d", bytes.fromhex("fff8000000000001"))[0],
    "text": 'é \U0001f600 "\x00',
    "lone surrogate": "\ud800x",
    "two lone surrogates": "a\ud83d\ude00b",
    "complex": 1.5 - 2j,
    "decimal": [Decimal("1.10"), Decimal("1E+5"), Decimal("sNaN"), Decimal("-Infinity")],
    "uuid": UUID(int=1),
    "safe uuid": UUID(int=1, is_safe=SafeUUID.safe),
    "bytes": b"\x00\xff",
    "bytearray": bytearray(b"a"),
    "date": date(2024, 2, 29),
    "naive datetime": datetime(2024, 2, 29, 12, 0, 0, 5, fold=1),
    "datetime in utc": datetime(2024, 2, 29, 12, tzinfo=UTC),
    "datetime at an offset": datetime(2024, 2, 29, tzinfo=timezone(timedelta(hours=-3))),
    "datetime in a named offset": datetime(2024, 2, 29, tzinfo=timezone(timedelta(hours=1), "X")),
    "datetime in a zone": datetime(2024, 10, 27, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Paris")),
    "time": [time(1, 2, 3, 4), time(1, fold=1, tzinfo=ZoneInfo("Europe/Paris"))],
    "timedelta": timedelta(days=-1, seconds=5, microseconds=7),
    "timezone": [UTC, timezone(timedelta(hours=1), "X")],
    "zoneinfo": ZoneInfo("Europe/Paris"),
    "path": [PurePosixPath("a/b"), PureWindowsPath("C:\\a")],
    "range": range(1, 10, 2),
    "list": [1, [2]],
    "tuple": (1, (2,)),
    "set": {1, "a", (2,)},
    "frozenset": frozenset({2, 1}),
    "deque": [deque([1]), deque([1], maxlen=2)],
    "object": {"b": 1, "a": {"c": None}},
    "dict with other keys": {1: "int", "1": "text", (1, 2): "tuple", None: 0},
    "dict with the mark": {"$": "tuple", "v": [1]},
    "ordereddict": OrderedDict([("b", 1), ("a", 2)]),
    "counter": Counter("aab"),
    "defaultdict": [defaultdict(list, {"a": [1]}), defaultdict(None, {1: 2})],
    "dataclass": Line("a", 2),
    "dataclass with an attribute": with_attribute(),
    "model": Money(amount=5),
    "model with everything": Money.model_validate({"amount": 5, "currency": "CHF", "extra": (1,)}),
    "namedtuple": Pair(1, {2}),
    "enum": Colour.RED,
    "flag": [Access.READ | Access.WRITE, Access(0), Wide(5)],
    "exception": RecordedFailure("no stock", "OutOfStock"),
    "exception of no class": RecordedFailure("no stock"),
    "custom": Own((1, 2)),
    "success": Success((1,)),
    "skipped": Skipped(),
    "halt": Halt("enough", run_id="r"),
    "paused": Paused("r", ("approval",), "c"),
    "dispatched": Dispatched("r"),
    "rollback failure": RollbackFailure("ship", "undo", "raised", element_index=1),
    "failure": Failure("no stock", step="reserve", attempts=2, exception_class="OutOfStock"),
}


@pytest.fixture
def codec() -> JsonCodec:
    registry = TypeRegistry()
    for cls in (Line, Money, Colour, Access, Wide, Pair):
        registry.register(cls, name=f"golden:{cls.__name__}")
    registry.register(Own, name="golden:Own", encode=lambda own: own.value, decode=Own)
    return JsonCodec(registry)


def test_every_kind_has_its_text() -> None:
    assert list(TEXTS) == list(VALUES)


@pytest.mark.parametrize("kind", VALUES)
def test_a_value_is_recorded_as_it_always_was(codec: JsonCodec, kind: str) -> None:
    assert codec.encode(VALUES[kind]) == TEXTS[kind]


@pytest.mark.parametrize("kind", TEXTS)
def test_a_text_is_read_as_it_always_was(codec: JsonCodec, kind: str) -> None:
    back = codec.decode(TEXTS[kind])

    if isinstance(back, RecordedFailure):
        original = VALUES[kind]
        assert isinstance(original, RecordedFailure)
        assert (str(back), back.original_class) == (str(original), original.original_class)
    else:
        assert same(back, VALUES[kind])
