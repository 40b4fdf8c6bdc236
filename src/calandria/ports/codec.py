"""The codec: values to text and back. What it cannot record it refuses, and never changes."""

from __future__ import annotations

from typing import Protocol


class Codec(Protocol):
    """Turns values into text for the journal."""

    def encode(self, value: object) -> str:
        """Return `value` as text.

        Raises `EncodingError`, saying where in the value and what to do, when the value cannot be
        recorded so that it comes back the same, or is larger than the limit.
        """
        ...

    def decode(self, text: str) -> object:
        """Return a fresh value equal to the one recorded.

        Never imports, and never runs code from the text: a class that is not known comes back as
        a neutral record. Raises `DecodingError` for damaged text.
        """
        ...
