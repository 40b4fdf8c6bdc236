"""Runs whose process died, made in this process: their lease lapses and nobody renews it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from calandria import Reactor, Run, Runtime, Settings, runs
from calandria.storage import open_store

SHORT = 0.2
"""Seconds: the lease of a run that is about to die."""


class Death(BaseException):
    """Stands for the end of the process: from it on, the dying runtime records nothing."""


class DyingStore:
    """A store that passes everything on until it is dead, and then raises `Death`."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.dead = False

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)
        if name == "close" or not callable(method):
            return method

        def call(*arguments: Any, **options: Any) -> Any:
            if self.dead:
                raise Death
            return method(*arguments, **options)

        return call


def die_in(
    url: str, reactor: type[Reactor], kill: Callable[[Callable[[], None]], Any], **inputs: Any
) -> str:
    """Run `reactor` in a runtime that dies when a body calls what `kill` was given.

    Returns the run's id once its lease has lapsed.
    """
    store = DyingStore(open_store(url))
    dying = Runtime(store, settings=Settings(lease_ttl=SHORT))

    def die() -> None:
        store.dead = True
        raise Death

    kill(die)
    try:
        reactor.options(runtime=dying).run(**inputs)
    except Death:
        pass
    else:
        raise AssertionError("the run was to die")
    dying.keeper.close()
    dying.loop.close()
    store.close()
    (run,) = runs(reactor=reactor, status=["running", "rolling_back"])
    _await_lapse(run)
    return run.id


def _await_lapse(run: Run) -> None:
    waiting = threading.Event()
    while run.lease_owner is not None:
        waiting.wait(0.01)
