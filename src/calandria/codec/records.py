"""What a value comes back as when its class is not known, or no longer fits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NoReturn

from calandria.codec.format import Form


class Record:
    """A recorded instance of a class that cannot be rebuilt here; it cannot be changed.

    Fields are read by attribute or by item (an enumeration's member has `name`, a flag `names`, a
    registered type `value`); a field called `type_name` only by item. Iterating gives the names.
    Recorded again, it gives the text it came from. Two are equal if they were recorded the same.
    """

    __slots__ = ("_fields", "_form", "type_name")

    _fields: Mapping[str, object]
    _form: dict[str, Form]
    type_name: str
    """The class it was an instance of: `module:qualname`, or the name it was registered under."""

    def __init__(self, type_name: str, fields: Mapping[str, object], form: dict[str, Form]) -> None:
        object.__setattr__(self, "type_name", type_name)
        object.__setattr__(self, "_fields", MappingProxyType(dict(fields)))
        object.__setattr__(self, "_form", form)

    def __getattr__(self, name: str) -> object:
        # by `object`, or copying a half-made instance would look for `_fields` for ever
        fields = object.__getattribute__(self, "_fields")
        if name in fields:
            return fields[name]
        raise AttributeError(
            f"The record of a {self.type_name} has no field {name!r}; it has: "
            f"{', '.join(fields) or 'none'}."
        )

    def __getitem__(self, name: str) -> object:
        return self._fields[name]

    def __contains__(self, name: object) -> bool:
        return name in self._fields

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __bool__(self) -> bool:
        return True

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"The record of a {self.type_name} cannot be changed.")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"The record of a {self.type_name} cannot be changed.")

    def __eq__(self, other: object) -> bool:
        return self._form == other._form if isinstance(other, Record) else NotImplemented

    def __hash__(self) -> int:
        # of what is always hashable: the fields may hold lists
        return hash((self.type_name, tuple(self._fields)))

    def __reduce__(self) -> tuple[object, ...]:
        return Record, (self.type_name, dict(self._fields), self._form)

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self._fields.items())
        return f"<Record of {self.type_name}({shown})>"


def form_of(record: Record) -> dict[str, Form]:
    """Return the form that `record` was read from."""
    return record._form
