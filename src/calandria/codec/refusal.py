"""Why a value cannot be recorded, and what its author can do about it."""

from __future__ import annotations

import functools
import json
import types

_PLAIN = (str, bytes, bytearray, int, float, complex, list, tuple, dict, set, frozenset)
_CODE = (
    type,
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    types.ModuleType,
    functools.partial,
)


class Refusal(Exception):
    """A value cannot be recorded; `segments` grow outward from where it stands."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.segments: list[str] = []

    @property
    def path(self) -> str:
        """Where in the value it stands, like `["lines"][3].price`; empty for the value itself."""
        return "".join(reversed(self.segments))


def item_segment(key: object) -> str:
    """Return the segment of a path for the item under `key`."""
    return f"[{_shortened(json.dumps(key)) if type(key) is str else describe(key)}]"


def describe(value: object) -> str:
    """Return a short text for `value`, even when its `__repr__` is broken."""
    try:
        text = repr(value)
    except Exception:
        return f"<{class_name(type(value))}>"
    return _shortened(text)


def _shortened(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."


def class_name(cls: type) -> str:
    """Return the full name of `cls` for a message."""
    if cls.__module__ == "builtins":
        return cls.__qualname__
    return f"{cls.__module__}.{cls.__qualname__}"


def hook_hint(cls: type) -> str:
    """Return how to register `cls` with functions of its own."""
    return f"register it with calandria.register({cls.__name__}, encode=..., decode=...)"


def explain(cls: type) -> str:
    """Return why an instance of `cls` is refused, and the fix."""
    name = class_name(cls)
    if issubclass(cls, _CODE):
        return f"{name} is code, not data: return what it computes."
    for plain in _PLAIN:
        if issubclass(cls, plain):
            return (
                f"{name} is a subclass of {plain.__name__} and would come back as a plain one: "
                f"return {plain.__name__}(value), or {hook_hint(cls)}."
            )
    if hasattr(cls, "__next__"):
        return f"{name} is used up by reading it: return list(value)."
    return (
        f"{name} is not a kind of value that can be recorded: return a dict or a dataclass of "
        f"what later steps need, or {hook_hint(cls)}."
    )
