"""Processes that die, and time that passes: a storage whose leases and holds go by a set clock."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from calandria import Reactor, Runtime, Settings
from calandria.ports.run_store import RunFilter
from calandria.storage import open_store
from tests.unit.coordination.conftest import QUICK
from tests.unit.runtime.crashing import Death, DyingStore

LONG_AFTER = 1000.0
"""Seconds after which every lease and hold of these tests has lapsed."""


class SetClock:
    """A lease clock that stands still until it is set forward."""

    boot_id = "boot"

    def __init__(self) -> None:
        self.time = 1000.0

    def now(self) -> float:
        return self.time


class Host:
    """A host with one storage, whose processes are runtimes."""

    def __init__(self, directory: Path) -> None:
        self.clock = SetClock()
        self._url = f"sqlite:///{directory}/runs.db"

    def open(self, settings: Settings = QUICK) -> Runtime:
        return Runtime(open_store(self._url, clock=self.clock), settings=settings)

    def die_in(
        self, reactor: type[Reactor], kill: Callable[[Callable[[], None]], Any], **inputs: Any
    ) -> str:
        """Run `reactor` in a process that dies when a body calls what `kill` was given.

        Returns the run's id. Its lease and its holds are live until the clock is set forward.
        """
        store = DyingStore(open_store(self._url, clock=self.clock))
        dying = Runtime(store, settings=QUICK)

        def die() -> None:
            dying.keeper.close()
            store.dead = True
            raise Death

        kill(die)
        try:
            reactor.options(runtime=dying).run(**inputs)
        except Death:
            pass
        else:
            raise AssertionError("the run was to die")
        dying.loop.close()
        store.close()
        with self.open() as looking:
            newest = next(iter(looking.list_runs(RunFilter())))
            return newest.id

    def pass_time(self, seconds: float = LONG_AFTER) -> None:
        """Let time pass in which nobody gives a sign of life."""
        self.clock.time += seconds
