"""Keys: a template over validated inputs, or a function that receives them as attributes."""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from calandria.errors import DefinitionError, KeyUnusable
from calandria.results import describe_exception

Key: TypeAlias = str | Callable[[Any], str]

LONGEST_KEY = 512
"""Characters."""

_formatter = string.Formatter()


class KeyInputs:
    """The validated inputs, as attributes; a redacted one may not become part of a key."""

    __slots__ = ("_redacted", "_values")

    def __init__(self, values: Mapping[str, Any], redacted: frozenset[str]) -> None:
        self._values = values
        self._redacted = redacted

    def __getattr__(self, name: str) -> Any:
        if name in self._redacted:
            raise KeyUnusable(f"the input {name!r} is redacted: a key would show it")
        try:
            return self._values[name]
        except KeyError:
            raise AttributeError(f"there is no input {name!r}") from None


def fields_of(template: str) -> frozenset[str]:
    """Return the inputs that a template uses; raises `DefinitionError` if it is none."""
    try:
        parsed = list(_formatter.parse(template))
    except ValueError as error:
        raise DefinitionError(f"the key {template!r} is no template: {error}.") from None
    found: set[str] = set()
    for _, field, _, _ in parsed:
        if field is None:
            continue
        name = field.partition(".")[0].partition("[")[0]
        if not name or name.isdigit():
            raise DefinitionError(
                f"the key {template!r} has a field without a name: write an input's, as in "
                "'stock:{product_id}'."
            )
        found.add(name)
    return frozenset(found)


def compute_key(key: Key, values: Mapping[str, Any], redacted: frozenset[str]) -> str:
    """Return the key for these inputs.

    Raises `KeyUnusable` when it cannot be computed, is not text, is empty, or is too long.
    """
    try:
        if isinstance(key, str):
            found: object = _formatter.vformat(key, (), values)
        else:
            found = key(KeyInputs(values, redacted))
    except KeyUnusable:
        raise
    except Exception as error:
        raise KeyUnusable(
            f"its key raised {type(error).__name__}: {describe_exception(error)}"
        ) from error
    if not isinstance(found, str):
        raise KeyUnusable(f"its key is {found!r}, not text")
    if not found.strip():
        raise KeyUnusable("its key is empty")
    if len(found) > LONGEST_KEY:
        raise KeyUnusable(f"its key has {len(found)} characters; at most {LONGEST_KEY} are allowed")
    if isinstance(key, str) and any(values.get(name) is None for name in fields_of(key)):
        missing = sorted(name for name in fields_of(key) if values.get(name) is None)
        raise KeyUnusable(f"its key {key!r} uses {', '.join(missing)}, which is None")
    return found
