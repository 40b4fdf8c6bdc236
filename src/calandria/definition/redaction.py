"""The mark that keeps a value out of errors, traces, logs and pictures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, TypeAlias, TypeVar

T = TypeVar("T")

METADATA_KEY = "calandria_redacted"


class RedactionMark:
    """Marks the schema of what it annotates, so that it is found at any depth of a type."""

    def __get_pydantic_core_schema__(
        self, source: object, handler: Callable[[object], Any]
    ) -> dict[str, Any]:
        schema = handler(source)
        return {**schema, "metadata": {**schema.get("metadata", {}), METADATA_KEY: True}}

    def __repr__(self) -> str:
        return "Redacted"


Redacted: TypeAlias = Annotated[T, RedactionMark()]
"""`Redacted[str]`: a `str` that is shown as `[REDACTED]` wherever it could leak."""
