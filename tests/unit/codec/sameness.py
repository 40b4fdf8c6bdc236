"""Whether a value came back the same: equal, of the same types all the way down, NaN included."""

from __future__ import annotations

import dataclasses
import struct
from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterable
from datetime import datetime, time
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any
from uuid import UUID

from pydantic import BaseModel


def same(left: object, right: object) -> bool:
    """Tell whether two values are alike in every way that anyone could notice."""
    if type(left) is not type(right):
        return False
    if isinstance(left, float) and isinstance(right, float):
        return struct.pack(">d", left) == struct.pack(">d", right)
    if isinstance(left, complex) and isinstance(right, complex):
        return same(left.real, right.real) and same(left.imag, right.imag)
    if isinstance(left, (Decimal, range, PurePath)):
        return repr(left) == repr(right)
    if isinstance(left, UUID) and isinstance(right, UUID):
        return left == right and left.is_safe is right.is_safe
    if isinstance(left, (datetime, time)) and isinstance(right, (datetime, time)):
        return repr(left) == repr(right) and left.fold == right.fold
    if isinstance(left, Enum):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return _same_dicts(left, right)
    if isinstance(left, deque) and isinstance(right, deque) and left.maxlen != right.maxlen:
        return False
    if isinstance(left, (list, tuple, deque)) and isinstance(right, (list, tuple, deque)):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, (set, frozenset)) and isinstance(right, (set, frozenset)):
        return len(left) == len(right) and all(any(same(a, b) for b in right) for a in left)
    if isinstance(left, BaseModel) and isinstance(right, BaseModel):
        return same(_model_state(left), _model_state(right))
    if dataclasses.is_dataclass(left):
        return same(_dataclass_state(left), _dataclass_state(right))
    return left == right


def _same_dicts(left: dict[object, object], right: dict[object, object]) -> bool:
    if isinstance(left, defaultdict) and isinstance(right, defaultdict):
        if left.default_factory is not right.default_factory:
            return False
    elif isinstance(left, OrderedDict) and vars(left) != vars(right):
        return False
    return same([*left.items()], [*right.items()])


def _dataclass_state(instance: Any) -> list[object]:
    names = [field.name for field in dataclasses.fields(instance)]
    set_fields = {name: getattr(instance, name) for name in names if hasattr(instance, name)}
    return [set_fields, getattr(instance, "__dict__", None)]


def _model_state(model: BaseModel) -> list[object]:
    return [
        dict(vars(model)),
        model.__pydantic_fields_set__,
        model.__pydantic_extra__,
        getattr(model, "__pydantic_private__", None),
    ]


def numbered(values: Iterable[object]) -> list[str]:
    """Return an id for each value, of its place and its class."""
    return [f"{place}-{type(value).__name__}" for place, value in enumerate(values)]
