"""Single values: numbers, text, bytes, identifiers, paths, ranges, and instants."""

from __future__ import annotations

import base64
import math
import os
import re
import struct
from collections.abc import Callable
from decimal import Context, Decimal, InvalidOperation
from pathlib import PosixPath, PurePath, PurePosixPath, PureWindowsPath, WindowsPath
from typing import Any
from uuid import UUID, SafeUUID

from calandria.codec.format import MARK, Form, Rebuilds, Reduces, list_at, text_at, texts_at
from calandria.codec.instants import INSTANT_REBUILDERS, INSTANT_REDUCERS
from calandria.codec.refusal import Refusal
from calandria.errors import DecodingError

MAX_PLAIN_BITS = 2048
"""Python may be set to refuse decimal text of more than 640 digits; this many bits need 617."""

# JSON would read a high and a low surrogate side by side as one character
_SURROGATE_SEAM = re.compile("(?<=[\ud800-\udbff])(?=[\udc00-\udfff])")
_STRICT = Context(traps=[InvalidOperation])
_PATHS: dict[str, type[PurePath]] = {
    cls.__name__: cls for cls in (PurePosixPath, PureWindowsPath, PosixPath, WindowsPath)
}
_FOREIGN_PATHS: dict[str, type[PurePath]] = (
    {"PosixPath": PurePosixPath} if os.name == "nt" else {"WindowsPath": PureWindowsPath}
)
_PLAIN_NAN = struct.pack(">d", math.nan)


def is_plain_text(text: str) -> bool:
    """Tell whether JSON gives `text` back as it is."""
    return text.isascii() or _SURROGATE_SEAM.search(text) is None


def is_plain_int(number: int) -> bool:
    """Tell whether `number` is short enough to be written in decimal."""
    return number.bit_length() <= MAX_PLAIN_BITS


def _reduce_itself(value: Any, inner: Reduces) -> Form:
    return value  # type: ignore[no-any-return]


def _reduce_text(value: str, inner: Reduces) -> Form:
    if is_plain_text(value):
        return value
    parts: list[Form] = [*_SURROGATE_SEAM.split(value)]
    return {MARK: "str", "v": parts}


def _rebuild_text(form: dict[str, Form], inner: Rebuilds) -> str:
    return "".join(texts_at(form, "v"))


def _reduce_int(value: int, inner: Reduces) -> Form:
    return value if is_plain_int(value) else {MARK: "int", "v": hex(value)}


def _rebuild_int(form: dict[str, Form], inner: Rebuilds) -> int:
    return int(text_at(form, "v"), 16)


def _reduce_float(value: float, inner: Reduces) -> Form:
    if math.isfinite(value):
        return value
    if math.isinf(value):
        return {MARK: "float", "v": "inf" if value > 0 else "-inf"}
    stored = struct.pack(">d", value)
    return {MARK: "float", "v": "nan" if stored == _PLAIN_NAN else f"nan:{stored.hex()}"}


def _rebuild_float(form: dict[str, Form], inner: Rebuilds) -> float:
    text = text_at(form, "v")
    if text.startswith("nan:"):
        number: float = struct.unpack(">d", bytes.fromhex(text[4:]))[0]
        return number
    return float(text)


def _reduce_complex(value: complex, inner: Reduces) -> Form:
    return {MARK: "complex", "v": [inner.reduce(value.real), inner.reduce(value.imag)]}


def _rebuild_complex(form: dict[str, Form], inner: Rebuilds) -> complex:
    real, imaginary = (inner.rebuild(part) for part in list_at(form, "v"))
    if not isinstance(real, float) or not isinstance(imaginary, float):
        raise DecodingError("A recorded complex number is damaged: its parts are not floats.")
    return complex(real, imaginary)


def _reduce_decimal(value: Decimal, inner: Reduces) -> Form:
    return {MARK: "decimal", "v": str(value)}


def _rebuild_decimal(form: dict[str, Form], inner: Rebuilds) -> Decimal:
    # the context only says that bad text is an error: digits and exponent stay as written
    return Decimal(text_at(form, "v"), _STRICT)


def _reduce_uuid(value: UUID, inner: Reduces) -> Form:
    form: dict[str, Form] = {MARK: "uuid", "v": str(value)}
    if value.is_safe is not SafeUUID.unknown:
        form["safe"] = value.is_safe.value
    return form


def _rebuild_uuid(form: dict[str, Form], inner: Rebuilds) -> UUID:
    return UUID(text_at(form, "v"), is_safe=SafeUUID(form.get("safe")))


def _reduce_bytes(value: bytes | bytearray, inner: Reduces) -> Form:
    return {MARK: type(value).__name__, "v": base64.b64encode(value).decode("ascii")}


def _rebuild_bytes(form: dict[str, Form], inner: Rebuilds) -> bytes:
    return base64.b64decode(text_at(form, "v"), validate=True)


def _rebuild_bytearray(form: dict[str, Form], inner: Rebuilds) -> bytearray:
    return bytearray(_rebuild_bytes(form, inner))


def _reduce_path(value: PurePath, inner: Reduces) -> Form:
    text = str(value)
    if type(value)(text).parts != value.parts:
        raise Refusal(f"{value!r} cannot be written as text that means the same: return a str.")
    return {MARK: "path", "c": type(value).__name__, "v": inner.reduce(text)}


def _rebuild_path(form: dict[str, Form], inner: Rebuilds) -> PurePath:
    flavour, text = text_at(form, "c"), inner.rebuild(form.get("v"))
    if flavour not in _PATHS or not isinstance(text, str):
        raise DecodingError(f"A recorded path is damaged: {flavour!r}, {text!r}.")
    # the other system's paths cannot touch this one's files, but can be taken apart here
    return _FOREIGN_PATHS.get(flavour, _PATHS[flavour])(text)


def _reduce_range(value: range, inner: Reduces) -> Form:
    return {
        MARK: "range",
        "v": [inner.reduce(bound) for bound in (value.start, value.stop, value.step)],
    }


def _rebuild_range(form: dict[str, Form], inner: Rebuilds) -> range:
    bounds = [inner.rebuild(bound) for bound in list_at(form, "v")]
    numbers = [bound for bound in bounds if isinstance(bound, int)]
    if len(bounds) != 3 or len(numbers) != 3:
        raise DecodingError("A recorded range is damaged: it is not three whole numbers.")
    return range(*numbers)


SCALAR_REDUCERS: dict[type, Callable[[Any, Reduces], Form]] = {
    type(None): _reduce_itself,
    bool: _reduce_itself,
    str: _reduce_text,
    int: _reduce_int,
    float: _reduce_float,
    complex: _reduce_complex,
    Decimal: _reduce_decimal,
    UUID: _reduce_uuid,
    bytes: _reduce_bytes,
    bytearray: _reduce_bytes,
    **INSTANT_REDUCERS,
    range: _reduce_range,
    **dict.fromkeys(_PATHS.values(), _reduce_path),
}

SCALAR_REBUILDERS: dict[str, Callable[[dict[str, Form], Rebuilds], object]] = {
    "str": _rebuild_text,
    "int": _rebuild_int,
    "float": _rebuild_float,
    "complex": _rebuild_complex,
    "decimal": _rebuild_decimal,
    "uuid": _rebuild_uuid,
    "bytes": _rebuild_bytes,
    "bytearray": _rebuild_bytearray,
    **INSTANT_REBUILDERS,
    "path": _rebuild_path,
    "range": _rebuild_range,
}

IMMUTABLE_SCALARS: frozenset[type] = frozenset(SCALAR_REDUCERS) - {bytearray}
"""The exact types of single values that nobody can change."""
