"""Which values may be shared without a copy."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta, tzinfo
from decimal import Decimal
from enum import Enum
from pathlib import Path
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest

from calandria.codec import Record, is_immutable
from tests.unit.codec.sameness import numbered


class Colour(Enum):
    RED = "red"


class Text(str):
    pass


class OwnZone(tzinfo):
    def utcoffset(self, at: datetime | None) -> timedelta | None:
        return None

    def dst(self, at: datetime | None) -> timedelta | None:
        return None

    def tzname(self, at: datetime | None) -> str | None:
        return None


def deep_tuple(depth: int, innermost: object) -> object:
    value = innermost
    for _ in range(depth):
        value = (value,)
    return value


IMMUTABLE = [
    None, True, 1, 1.5, 1j, "a", b"a", Decimal(1), UUID(int=1), Path("a"), range(3), UTC,
    datetime(2024, 1, 1, tzinfo=ZoneInfo("UTC")), Colour.RED, (), (1, ("a", frozenset({2}))),
    deep_tuple(100_000, 1),
]  # fmt: skip

MUTABLE = [
    [], {}, set(), bytearray(), object(), Text("a"), (1, [2]), (1, (Text("a"),)),
    datetime(2024, 1, 1, tzinfo=OwnZone()), time(1, tzinfo=OwnZone()),
    Record("m:C", {}, {}), deep_tuple(100_000, []),
]  # fmt: skip


@pytest.mark.parametrize("value", IMMUTABLE, ids=numbered(IMMUTABLE))
def test_what_nobody_can_change_is_immutable(value: object) -> None:
    assert is_immutable(value)


@pytest.mark.parametrize("value", MUTABLE, ids=numbered(MUTABLE))
def test_what_may_change_is_not(value: object) -> None:
    assert not is_immutable(value)
