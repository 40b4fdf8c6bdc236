"""What reactors declare about coordination, for `calandria check`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from calandria.coordination.primitives import (
    Lock,
    OrderedLock,
    Period,
    Primitive,
    RateLimit,
    Semaphore,
)
from calandria.definition.node_definition import ReactorDefinition
from calandria.runtime.settings import Settings


@dataclass(frozen=True)
class Declaration:
    """One primitive and where it is declared: on the reactor itself if `step` is `None`."""

    step: str | None
    primitive: Primitive

    def told(self) -> str:
        """Return it as one line."""
        where = "the reactor" if self.step is None else self.step
        kind = type(self.primitive).__name__
        if isinstance(self.primitive, RateLimit) and self.primitive.name is not None:
            return f"{where}: {kind} named {self.primitive.name!r}"
        key = self.primitive.key
        shown = f"{key!r}" if isinstance(key, str) else "by a function of its inputs"
        return f"{where}: {kind} {shown}{_detail(self.primitive)}"

    def data(self) -> dict[str, object]:
        """Return it for `--json`; the key is `null` where a function makes it."""
        key = self.primitive.key
        return {
            "step": self.step,
            "primitive": type(self.primitive).__name__,
            "key": key if isinstance(key, str) else None,
        }


def _detail(primitive: Primitive) -> str:
    match primitive:
        case Semaphore(limit=limit):
            return f", {limit} at a time"
        case RateLimit(limits=limits):
            assert limits is not None
            return ", " + ", ".join(f"{limit} a {window}" for window, limit in limits.items())
        case Period(every=every):
            return f", once every {every}{' s' if isinstance(every, int) else ''}"
        case OrderedLock(strict=strict):
            return "" if strict else ", lenient"
        case Lock():
            return ""


def declarations(definition: ReactorDefinition) -> Iterator[Declaration]:
    """Yield what a reactor and its steps declare; not what reactors nested in it do."""
    for primitive in definition.coordination:
        yield Declaration(None, primitive)
    for node in definition.nodes.values():
        for primitive in node.coordination:
            yield Declaration(node.name, primitive)


def unknown_limit(definition: ReactorDefinition, settings: Settings) -> str | None:
    """Return what is wrong with the first rate limit that no settings register, if one is."""
    for found in declarations(definition):
        primitive = found.primitive
        if not isinstance(primitive, RateLimit) or primitive.name is None:
            continue
        if primitive.name not in settings.rate_limits:
            where = "the reactor" if found.step is None else f"step {found.step!r}"
            known = ", ".join(sorted(settings.rate_limits)) or "none"
            return (
                f"{where} uses the rate limit {primitive.name!r}, which is not registered "
                f"(registered: {known}). Give it in "
                "configure(settings=Settings(rate_limits={...})), in this module or one it imports."
            )
    return None
