"""Return annotations: the type of the value inside the result types a step may return."""

from __future__ import annotations

import types
import typing
from typing import Any, Union

from calandria.results import Dispatched, Failure, Halt, Paused, Skipped, Success

_CARRIERS = (Success, Skipped)
_VALUELESS = (Failure, Halt, Paused, Dispatched)


def value_annotation(annotation: object) -> object:
    """Return what the value must be: `int` for `int`, for `Success[int] | Failure`, and so on."""
    if annotation in (typing.NoReturn, typing.Never):
        return Any
    if typing.get_origin(annotation) not in (Union, types.UnionType):
        members: tuple[object, ...] = (annotation,)
    else:
        members = typing.get_args(annotation)
    if not any(_is_result(member) for member in members):
        return annotation
    values = [_carried(member) for member in members if not _is_valueless(member)]
    if not values:
        return Any
    return Union[tuple(values)]  # noqa: UP007 - a union of types known only here


def _is_result(annotation: object) -> bool:
    return _is_valueless(annotation) or _class_of(annotation) in _CARRIERS


def _is_valueless(annotation: object) -> bool:
    return _class_of(annotation) in _VALUELESS


def _carried(annotation: object) -> object:
    if _class_of(annotation) not in _CARRIERS:
        return annotation
    arguments = typing.get_args(annotation)
    return arguments[0] if arguments else Any


def _class_of(annotation: object) -> object:
    return typing.get_origin(annotation) or annotation
