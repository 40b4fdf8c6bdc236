"""Reading what was typed: inputs, durations, instants."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from calandria.cli.exits import CommandError

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw])", re.ASCII)


def read_inputs(pairs: Iterable[str], json_source: str | None) -> dict[str, object]:
    """Return the inputs given as a JSON object and as `name=value`; the latter win.

    A value that is JSON is taken as that (`3`, `true`, `null`, `[1, 2]`, `"3"`), any other as
    text. Raises `CommandError` for a pair without `=`, or a document that is no JSON object.
    """
    inputs = {} if json_source is None else _read_object(json_source)
    for pair in pairs:
        name, separator, text = pair.partition("=")
        if not separator or not name:
            raise CommandError(f"--input {pair!r}: write it as name=value.")
        inputs[name] = _json_or_text(text)
    return inputs


def _json_or_text(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _read_object(source: str) -> dict[str, object]:
    try:
        text = sys.stdin.read() if source == "-" else Path(source).read_text(encoding="utf-8")
        found = json.loads(text)
    except OSError as error:
        reason = error.strerror or error
        raise CommandError(f"--input-json {source}: cannot be read: {reason}.") from None
    except (ValueError, RecursionError) as error:
        raise CommandError(f"--input-json {source}: is not JSON: {error}.") from None
    if not isinstance(found, dict):
        raise CommandError(f"--input-json {source}: give a JSON object, not {_kind(found)}.")
    return found


def _kind(value: object) -> str:
    return {list: "an array", str: "a string", type(None): "null"}.get(type(value), repr(value))


def read_duration(text: str, option: str) -> timedelta:
    """Return the duration in text like `90s`, `15m`, `36h`, `30d` or `2w`."""
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise CommandError(f"{option} {text!r}: give a number and a unit: 90s, 15m, 36h, 30d, 2w.")
    try:
        return timedelta(**{_UNITS[match[2]]: float(match[1])})
    except OverflowError:
        raise CommandError(f"{option} {text!r}: is longer than can be counted.") from None


def read_seconds(text: str, option: str) -> float:
    """Return the seconds of a time to wait: `30`, or with a unit, like `90s` or `5m`."""
    plain = re.fullmatch(r"\d+(?:\.\d+)?", text.strip(), re.ASCII)
    return read_duration(f"{text.strip()}s" if plain else text, option).total_seconds()


def read_instant(text: str, option: str, now: datetime) -> datetime:
    """Return the instant in ISO 8601, or so long before `now`: `2h`, `7d`.

    An instant without an offset is UTC.
    """
    try:
        if _DURATION.fullmatch(text.strip()):
            return now - read_duration(text, option)
        found = datetime.fromisoformat(text.strip())
    except (ValueError, OverflowError):
        raise CommandError(
            f"{option} {text!r}: give an instant (2026-05-01T12:00, UTC) or an age (2h, 7d)."
        ) from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
