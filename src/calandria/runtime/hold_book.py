"""The holds of one execution in this process: kept alive, and known to be lost if they are."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from calandria.ports.coordination import CoordinationStore, Hold, encloses

logger = logging.getLogger("calandria.coordination")


class HoldBook:
    """Which path of an execution holds what. Safe to use from many threads."""

    def __init__(self) -> None:
        self._held: dict[str, list[tuple[Hold, float]]] = {}
        self._lost: dict[str, Hold] = {}
        self._beats: dict[str, tuple[str, float]] = {}
        self._lock = threading.Lock()
        self.on_loss: Callable[[], None] | None = None
        self.on_add: Callable[[], None] | None = None

    def __bool__(self) -> bool:
        return bool(self._held)

    def beat(self, path: str, execution: str, every: float) -> None:
        """Prove that an execution lives at least once in `every` seconds while a path is kept.

        For positions in sequences of what is no run: a run proves it by its lease.
        """
        with self._lock:
            self._beats[path] = (execution, every)

    def add(self, path: str, holds: Sequence[Hold], ttl_of: Callable[[str], float]) -> None:
        """Keep these holds of a path alive, each for its own ttl at a time."""
        with self._lock:
            self._held[path] = [(hold, ttl_of(hold.key)) for hold in holds]
            self._lost.pop(path, None)
        if self.on_add is not None:
            self.on_add()

    def remove(self, path: str) -> bool:
        """Let a path's holds be; tell whether it had any."""
        with self._lock:
            self._lost.pop(path, None)
            self._beats.pop(path, None)
            return self._held.pop(path, None) is not None

    def around(self, path: str) -> tuple[Hold, ...]:
        """Return the holds that protect a path: its own, and those of what it is nested in."""
        with self._lock:
            return tuple(
                hold
                for holder, held in self._held.items()
                if encloses(holder, path)
                for hold, _ in held
            )

    def all(self) -> tuple[Hold, ...]:
        """Return every hold of the execution."""
        with self._lock:
            return tuple(hold for held in self._held.values() for hold, _ in held)

    def lost_around(self, path: str) -> Hold | None:
        """Return a hold that was lost and should have protected a path, if there is one."""
        if not self._lost:
            return None
        with self._lock:
            return next((h for holder, h in self._lost.items() if encloses(holder, path)), None)

    def lost_paths(self) -> tuple[str, ...]:
        """Return the paths that lost a hold and have not taken it again."""
        return tuple(self._lost)

    def shortest_ttl(self) -> float | None:
        """Return the shortest ttl to keep up with, in seconds; `None` if nothing is held."""
        with self._lock:
            ttls = [ttl for held in self._held.values() for _, ttl in held]
            return min(ttls + [every for _, every in self._beats.values()], default=None)

    def longest_ttl(self) -> float | None:
        """Return the longest ttl held, in seconds; `None` if nothing is."""
        with self._lock:
            return max((ttl for held in self._held.values() for _, ttl in held), default=None)

    def renew(self, store: CoordinationStore) -> None:
        """Extend every hold; one that was lost is noted, and whoever is nested in it told.

        Raises `StorageError` when the storage cannot be reached.
        """
        with self._lock:
            pairs = [
                pair for path, held in self._held.items() if path not in self._lost for pair in held
            ]
            executions = {execution for execution, _ in self._beats.values()}
        for execution in executions:
            store.see(execution)
        if not pairs:
            return
        lost = store.renew([hold for hold, _ in pairs], ttls=[ttl for _, ttl in pairs])
        for hold in lost:
            with self._lock:
                if hold.path not in self._held:
                    continue
                self._lost[hold.path] = hold
            logger.error(
                "event=hold.lost execution=%s path=%s key=%r", hold.execution, hold.path, hold.key
            )
        if lost and self.on_loss is not None:
            self.on_loss()
