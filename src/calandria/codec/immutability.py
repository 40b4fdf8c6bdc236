"""Which values may be shared between steps without a copy."""

from __future__ import annotations

from enum import Enum
from types import NoneType

from calandria.codec.scalars import IMMUTABLE_SCALARS

_NEVER_HOLD_ANYTHING = frozenset({str, int, float, bool, NoneType, bytes})
"""What most values are: told apart first, before the zones, members and items of the others."""


def is_immutable(value: object) -> bool:
    """Tell whether nobody can change `value`, so that it needs no copy.

    True for None, numbers, text, bytes, instants, `Decimal`, `UUID`, ranges, paths and members of
    enumerations, and for tuples and frozensets of such; by exact class, a subclass may have more.
    """
    if type(value) in _NEVER_HOLD_ANYTHING:
        return True
    waiting = [value]
    while waiting:
        current = waiting.pop()
        cls = type(current)
        if cls in IMMUTABLE_SCALARS or issubclass(cls, Enum):
            if not _has_foreign_zone(current):
                continue
            return False
        if cls is not tuple and cls is not frozenset:
            return False
        assert isinstance(current, (tuple, frozenset))
        waiting.extend(current)
    return True


def _has_foreign_zone(value: object) -> bool:
    zone = getattr(value, "tzinfo", None)
    return zone is not None and type(zone) not in IMMUTABLE_SCALARS
