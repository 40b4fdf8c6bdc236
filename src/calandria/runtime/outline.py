"""What a run remembers of the definition it began with: its steps, and what is redacted of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from weakref import WeakKeyDictionary

from calandria.definition.node_definition import ReactorDefinition

_known: WeakKeyDictionary[ReactorDefinition, str] = WeakKeyDictionary()


@dataclass(frozen=True)
class Outline:
    """`steps` are fingerprints by name; `redacted` are inputs that the run's parent kept secret."""

    steps: Mapping[str, str] = field(default_factory=dict)
    redacted: frozenset[str] = frozenset()


def outline_text(
    definition: ReactorDefinition | None, redacted: frozenset[str] = frozenset()
) -> str:
    """Return what to store with a new run of a definition, or of a single step (`None`)."""
    if definition is None:
        return _text({}, redacted) if redacted else ""
    if redacted:
        return _text(definition.fingerprints, redacted)
    found = _known.get(definition)
    if found is None:
        found = _known[definition] = _text(definition.fingerprints, redacted)
    return found


def _text(steps: Mapping[str, str], redacted: frozenset[str]) -> str:
    content: dict[str, object] = {"steps": dict(steps)}
    if redacted:
        content["redacted"] = sorted(redacted)
    return json.dumps(content, separators=(",", ":"))


@lru_cache(maxsize=256)
def read_outline(text: str) -> Outline:
    """Read what was stored; an outline that is missing or damaged says nothing."""
    try:
        content = json.loads(text) if text else {}
        steps, redacted = content.get("steps", {}), content.get("redacted", [])
        return Outline({str(k): str(v) for k, v in steps.items()}, frozenset(map(str, redacted)))
    except (ValueError, AttributeError, TypeError):
        return Outline()
