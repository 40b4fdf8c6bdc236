"""The statements of `statements.sql`, read once: each under its name, with the others it uses."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.resources import files

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_USE = re.compile(r"\{(\w+)\}")


def parse_statements(text: str) -> dict[str, str]:
    """Return the statements in `text` by name, comments removed and `{name}` uses filled in.

    Raises `KeyError` when a statement uses one that does not stand before it.
    """
    found: dict[str, str] = {}
    parts = _NAME.split(text)
    for name, body in zip(parts[1::2], parts[2::2], strict=True):
        lines = [line for line in body.splitlines() if line and not line.startswith("--")]
        found[name] = _USE.sub(lambda use: found[use[1]], "\n".join(lines))
    return found


def _load() -> Mapping[str, str]:
    return parse_statements((files(__package__) / "statements.sql").read_text(encoding="utf-8"))


STATEMENTS: Mapping[str, str] = _load()
