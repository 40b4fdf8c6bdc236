"""The named parts of an instance: reading them, writing them, and filling those that are new."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Mapping

from pydantic.fields import FieldInfo, ModelPrivateAttr

from calandria.codec.format import Form, Rebuilds, mapping_at

Default = Callable[[Mapping[str, object]], object]
"""Makes the value of a field that was not recorded, from those of the other fields."""


class Unfit(Exception):
    """What was recorded no longer fits its class."""


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


def rebuild_attributes(forms: Mapping[str, Form], inner: Rebuilds) -> dict[str, object]:
    """Return the values of `forms`, by name."""
    return {name: inner.rebuild(form) for name, form in forms.items()}


def optional_mapping(form: dict[str, Form], key: str) -> dict[str, Form]:
    """Return the object under `key`, empty if there is none."""
    return mapping_at(form, key) if key in form else {}


def fill(
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


def constant(value: object) -> Default:
    """Return a default that is always `value`."""
    return lambda state: value


def from_factory(factory: Callable[[], object]) -> Default:
    """Return a default that `factory` makes."""
    return lambda state: factory()


def from_field(field: FieldInfo | ModelPrivateAttr) -> Default:
    """Return the default that a pydantic field declares."""
    return lambda state: field.get_default(call_default_factory=True, validated_data=dict(state))


def field_defaults(fields: Mapping[str, FieldInfo]) -> dict[str, Default]:
    """Return the defaults of those fields that have one, by name."""
    return {name: from_field(field) for name, field in fields.items() if not field.is_required()}
