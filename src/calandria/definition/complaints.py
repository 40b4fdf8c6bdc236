"""What a contract says about values it refuses, without repeating what is redacted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

NEUTRAL_MESSAGE = "is not valid (the value is redacted, and so is what the validator said)"

# pydantic's own messages for these are made from the contract alone, never from the value
_SAFE_KINDS = frozenset(
    {
        "bool_parsing",
        "bool_type",
        "bytes_too_long",
        "bytes_too_short",
        "bytes_type",
        "decimal_parsing",
        "decimal_type",
        "dict_type",
        "float_parsing",
        "float_type",
        "greater_than",
        "greater_than_equal",
        "int_parsing",
        "int_type",
        "is_instance_of",
        "less_than",
        "less_than_equal",
        "list_type",
        "missing",
        "none_required",
        "string_pattern_mismatch",
        "string_too_long",
        "string_too_short",
        "string_type",
    }
)


def messages_of(error: Exception, *, redacted: bool) -> list[str]:
    """Return what is wrong with one value, one message for each place in it."""
    from pydantic_core import ValidationError

    if isinstance(error, ValidationError):
        found = error.errors(include_url=False, include_input=False)
        return list(dict.fromkeys(_message(detail, redacted) for detail in found))
    if redacted:
        return [NEUTRAL_MESSAGE]
    return [f"the validator raised {type(error).__name__}: {error}"]


def unknown_input(name: str, known: Iterable[str]) -> str:
    """Return the message for an input that no contract declares, with the likeliest one meant."""
    return f"is not an input{suggestion(name, known)}"


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return " (did you mean ...?)" for the nearest of the known names, or nothing."""
    import difflib

    close = difflib.get_close_matches(name, list(known), n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def _message(detail: Mapping[str, Any], redacted: bool) -> str:
    if redacted:
        # the place is left out as well: it may consist of a mapping's keys
        return str(detail["msg"]) if detail["type"] in _SAFE_KINDS else NEUTRAL_MESSAGE
    place = ".".join(str(part) for part in detail["loc"])
    return f"{place}: {detail['msg']}" if place else str(detail["msg"])
