"""A coordination store on a clock that only the test moves."""

from __future__ import annotations

from calandria.ports.coordination import AcquireRequest, CoordinationStore
from calandria.storage import open_store

KEYS = ("k", "l")
EXECUTIONS = ("a", "b")
PATHS = ("", "s", "s/t", "s/t[0]/u", "sx")


class StillClock:
    """The lease clock and the wall clock at once; seconds."""

    boot_id = "boot"

    def __init__(self) -> None:
        self.at = 1_000.0

    def now(self) -> float:
        return self.at


class World:
    """A store in memory and its clock."""

    def __init__(self) -> None:
        self.clock = StillClock()
        self.store = open_store("memory://", clock=self.clock)
        self.store.prepare()
        self.keys: CoordinationStore = self.store.coordination  # type: ignore[attr-defined]

    def ask(self, execution: str, path: str, **wanted: object) -> AcquireRequest:
        return AcquireRequest(execution, path, "label", self.clock.at, **wanted)  # type: ignore[arg-type]

    def close(self) -> None:
        self.store.close()


def is_within(inner: str, outer: str) -> bool:
    """Tell whether `inner` is nested in `outer`: by its parts, unlike the store's way."""
    parts = [part for part in inner.replace("[", "/[").split("/") if part]
    around = [part for part in outer.replace("[", "/[").split("/") if part]
    return len(parts) > len(around) and parts[: len(around)] == around
