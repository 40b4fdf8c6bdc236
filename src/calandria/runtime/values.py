"""Recorded values as the running levels hold them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any

from calandria.codec import is_immutable
from calandria.ports.codec import Codec
from calandria.results import Failure

_ABSENT: Any = object()


class Value:
    """A value with the text it was recorded as.

    No step can change what another one sees: each reader is given a value of its own, decoded
    from the record, unless nobody could change it anyway.
    """

    __slots__ = ("_codec", "_object", "_shareable", "text")

    def __init__(self, text: str, codec: Codec, original: Any = _ABSENT) -> None:
        self.text = text
        self._codec = codec
        self._shareable = original is not _ABSENT and is_immutable(original)
        self._object: Any = original if self._shareable else _ABSENT

    @classmethod
    def record(cls, value: object, codec: Codec) -> Value:
        """Encode `value`; raises `EncodingError` where it cannot be recorded."""
        return cls(codec.encode(value), codec, value)

    def peek(self) -> Any:
        """Return the value for reading only: the same object each time."""
        if self._object is _ABSENT:
            self._object = self._codec.decode(self.text)
        return self._object

    def fresh(self) -> Any:
        """Return the value for a step to keep: nobody else holds the object."""
        return self._object if self._shareable else self._codec.decode(self.text)


def record_inputs(values: dict[str, object], codec: Codec) -> tuple[str, dict[str, Any]]:
    """Encode a step's inputs; return the text, and the inputs as its body is to see them.

    Raises `EncodingError` where they cannot be recorded.
    """
    text = codec.encode(values)
    if all(map(is_immutable, values.values())):
        return text, values
    return text, _as_inputs(codec.decode(text))


def load_inputs(text: str | None, codec: Codec) -> dict[str, Any]:
    """Decode a step's recorded inputs afresh."""
    return _as_inputs(codec.decode(text)) if text is not None else {}


def _as_inputs(value: object) -> dict[str, Any]:
    assert isinstance(value, dict)
    return value


def fresh_inputs(values: dict[str, Any], codec: Codec) -> dict[str, Any]:
    """Return inputs for a step to keep: nobody else holds the dict, or what is in it."""
    if all(map(is_immutable, values.values())):
        return dict(values)
    return load_inputs(codec.encode(values), codec)


REDACTED_TEXT = "[REDACTED]"


def shown(values: dict[str, Any], redacted: frozenset[str]) -> dict[str, Any]:
    """Return inputs as they may be shown: redacted ones by their mark."""
    if not redacted:
        return values
    return {k: REDACTED_TEXT if k in redacted else v for k, v in values.items()}


SHORTEST_SECRET = 4
"""Characters: a shorter text would be found everywhere by accident."""


def secrets_in(values: dict[str, Any], redacted: frozenset[str]) -> tuple[str, ...]:
    """Return the redacted texts among `values` that messages are to be scrubbed of."""
    if not redacted:
        return ()
    texts = {text for name, value in values.items() if name in redacted for text in _texts(value)}
    # the longest first: one may be a part of another
    return tuple(sorted((t for t in texts if len(t) >= SHORTEST_SECRET), key=len, reverse=True))


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, (str, int, float)) and not isinstance(value, (bool, Enum)):
        yield str(value)
    elif isinstance(value, bytes):
        yield value.decode("utf-8", "replace")
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, (list, tuple, set, frozenset)):
        for item in value:
            yield from _texts(item)
    else:
        for item in getattr(value, "__dict__", {}).values():
            yield from _texts(item)


def scrub(text: str, secrets: tuple[str, ...]) -> str:
    """Return `text` with every secret in it replaced by the redaction mark."""
    for secret in secrets:
        text = text.replace(secret, REDACTED_TEXT)
    return text


LONGEST_MESSAGE = 20_000
"""Characters: what is longer than that is no message but data in the wrong place."""


def as_message(value: object) -> str | None:
    """Return what was given for a message as text, of a bearable length; `None` stays."""
    if value is None:
        return None
    text = value if isinstance(value, str) else str(value)
    if len(text) > LONGEST_MESSAGE:
        return f"{text[:LONGEST_MESSAGE]}... ({len(text):,} characters)"
    return text


def scrub_failure(failure: Failure, secrets: tuple[str, ...]) -> Failure:
    """Return `failure` without the secrets, wherever it has text, and with bearable messages."""
    return dataclasses.replace(
        failure,
        error=scrub(as_message(failure.error) or "", secrets),
        traceback=tuple(scrub(as_message(line) or "", secrets) for line in failure.traceback),
        validation_errors={
            field: [scrub(str(message), secrets) for message in messages]
            for field, messages in failure.validation_errors.items()
        },
    )
