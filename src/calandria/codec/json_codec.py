"""The codec of the journal: values to ASCII JSON and back."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from types import NoneType
from typing import Any

from calandria.codec.decoding import Rebuilder
from calandria.codec.encoding import Reducer
from calandria.codec.format import MARK, Form
from calandria.codec.refusal import Refusal
from calandria.codec.registry import TypeRegistry
from calandria.codec.scalars import is_plain_int
from calandria.errors import DecodingError, EncodingError

DEFAULT_MAX_BYTES = 16 * 1024 * 1024

_MARKED = f'"{MARK}"'


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


_write = json.JSONEncoder(check_circular=False, allow_nan=False, separators=(",", ":")).encode
_read = json.JSONDecoder(parse_constant=_refuse_constant).decode
_quoted = json.encoder.encode_basestring_ascii


class JsonCodec:
    """Turns values into text for the journal and back; `calandria.codec.format` says how.

    Args:
        registry: the classes that may be rebuilt; a class met while encoding is added to it.
        max_bytes: how long the text of one value may be.
    """

    def __init__(self, registry: TypeRegistry, max_bytes: int = DEFAULT_MAX_BYTES) -> None:
        self._registry = registry
        self._max_bytes = max_bytes

    def encode(self, value: object) -> str:
        """Return `value` as text.

        Raises `EncodingError`, with the `path` of the part that is at fault and what to do about
        it, when it cannot be recorded so that it comes back the same, or is longer than the limit.
        """
        text = _plain_text(value)
        if text is None:
            form = self._reduce(value)
            try:
                text = _write(form)
            except RecursionError:
                raise _too_deep() from None
        if len(text) > self._max_bytes:
            raise EncodingError(
                f"Cannot record the value: it takes {_size(len(text))}, and the limit is "
                f"{_size(self._max_bytes)}. Keep it elsewhere and return where it is, or raise "
                "max_value_bytes in the Settings."
            )
        return text

    def decode(self, text: str) -> object:
        """Return a fresh value equal to the one recorded; never imports, never runs stored code.

        An instance of a class that is not known, or no longer fits, comes back as a `Record`.
        Raises `DecodingError` for text that is damaged or from a newer version.
        """
        try:
            form: Form = _read(text)
        except (ValueError, RecursionError) as error:
            raise DecodingError(f"A recorded value is damaged: {error}.") from error
        if _MARKED not in text:
            return form
        try:
            return Rebuilder(self._registry).rebuild(form)
        except (DecodingError, MemoryError):
            raise
        except Exception as error:
            # damaged forms fail in as many ways as there are constructors, and a user's decode,
            # default factory or `__hash__` may raise anything
            raise DecodingError(
                f"A recorded value cannot be read back: {type(error).__name__}: {error}."
            ) from error

    def _reduce(self, value: object) -> Form:
        try:
            return Reducer(self._registry).reduce(value)
        except Refusal as refusal:
            where = f" at {refusal.path}" if refusal.path else ""
            raise EncodingError(
                f"Cannot record the value{where}: {refusal.reason}", path=refusal.path
            ) from refusal.__cause__
        except RecursionError:
            raise _too_deep() from None


def _plain_text(value: object) -> str | None:
    """Return the JSON of a value, or a dict of such, that stands as itself; `None` for any other.

    A step's inputs and its result are that more often than not, and this is all that they cost.
    """
    if type(value) is not dict:
        return _scalar_text(value)
    if MARK in value:
        return None
    parts: list[str] = []
    for key, item in value.copy().items():
        text = _scalar_text(item)
        if text is None or type(key) is not str or not key.isascii():
            return None
        parts.append(f"{_quoted(key)}:{text}")
    return f"{{{','.join(parts)}}}"


def _scalar_text(value: object) -> str | None:
    write = _SCALAR_WRITERS.get(type(value))
    return None if write is None else write(value)


_SCALAR_WRITERS: dict[type, Callable[[Any], str | None]] = {
    str: lambda text: _quoted(text) if text.isascii() else None,
    int: lambda number: repr(number) if is_plain_int(number) else None,
    float: lambda number: repr(number) if math.isfinite(number) else None,
    bool: lambda truth: "true" if truth else "false",
    NoneType: lambda _: "null",
}


def _too_deep() -> EncodingError:
    return EncodingError("Cannot record the value: it is nested too deep. Make it flatter.")


def _size(count: int) -> str:
    if count < 1024 * 1024:
        return f"{count:,} bytes"
    return f"{count / 1024 / 1024:.1f} MiB"
