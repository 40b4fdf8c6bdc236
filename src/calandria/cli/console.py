"""Where the command line writes: no colour or cursor movement unless a terminal can show it."""

from __future__ import annotations

import json
import os
import sys
import unicodedata
from collections.abc import Iterable, Sized
from typing import TextIO

from pydantic_core import to_jsonable_python
from rich.console import Console, RenderableType

_PIPE_WIDTH = 1000
"""Columns of output that is not a terminal: wide, so that no line of a table is broken."""


def out() -> Console:
    """Return a console on standard output."""
    return _console(sys.stdout)


def err() -> Console:
    """Return a console on standard error."""
    return _console(sys.stderr)


def is_terminal(stream: TextIO) -> bool:
    """Tell whether `stream` is a terminal that can be redrawn."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def _console(stream: TextIO) -> Console:
    # a character the terminal's encoding lacks must not cost the whole output
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="replace")
    terminal = is_terminal(stream)
    plain = not terminal or bool(os.environ.get("NO_COLOR"))
    return Console(
        file=stream,
        force_terminal=terminal,
        color_system=None if plain else "auto",
        width=None if terminal else _PIPE_WIDTH,
        markup=False,
        emoji=False,
        highlight=False,
    )


def print_block(console: Console, block: RenderableType) -> None:
    """Write a table or a tree, without the blanks that fill its lines where nothing needs them."""
    if console.is_terminal:
        console.print(block)
        return
    with console.capture() as captured:
        console.print(block)
    console.file.writelines(f"{line.rstrip()}\n" for line in captured.get().splitlines())


def print_json(data: object) -> None:
    """Write `data` as one JSON document to standard output."""
    sys.stdout.write(json.dumps(jsonable(data), indent=2, allow_nan=False) + "\n")


def jsonable(value: object) -> object:
    """Return `value` as what JSON can hold; other objects become text."""
    try:
        return to_jsonable_python(
            value, bytes_mode="base64", inf_nan_mode="strings", fallback=_fallback
        )
    except ValueError:  # it holds itself, or text that is no text
        return _shown(value)


def _fallback(value: object) -> object:
    if isinstance(value, Iterable) and isinstance(value, Sized):
        return list(value)
    return _shown(value)


def _shown(value: object) -> str:
    try:
        return str(value)
    except Exception:  # a broken __str__ must not hide the rest
        return f"<{type(value).__name__}>"


def one_line(text: object) -> str:
    """Return text on one line, without control characters: it may come from anywhere."""
    return "".join(
        char
        if unicodedata.category(char) not in ("Cc", "Cf", "Cs", "Zl", "Zp")
        else " "
        if char in "\n\t"
        else char.encode("unicode_escape", "surrogatepass").decode("ascii")
        for char in _shown(text)
    )


def brief(value: object, longest: int = 200) -> str:
    """Return a value as one line of at most `longest` characters."""
    found = jsonable(value)
    text = one_line(found if isinstance(found, str) else json.dumps(found, ensure_ascii=False))
    return text if len(text) <= longest else text[: longest - 1] + "…"
