"""Formatters that write any log record as one line a machine can read."""

from __future__ import annotations

import json
import logging
import math
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

FIELDS = "calandria"
"""The attribute under which a record of this library carries its fields."""

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", FIELDS}
_BARE = re.compile(r"[A-Za-z0-9_.:/@+#,()\[\]-]+")
_KEY_BREAKS = re.compile(r"[^A-Za-z0-9_.-]+")
_DEEPEST = 8


class KeyValueFormatter(logging.Formatter):
    """Writes `time=… level=… logger=… event=…`, one line per record.

    A value with anything but letters, digits and a few signs in it is quoted, and what is not
    printable in it is escaped as in JSON. Fields a caller passed in `extra=` follow as they are
    named. A traceback stands in one quoted value.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line for `record`, without a line break in it."""
        return key_values(_record_fields(self, record))


class JsonFormatter(logging.Formatter):
    """Writes one JSON object per line, in ASCII; numbers, lists and mappings keep their kind.

    What JSON has no form for stands as text: an instant in ISO 8601, NaN as "nan", any other
    object as `str` gives it.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line for `record`, without a line break in it."""
        return json.dumps(plain(dict(_record_fields(self, record))), allow_nan=False)


def key_values(fields: Iterable[tuple[str, object]]) -> str:
    """Return fields as `key=value` pairs on one line."""
    return " ".join(f"{_KEY_BREAKS.sub('_', key)}={_quoted(value)}" for key, value in fields)


def plain(value: object, depth: int = 0) -> Any:
    """Return `value` as what JSON can hold; whatever it cannot becomes text."""
    if value is None or isinstance(value, (bool, str)):
        return str(value) if isinstance(value, str) else value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(float(value))
    if isinstance(value, datetime):
        return value.isoformat()
    if depth < _DEEPEST:
        if isinstance(value, Mapping):
            return {_shown(key): plain(item, depth + 1) for key, item in value.items()}
        if isinstance(value, (list, tuple, set, frozenset)):
            return [plain(item, depth + 1) for item in value]
    return _shown(value)


def _record_fields(
    formatter: logging.Formatter, record: logging.LogRecord
) -> list[tuple[str, object]]:
    instant = datetime.fromtimestamp(record.created, UTC)
    fields: dict[str, object] = {
        "time": instant.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "level": record.levelname,
        "logger": record.name,
    }
    own = getattr(record, FIELDS, None)
    fields.update(own if isinstance(own, Mapping) else {"message": record.getMessage()})
    for name, value in vars(record).items():
        if name not in _STANDARD:
            fields.setdefault(name, value)
    if record.exc_info and not record.exc_text:
        record.exc_text = formatter.formatException(record.exc_info)
    if record.exc_text:
        fields["traceback"] = record.exc_text
    if record.stack_info:
        fields["stack"] = record.stack_info
    return list(fields.items())


def _quoted(value: object) -> str:
    value = plain(value)
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if not isinstance(value, (str, int, float)) or (
        isinstance(value, str) and not _BARE.fullmatch(text)
    ):
        text = json.dumps(text, ensure_ascii=False)
    return "".join(char if char.isprintable() else _escaped(char) for char in text)


def _escaped(char: str) -> str:
    return json.dumps(char)[1:-1]


def _shown(value: object) -> str:
    try:
        return str(value)
    except Exception:  # a broken __str__ must not cost the line it stands in
        return f"<{type(value).__name__}>"
