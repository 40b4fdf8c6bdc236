"""How instances of the classes users write are taken apart, and put together without their code.

A shape belongs to one class. Taking apart reads the instance's own state, as it lies in `__dict__`
and slots; putting together writes it there, past `__init__`, `__post_init__` and validators.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from enum import Enum, Flag
from typing import Any, Protocol

from pydantic import BaseModel

from calandria.codec.containers import reduce_attributes
from calandria.codec.enums import EnumShape, FlagShape
from calandria.codec.fields import (
    Default,
    InstanceState,
    constant,
    field_defaults,
    fill,
    from_factory,
    optional_mapping,
    rebuild_attributes,
)
from calandria.codec.format import Form, Rebuilds, Reduces, mapping_at, texts_at
from calandria.codec.models import ModelShape
from calandria.codec.refusal import Refusal, class_name, hook_hint
from calandria.errors import DecodingError


class Shape(Protocol):
    """How instances of one class are taken apart and put together."""

    @property
    def tag(self) -> str:
        """The tag of its forms."""
        ...

    def reduce(self, value: Any, inner: Reduces) -> dict[str, Form]:
        """Return the keys of the form besides tag and class; raises `Refusal`."""
        ...

    def rebuild(self, form: dict[str, Form], inner: Rebuilds) -> object:
        """Return an instance; raises `Unfit` if the class has changed too much."""
        ...


class DataclassShape:
    """A dataclass: fields by name, and whatever else was set on the instance."""

    tag = "dataclass"

    def __init__(self, cls: type) -> None:
        object.__new__(cls)  # a TypeError here, while learning it, tells that it cannot be rebuilt
        self._cls = cls
        self._state = InstanceState(cls)
        self._names = tuple(field.name for field in dataclasses.fields(cls))
        self._defaults = _dataclass_defaults(cls)

    def reduce(self, value: Any, inner: Reduces) -> dict[str, Form]:
        """Return the fields and other attributes."""
        state = self._state.read(value)
        fields = {name: state.pop(name) for name in self._names if name in state}
        form: dict[str, Form] = {"v": reduce_attributes(fields, inner)}
        if state:
            form["x"] = reduce_attributes(state, inner)
        if len(fields) < len(self._names):
            form["u"] = [name for name in self._names if name not in fields]
        return form

    def rebuild(self, form: dict[str, Form], inner: Rebuilds) -> object:
        """Return an instance; new fields get their defaults, dropped fields are left out."""
        others = rebuild_attributes(optional_mapping(form, "x"), inner)
        state = {**others, **rebuild_attributes(mapping_at(form, "v"), inner)}
        unset = texts_at(form, "u") if "u" in form else []
        names = tuple(name for name in self._names if name in state or name not in unset)
        instance: object = object.__new__(self._cls)
        self._state.write(instance, {**fill(state, names, self._defaults), **others})
        return instance


def _dataclass_defaults(cls: type) -> dict[str, Default]:
    if pydantic_fields := getattr(cls, "__pydantic_fields__", None):
        return field_defaults(pydantic_fields)
    defaults: dict[str, Default] = {}
    for field in dataclasses.fields(cls):
        if field.default is not dataclasses.MISSING:
            defaults[field.name] = constant(field.default)
        elif field.default_factory is not dataclasses.MISSING:
            defaults[field.name] = from_factory(field.default_factory)
    return defaults


class NamedTupleShape:
    """A named tuple: fields by name."""

    tag = "namedtuple"

    def __init__(self, cls: type[tuple[object, ...]]) -> None:
        self._cls = cls
        self._names: tuple[str, ...] = tuple(getattr(cls, "_fields", ()))
        constants: Mapping[str, object] = getattr(cls, "_field_defaults", {})
        self._defaults = {name: constant(value) for name, value in constants.items()}

    def reduce(self, value: Any, inner: Reduces) -> dict[str, Form]:
        """Return the fields."""
        if getattr(value, "__dict__", None) or len(value) != len(self._names):
            raise Refusal(
                f"this {class_name(self._cls)} has more to it than its fields: use a dataclass."
            )
        fields = dict(zip(self._names, tuple.__iter__(value), strict=True))
        return {"v": reduce_attributes(fields, inner)}

    def rebuild(self, form: dict[str, Form], inner: Rebuilds) -> object:
        """Return a tuple; new fields get their defaults, dropped fields are left out."""
        recorded = rebuild_attributes(mapping_at(form, "v"), inner)
        return tuple.__new__(self._cls, fill(recorded, self._names, self._defaults).values())


class HookShape:
    """A class with functions of its user's to take it apart and put it together."""

    tag = "custom"

    def __init__(
        self, cls: type, encode: Callable[[Any], object], decode: Callable[[Any], object]
    ) -> None:
        self._cls = cls
        self._encode = encode
        self._decode = decode

    def reduce(self, value: Any, inner: Reduces) -> dict[str, Form]:
        """Return what the registered `encode` makes of it."""
        try:
            encoded = self._encode(value)
        except Exception as error:
            raise Refusal(
                f"the encode registered for {class_name(self._cls)} raised "
                f"{type(error).__name__}: {error}"
            ) from error
        return {"v": inner.reduce(encoded)}

    def rebuild(self, form: dict[str, Form], inner: Rebuilds) -> object:
        """Return what the registered `decode` makes of it."""
        encoded = inner.rebuild(form.get("v"))
        try:
            return self._decode(encoded)
        except Exception as error:
            raise DecodingError(
                f"The decode registered for {class_name(self._cls)} raised "
                f"{type(error).__name__}: {error}"
            ) from error


def shape_of(cls: type) -> Shape | None:
    """Return how to record instances of `cls`, or `None` if it is not a class for it.

    Raises `Refusal` for a dataclass that cannot be rebuilt from its fields.
    """
    if issubclass(cls, BaseException):
        return None
    if issubclass(cls, Enum):
        return FlagShape(cls) if issubclass(cls, Flag) else EnumShape(cls)
    if issubclass(cls, BaseModel):
        return ModelShape(cls)
    if dataclasses.is_dataclass(cls):
        return _dataclass_shape(cls)
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        return NamedTupleShape(cls)
    return None


def _dataclass_shape(cls: type) -> Shape:
    try:
        return DataclassShape(cls)
    except TypeError as error:
        raise Refusal(
            f"{class_name(cls)} is a dataclass built on a class that is more than its fields "
            f"({error}): {hook_hint(cls)}."
        ) from error
