"""The locked steps that are measured: each tells when it was inside."""

from __future__ import annotations

import time
from collections.abc import Callable

from calandria import Lock, Reactor, Step, step


class Doing:
    """What the holder of a key does while it is inside, in this process."""

    def __init__(self) -> None:
        self.inside: Callable[[], None] | None = None


DOING = Doing()


class Locked(Step):
    """Returns the instant at which it began, by the performance counter."""

    key: str

    coordination = [Lock("{key}", wait=60)]

    def run(self) -> float:
        """Tell the time."""
        at = time.perf_counter()
        if DOING.inside is not None:
            DOING.inside()
        return at


class Next(Step):
    """Waits for the key, and returns when it got in."""

    key: str

    coordination = [Lock("{key}", wait=60)]

    def run(self) -> float:
        """Tell the time."""
        return time.perf_counter()


class NextInWorker(Reactor):
    """Is parked until it has the key."""

    key: str

    told = step(Next)
    coordination = [Lock("{key}")]
    background = True
