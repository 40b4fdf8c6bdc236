"""Wires whose annotated types can never match: only what is certain is refused.

Pydantic converts between many types (text to numbers, dates and decimals, mappings to models), and
a value may be of a subclass, so most pairs of types may match. What is refused here, pydantic
refuses for every value.
"""

from __future__ import annotations

import dataclasses
import typing
from collections import abc, deque
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path, PurePath
from uuid import UUID

from typing_extensions import is_typeddict

from calandria.definition.contract import InputField
from calandria.definition.functions import readable_name
from calandria.definition.references import Literal, Source, describe
from calandria.definition.sources import UNKNOWN, SourceTypes, members_of
from calandria.errors import DefinitionError

_NUMBERS = (bool, int, float, Decimal)
_TEXT = (str, bytes)
_MOMENTS = (datetime, date)
_SEQUENCES = (list, tuple, set, frozenset, deque)
_SCALARS = (*_NUMBERS, *_TEXT, *_MOMENTS, time, timedelta, UUID, Path, PurePath, type(None))

# what pydantic can make each type from, beside the type itself
_ACCEPTED: dict[type, tuple[type, ...]] = {
    bool: (*_NUMBERS, *_TEXT),
    int: (*_NUMBERS, *_TEXT, Enum),
    float: (*_NUMBERS, *_TEXT),
    Decimal: (*_NUMBERS, *_TEXT, tuple, list),
    str: (*_TEXT, Enum),
    bytes: _TEXT,
    datetime: (*_MOMENTS, *_NUMBERS, *_TEXT),
    date: (*_MOMENTS, *_NUMBERS, *_TEXT),
    time: (time, *_NUMBERS, *_TEXT),
    timedelta: (timedelta, *_NUMBERS, *_TEXT),
    UUID: _TEXT,
    Path: (PurePath, *_TEXT),
    type(None): (),
    list: _SEQUENCES,
    tuple: _SEQUENCES,
    set: _SEQUENCES,
    frozenset: _SEQUENCES,
    deque: _SEQUENCES,
    dict: (abc.Mapping,),
}
# what none of the types above is ever made from; other types are not judged
_JUDGED = (*_SCALARS, *_SEQUENCES, dict)


def check_wire(
    source: Source, field: InputField, types: SourceTypes, element: object = None
) -> None:
    """Raise `DefinitionError` if no value of the source can satisfy the input.

    `element` is the type of a map's elements. A validator of the user's own may accept anything,
    so an input that has one is not judged.
    """
    given = types.type_of(source, element)
    if field.runs_user_code or can_match(given, field.annotation):
        return
    raise DefinitionError(
        f"{describe(source)} is {_readable(given)}, and the input {field.name!r} takes "
        f"{_readable(field.annotation)}: they can never match. Wire another value, or convert it "
        "with .map(...)."
    )


def check_iterable(over: Source, types: SourceTypes) -> object:
    """Return the type of the elements; raises `DefinitionError` for what is no collection."""
    given = types.type_of(over)
    if not isinstance(over, Literal) and not any(_may_iterate(m) for m in members_of(given)):
        raise DefinitionError(
            f"over={describe(over)} is {_readable(given)}, which cannot be iterated over. Give a "
            "collection, or make one with .map(...)."
        )
    return types.element_of(over)


def can_match(given: object, wanted: object) -> bool:
    """Tell whether some value annotated `given` may pass for one annotated `wanted`."""
    return any(
        _can_match_one(source, target)
        for source in members_of(given)
        for target in members_of(wanted)
    )


def _can_match_one(given: object, wanted: object) -> bool:
    source, target = _class_of(given), _class_of(wanted)
    if source is None or target is None:
        return True
    if issubclass(source, target) or issubclass(target, source):
        return True
    accepted = _ACCEPTED.get(target)
    if accepted is not None:
        # models can be iterated over, so pydantic makes lists of them
        spread = target in _SEQUENCES and _is_record(source) and hasattr(source, "__iter__")
        return spread or issubclass(source, accepted) or not _is_judged(source)
    if _reads_attributes(target):
        return True
    if _is_record(target):
        return not _is_ordinary(source) or issubclass(source, abc.Mapping)
    return not (_is_ordinary(target) and _is_ordinary(source))


def _class_of(annotation: object) -> type | None:
    """Return the class whose instances are meant, or `None` where nothing can be said."""
    if annotation is None:
        return type(None)
    origin = typing.get_origin(annotation)
    if origin is typing.Literal:
        kinds = {type(value) for value in typing.get_args(annotation)}
        return kinds.pop() if len(kinds) == 1 else None
    found = origin or annotation
    if not isinstance(found, type) or found is object:
        return None
    if is_typeddict(found):
        return dict
    return None if getattr(found, "_is_protocol", False) else found


def _is_judged(source: type) -> bool:
    # a class of the user's own may have conversions, such as __float__, that pydantic uses
    return source in _JUDGED or _is_record(source)


def _is_record(cls: type) -> bool:
    return dataclasses.is_dataclass(cls) or hasattr(cls, "__pydantic_fields__")


def _reads_attributes(cls: type) -> bool:
    config = getattr(cls, "model_config", None) or getattr(cls, "__pydantic_config__", None)
    return isinstance(config, abc.Mapping) and bool(config.get("from_attributes"))


def _is_ordinary(cls: type) -> bool:
    if cls in _JUDGED or _is_record(cls):
        return True
    return type(cls) is type and not hasattr(cls, "__get_pydantic_core_schema__")


def _may_iterate(annotation: object) -> bool:
    cls = _class_of(annotation)
    if cls is None or annotation is UNKNOWN:
        return True
    if hasattr(cls, "__iter__") and not hasattr(cls, "__pydantic_fields__"):
        return True
    return hasattr(cls, "__getitem__") or (cls not in _JUDGED and not _is_ordinary(cls))


def _readable(annotation: object) -> str:
    if isinstance(annotation, type) and not typing.get_args(annotation):
        return readable_name(annotation)
    return "None" if annotation is type(None) else str(annotation).replace("typing.", "")
