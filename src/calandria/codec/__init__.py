"""Values to text for the journal and back, changing nothing and running nothing that was stored."""

from __future__ import annotations

from calandria.codec.immutability import is_immutable
from calandria.codec.json_codec import DEFAULT_MAX_BYTES, JsonCodec
from calandria.codec.records import Record
from calandria.codec.registry import TypeRegistry

__all__ = ["DEFAULT_MAX_BYTES", "JsonCodec", "Record", "TypeRegistry", "is_immutable"]
