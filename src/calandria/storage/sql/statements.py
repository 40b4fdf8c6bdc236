"""The statements of `statements.sql`, read once: each under its name, with the others it uses."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.resources import files
from operator import itemgetter
from typing import TypeAlias

Value: TypeAlias = str | int | float | None
Values: TypeAlias = Mapping[str, Value]

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_USE = re.compile(r"\{(\w+)\}")
_PARAMETER = re.compile(r"(?<![:\w]):([a-z]\w*)")


class Statement:
    """A statement with its parameters numbered, and the way to put values in their order.

    Drivers bind numbered parameters in half the time that named ones take.
    """

    __slots__ = ("_bind", "names", "source", "text")

    def __init__(self, source: str) -> None:
        self.source = source
        self.names = tuple(dict.fromkeys(_PARAMETER.findall(source)))
        places = {name: f"?{place}" for place, name in enumerate(self.names, start=1)}
        self.text = _PARAMETER.sub(lambda parameter: places[parameter[1]], source)
        # itemgetter gives a tuple only for two names or more
        self._bind = itemgetter(*self.names) if len(self.names) > 1 else None

    def bind(self, values: Values) -> tuple[Value, ...]:
        """Return the values of the parameters in order; raises `KeyError` if one is missing."""
        if self._bind is None:
            return tuple(values[name] for name in self.names)
        bound: tuple[Value, ...] = self._bind(values)
        return bound


def parse_statements(text: str) -> dict[str, Statement]:
    """Return the statements in `text` by name, comments removed and `{name}` uses filled in.

    Raises `KeyError` when a statement uses one that does not stand before it.
    """
    found: dict[str, Statement] = {}
    parts = _NAME.split(text)
    for name, body in zip(parts[1::2], parts[2::2], strict=True):
        lines = [line for line in body.splitlines() if line and not line.startswith("--")]
        source = _USE.sub(lambda use: found[use[1]].source, "\n".join(lines))
        found[name] = Statement(source)
    return found


def _load() -> Mapping[str, Statement]:
    return parse_statements(
        (files("calandria.storage.sql") / "statements.sql").read_text(encoding="utf-8")
    )


STATEMENTS: Mapping[str, Statement] = _load()
