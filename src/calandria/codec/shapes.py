"""How instances of the classes users write are taken apart, and put together without their code.

A shape belongs to one class. Taking apart reads the instance's own state, as it lies in `__dict__`
and slots; putting together writes it there, past `__init__`, `__post_init__` and validators.
"""

from __future__ import annotations

import dataclasses
import functools
import types
from collections.abc import Callable, Mapping
from enum import Enum, Flag
from typing import Any, Protocol

from pydantic import BaseModel
from pydantic.fields import FieldInfo, ModelPrivateAttr
from pydantic_core import PydanticUndefined

from calandria.codec.containers import reduce_attributes
from calandria.codec.format import Form, Rebuilds, Reduces, mapping_at, text_at, texts_at
from calandria.codec.refusal import Refusal, class_name, describe, hook_hint
from calandria.errors import DecodingError

Default = Callable[[Mapping[str, object]], object]
"""Makes the value of a field that was not recorded, from those of the other fields."""


class Unfit(Exception):
    """What was recorded no longer fits its class."""


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


class InstanceState:
    """The attributes an instance of `cls` holds itself, in `__dict__` and in slots."""

    def __init__(self, cls: type, hidden: tuple[str, ...] = ()) -> None:
        self._cls = cls
        # typing leaves `__orig_class__` behind on `Box[int](...)`
        self._derived = {"__orig_class__"}
        self._slots: dict[str, types.MemberDescriptorType] = {}
        for base in cls.__mro__:
            for name, found in vars(base).items():
                if isinstance(found, types.MemberDescriptorType) and name not in hidden:
                    self._slots.setdefault(name, found)
                if isinstance(found, functools.cached_property):
                    self._derived.add(name)

    def read(self, instance: object) -> dict[str, object]:
        """Return the attributes by name, without what is computed from the others."""
        state = {
            name: value
            for name, value in getattr(instance, "__dict__", {}).copy().items()
            if name not in self._derived
        }
        for name, slot in self._slots.items():
            try:
                state[name] = slot.__get__(instance, self._cls)
            except AttributeError:
                continue
        return state

    def write(self, instance: object, state: Mapping[str, object]) -> None:
        """Set the attributes; those the class has no room for are left out."""
        attributes = getattr(instance, "__dict__", None)
        for name, value in state.items():
            if name in self._slots:
                self._slots[name].__set__(instance, value)
            elif attributes is not None:
                attributes[name] = value


def _rebuilt(forms: Mapping[str, Form], inner: Rebuilds) -> dict[str, object]:
    return {name: inner.rebuild(form) for name, form in forms.items()}


def _optional_mapping(form: dict[str, Form], key: str) -> dict[str, Form]:
    return mapping_at(form, key) if key in form else {}


def _fill(
    state: dict[str, object], names: tuple[str, ...], defaults: Mapping[str, Default]
) -> dict[str, object]:
    """Give every field in `names` a value, in their order; raises `Unfit` if one has none."""
    for name in names:
        if name in state:
            continue
        if name not in defaults:
            raise Unfit(f"field {name!r} was not recorded and has no default")
        try:
            state[name] = defaults[name](state)
        except Exception as error:
            raise Unfit(f"the default of field {name!r} cannot be made: {error}") from error
    return {name: state[name] for name in names}


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
        others = _rebuilt(_optional_mapping(form, "x"), inner)
        state = {**others, **_rebuilt(mapping_at(form, "v"), inner)}
        unset = texts_at(form, "u") if "u" in form else []
        names = tuple(name for name in self._names if name in state or name not in unset)
        instance: object = object.__new__(self._cls)
        self._state.write(instance, {**_fill(state, names, self._defaults), **others})
        return instance


def _constant(value: object) -> Default:
    return lambda state: value


def _from_factory(factory: Callable[[], object]) -> Default:
    return lambda state: factory()


def _from_field(field: FieldInfo | ModelPrivateAttr) -> Default:
    return lambda state: field.get_default(call_default_factory=True, validated_data=dict(state))


def _dataclass_defaults(cls: type) -> dict[str, Default]:
    if pydantic_fields := getattr(cls, "__pydantic_fields__", None):
        return _field_defaults(pydantic_fields)
    defaults: dict[str, Default] = {}
    for field in dataclasses.fields(cls):
        if field.default is not dataclasses.MISSING:
            defaults[field.name] = _constant(field.default)
        elif field.default_factory is not dataclasses.MISSING:
            defaults[field.name] = _from_factory(field.default_factory)
    return defaults


def _field_defaults(fields: Mapping[str, FieldInfo]) -> dict[str, Default]:
    return {name: _from_field(field) for name, field in fields.items() if not field.is_required()}


class ModelShape:
    """A pydantic model: fields, which of them were set, extra and private attributes."""

    tag = "model"

    def __init__(self, cls: type[BaseModel]) -> None:
        self._cls = cls
        self._state = InstanceState(cls, hidden=BaseModel.__slots__)
        self._names = tuple(cls.model_fields)
        self._defaults = _field_defaults(cls.model_fields)

    def reduce(self, value: Any, inner: Reduces) -> dict[str, Form]:
        """Return the fields and everything pydantic keeps beside them."""
        state = self._state.read(value)
        fields = {name: state.pop(name) for name in self._names if name in state}
        form: dict[str, Form] = {"v": reduce_attributes(fields, inner)}
        set_names: set[str] = value.__pydantic_fields_set__
        if set_names != fields.keys():
            form["s"] = [*sorted(set_names)]
        if (extra := getattr(value, "__pydantic_extra__", None)) is not None:
            form["e"] = reduce_attributes(extra, inner)
        if self._cls.__private_attributes__:
            private = getattr(value, "__pydantic_private__", None)
            form["p"] = None if private is None else reduce_attributes(private, inner)
        if state:
            form["x"] = reduce_attributes(state, inner)
        return form

    def rebuild(self, form: dict[str, Form], inner: Rebuilds) -> object:
        """Return a model, not validated; new fields get their defaults and count as not set."""
        recorded = _rebuilt(mapping_at(form, "v"), inner)
        set_names = set(texts_at(form, "s") if "s" in form else recorded)
        others = _rebuilt(_optional_mapping(form, "x"), inner)
        model = object.__new__(self._cls)
        fields = _fill(recorded, self._names, self._defaults)
        object.__setattr__(model, "__dict__", fields)
        self._state.write(model, others)
        extra = self._extra(form, inner)
        known = set_names & {*self._names, *(extra or {})}
        object.__setattr__(model, "__pydantic_fields_set__", known)
        object.__setattr__(model, "__pydantic_extra__", extra)
        object.__setattr__(model, "__pydantic_private__", self._private(form, inner))
        return model

    def _extra(self, form: dict[str, Form], inner: Rebuilds) -> dict[str, object] | None:
        if self._cls.model_config.get("extra") != "allow":
            return None
        return _rebuilt(_optional_mapping(form, "e"), inner)

    def _private(self, form: dict[str, Form], inner: Rebuilds) -> dict[str, object] | None:
        declared = self._cls.__private_attributes__
        if not declared or ("p" in form and form["p"] is None):
            return None
        recorded = _rebuilt(_optional_mapping(form, "p"), inner)
        defaults: dict[str, Default] = {
            name: _from_field(attribute)
            for name, attribute in declared.items()
            if attribute.default is not PydanticUndefined or attribute.default_factory
        }
        known = tuple(name for name in declared if name in recorded or name in defaults)
        return _fill(recorded, known, defaults)


class NamedTupleShape:
    """A named tuple: fields by name."""

    tag = "namedtuple"

    def __init__(self, cls: type[tuple[object, ...]]) -> None:
        self._cls = cls
        self._names: tuple[str, ...] = tuple(getattr(cls, "_fields", ()))
        constants: Mapping[str, object] = getattr(cls, "_field_defaults", {})
        self._defaults = {name: _constant(value) for name, value in constants.items()}

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
        recorded = _rebuilt(mapping_at(form, "v"), inner)
        return tuple.__new__(self._cls, _fill(recorded, self._names, self._defaults).values())


class EnumShape:
    """An enumeration: the member's name, so that its value may change."""

    tag = "enum"

    def __init__(self, cls: type[Enum]) -> None:
        self._cls = cls

    def reduce(self, value: Any, inner: Reduces) -> dict[str, Form]:
        """Return the member's name."""
        name: str = value._name_
        if self._cls.__members__.get(name) is not value:
            raise Refusal(f"{describe(value)} is not a member that can be found by its name.")
        return {"v": name}

    def rebuild(self, form: dict[str, Form], inner: Rebuilds) -> object:
        """Return the member; raises `Unfit` if there is none of that name."""
        name = text_at(form, "v")
        if name not in self._cls.__members__:
            raise Unfit(f"there is no member {name!r}")
        return self._cls.__members__[name]


class FlagShape:
    """A flag: the names of the members it combines."""

    tag = "flag"

    def __init__(self, cls: type[Flag]) -> None:
        self._cls = cls

    def reduce(self, value: Any, inner: Reduces) -> dict[str, Form]:
        """Return the members' names, and the bits that have none."""
        known = value._name_ in self._cls.__members__
        names = [value._name_] if known else [member._name_ for member in value]
        rest = value._value_ & ~self._bits(names)
        form: dict[str, Form] = {"v": [*names]}
        if rest:
            form["r"] = inner.reduce(rest)
        if self._cls(self._bits(names) | rest) is not value:
            raise Refusal(f"{describe(value)} cannot be put together again from its members.")
        return form

    def rebuild(self, form: dict[str, Form], inner: Rebuilds) -> object:
        """Return the combination; raises `Unfit` if a member or a bit is gone."""
        names, rest = texts_at(form, "v"), inner.rebuild(form.get("r", 0))
        missing = [name for name in names if name not in self._cls.__members__]
        if missing or not isinstance(rest, int):
            raise Unfit(f"there are no members {missing}")
        try:
            flag: object = self._cls(self._bits(names) | rest)
        except ValueError as error:
            raise Unfit(str(error)) from error
        if not isinstance(flag, self._cls):
            raise Unfit(f"{rest} is not a combination of members")
        return flag

    def _bits(self, names: list[str]) -> int:
        bits = 0
        for name in names:
            bits |= self._cls.__members__[name]._value_
        return bits


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
