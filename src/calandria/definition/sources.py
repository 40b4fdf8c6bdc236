"""What is known, before any run, about the types of wired values."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Union

from typing_extensions import is_typeddict

from calandria.definition.contract import Contract
from calandria.definition.references import (
    Computed,
    ElementRoot,
    IndexRoot,
    InputRoot,
    Literal,
    PathStep,
    Reference,
    Source,
    StepRoot,
)

UNKNOWN: object = Any
"""The type of a value about which nothing is known."""


class SourceTypes:
    """The declared types of the inputs and results of one reactor."""

    def __init__(self, contract: Contract, results: Mapping[str, object]) -> None:
        self._contract = contract
        self._results = results

    def type_of(self, source: Source, element: object = None) -> object:
        """Return the annotated type of a source, or `UNKNOWN`; literals are never judged."""
        if not isinstance(source, Reference):
            return UNKNOWN
        found = self._root_type(source, element)
        for operation in source.operations:
            if not isinstance(operation, PathStep):
                return UNKNOWN
            found, _ = follow(found, operation.key)
        return found

    def element_of(self, over: Source) -> object:
        """Return the type of the elements of a map's collection, or `UNKNOWN`."""
        return item_type(self.type_of(over))

    def runs_user_code(self, source: Source, element: object = None) -> bool:
        """Tell whether resolving a source may call user code: a function, or a property."""
        if isinstance(source, Literal):
            return False
        if isinstance(source, Computed):
            return True
        found = self._root_type(source, element)
        for operation in source.operations:
            if not isinstance(operation, PathStep):
                return True
            found, plain = follow(found, operation.key)
            if not plain:
                return True
        return False

    def _root_type(self, source: Reference, element: object) -> object:
        root = source.root
        if isinstance(root, InputRoot):
            return self._contract.fields[root.name].annotation
        if isinstance(root, ElementRoot):
            return UNKNOWN if element is None else element
        if isinstance(root, IndexRoot):
            return int
        assert isinstance(root, StepRoot)
        return self._results[root.name]


def follow(annotation: object, key: object) -> tuple[object, bool]:
    """Return the type of the part `key` of a value, and whether reading it is free of user code."""
    results = [_follow_one(member, key) for member in members_of(annotation) if member is not None]
    if not results:
        return UNKNOWN, False
    kinds = tuple(found for found, _ in results)
    plain = all(free for _, free in results)
    return (UNKNOWN if UNKNOWN in kinds else Union[kinds]), plain  # noqa: UP007


def members_of(annotation: object) -> tuple[object, ...]:
    """Return the members of a union, or the annotation alone; `None` stands for `NoneType`."""
    while typing.get_origin(annotation) is Annotated:
        annotation = typing.get_args(annotation)[0]
    if isinstance(annotation, typing.NewType):
        return members_of(annotation.__supertype__)
    value = getattr(annotation, "__value__", None)
    if value is not None and type(annotation).__name__ == "TypeAliasType":
        return members_of(value)
    if typing.get_origin(annotation) in (Union, types.UnionType):
        return tuple(m for part in typing.get_args(annotation) for m in members_of(part))
    return (None,) if annotation in (None, type(None)) else (annotation,)


def item_type(annotation: object) -> object:
    """Return the type of the items of a collection, or `UNKNOWN`."""
    found = [_item_of(member) for member in members_of(annotation) if member is not None]
    if not found or UNKNOWN in found:
        return UNKNOWN
    return Union[tuple(found)]  # noqa: UP007


def _follow_one(annotation: object, key: object) -> tuple[object, bool]:
    origin = typing.get_origin(annotation) or annotation
    arguments = typing.get_args(annotation)
    if origin in (dict, Mapping):
        return (arguments[1] if len(arguments) == 2 else UNKNOWN), True
    if origin in (list, tuple, Sequence) and isinstance(key, slice):
        return annotation, True
    if origin in (list, Sequence, tuple) and isinstance(key, int):
        return _item_of(annotation), True
    if not isinstance(origin, type) or not isinstance(key, str):
        return UNKNOWN, False
    if is_typeddict(origin):
        return _hints(origin).get(key, UNKNOWN), True
    model_fields = getattr(origin, "__pydantic_fields__", None)
    if isinstance(model_fields, Mapping) and key in model_fields:
        return model_fields[key].annotation, True
    if dataclasses.is_dataclass(origin) and key in {f.name for f in dataclasses.fields(origin)}:
        return _hints(origin).get(key, UNKNOWN), True
    return UNKNOWN, False


def _item_of(annotation: object) -> object:
    origin = typing.get_origin(annotation)
    arguments = typing.get_args(annotation)
    if origin is tuple:
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return arguments[0]
        return UNKNOWN
    if len(arguments) != 1 or not isinstance(origin, type):
        return UNKNOWN
    return arguments[0] if hasattr(origin, "__iter__") else UNKNOWN


def _hints(cls: type) -> Mapping[str, object]:
    try:
        return typing.get_type_hints(cls)
    except (NameError, TypeError):
        return {}
