"""A folder with a database, steps that hold keys, and a witness that nothing in the library knows.

The witness is a log that every step appends to in one write, when it enters and before it leaves.
The order of its lines is the order of what happened, in all processes.
"""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calandria import (
    Lock,
    OrderedLock,
    Reactor,
    Runtime,
    Semaphore,
    Step,
    step,
)
from tests.crash.background.workshop import Workshop

SNOOZE_NEVER = 1000.0
"""Seconds: a run that is parked and not woken sleeps longer than any test."""


@dataclass(frozen=True)
class Line:
    """`what` is `enter` or `leave`; `at` is by the host's monotonic clock, in seconds."""

    what: str
    key: str
    who: str
    pid: int
    token: int
    at: float


class Witness:
    """Appends to the log, and reads it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, what: str, key: str, who: str, token: int = 0) -> None:
        line = Line(what, key, who, os.getpid(), token, time.monotonic())
        file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            os.write(file, (json.dumps(line.__dict__) + "\n").encode())
        finally:
            os.close(file)

    @contextmanager
    def seeing(self, key: str, who: str, token: int = 0) -> Iterator[None]:
        self.write("enter", key, who, token)
        try:
            yield
        finally:
            self.write("leave", key, who, token)

    def lines(self) -> list[Line]:
        if not self._path.exists():
            return []
        return [Line(**json.loads(line)) for line in self._path.read_text().splitlines()]


def most_at_once(lines: Iterable[Line], killed: Mapping[int, float] | None = None) -> Counter[str]:
    """Return for each key how many were inside at the same time, at most.

    `killed` says when a process was killed: from then on it is not inside any more.
    """
    inside: dict[str, set[tuple[str, int]]] = {}
    most: Counter[str] = Counter()
    ends = killed or {}
    for line in lines:
        there = inside.setdefault(line.key, set())
        there -= {(who, pid) for who, pid in there if ends.get(pid, line.at + 1) <= line.at}
        if line.what == "enter":
            there.add((line.who, line.pid))
            most[line.key] = max(most[line.key], len(there))
        elif line.what == "leave":
            there.discard((line.who, line.pid))
    return most


class Place:
    """What the steps of this process see, and do while they are inside."""

    witness: Witness
    deeds: Callable[[Any], None] | None = None

    @classmethod
    def inside(cls, key: str, context: Any) -> None:
        token = max((hold.token for hold in context.holds), default=0)
        with cls.witness.seeing(key, f"{context.run_id or 'call'}:{context.step}", token):
            if cls.deeds is not None:
                cls.deeds(context)


class Arena(Workshop):
    """Where one history happens; `settings` are of every runtime here."""

    def __init__(
        self, folder: Path, *, lease: float = 30.0, sweep: float = SNOOZE_NEVER, **settings: Any
    ) -> None:
        super().__init__(folder, lease=lease, sweep=sweep)
        self._settings = settings
        Place.witness = self.witness = Witness(folder / "witness.log")
        Place.deeds = None

    def runtime(self, storage: Any = None, **settings: Any) -> Runtime:
        return super().runtime(storage, **(self._settings | settings))


def hold_for(seconds: float) -> Callable[[Any], None]:
    """Return a deed that takes a while, at random up to twice `seconds`."""

    def deed(context: Any) -> None:
        threading.Event().wait(random.uniform(0, 2 * seconds))

    return deed


class Locked(Step):
    """Is inside its key, alone."""

    key: str

    coordination = [Lock("{key}", ttl=20, wait=60)]

    def run(self) -> str:
        Place.inside(self.key, self.context)
        return self.key


class InPlace(Step):
    """Is inside its key, with at most two others."""

    key: str

    coordination = [Semaphore("{key}", limit=3, ttl=20, wait=60)]

    def run(self) -> str:
        Place.inside(self.key, self.context)
        return self.key


class Contended(Reactor):
    """A locked step between two that are not."""

    key: str

    @step
    def before(*, key: str) -> str:
        return key

    work = step(Locked).after(before)

    @step
    def after(*, work: str) -> str:
        return work


class LockedAtOnce(Locked):
    """Waits for no one: contended in a worker, its run is parked."""

    coordination = [Lock("{key}", ttl=20)]


class InPlaceAtOnce(InPlace):
    """Waits for no one, either."""

    coordination = [Semaphore("{key}", limit=3, ttl=20)]


class InBackground(Contended):
    work = step(LockedAtOnce).after(Contended.before)
    background = True


class WholeRun(Reactor):
    """Locked as a whole, in a worker."""

    key: str

    coordination = [Lock("{key}", ttl=20)]
    background = True

    @step
    def work(*, key: str, context: Any) -> str:
        Place.inside(key, context)
        return key


class PlacesInBackground(Reactor):
    key: str

    work = step(InPlaceAtOnce)
    background = True


class InOrder(Reactor):
    """One after another, in the order of being called."""

    key: str
    number: int

    coordination = [OrderedLock("{key}", poison_timeout=600, strict=False)]
    background = True

    @step
    def work(*, key: str, number: int, context: Any) -> int:
        Place.inside(key, context)
        Place.witness.write("number", key, str(number))
        return number
