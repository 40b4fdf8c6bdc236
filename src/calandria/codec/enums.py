"""How members of enumerations and combinations of flags are taken apart and put together."""

from __future__ import annotations

from enum import Enum, Flag
from typing import Any

from calandria.codec.fields import Unfit
from calandria.codec.format import Form, Rebuilds, Reduces, text_at, texts_at
from calandria.codec.refusal import Refusal, describe


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
