"""Reactors and runtimes for the tests of this folder that are not campaigns."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from calandria import Reactor, RunBusy, Runtime, Settings, Step, element, inputs, map_each, step
from tests.crash import steplog
from tests.crash.steplog import Line, StepLog, current, logged, read_log


class Site:
    """A database and a step log in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.database = folder / "runs.db"
        self.url = f"sqlite:///{self.database}"
        self._log = folder / "steps.log"
        steplog.use(StepLog(self._log))

    def runtime(self, *, lease: float = 30.0, storage: Any = None, **settings: Any) -> Runtime:
        chosen = Settings(lease_ttl=lease, sqlite_synchronous="NORMAL", **settings)
        return Runtime(self.url if storage is None else storage, settings=chosen)

    def log(self) -> list[Line]:
        return read_log(self._log)

    def begun(self, action: str) -> list[str]:
        return [line.path for line in self.log() if (line.what, line.action) == ("begin", action)]

    def ended(self, action: str) -> list[str]:
        return [
            line.path
            for line in self.log()
            if (line.what, line.action) == ("end", action) and line.ok
        ]


def patiently(attempt: Callable[[], Any]) -> Any:
    """Return what `attempt` returns as soon as no one else holds the run."""
    deadline = time.monotonic() + 30
    while True:
        try:
            return attempt()
        except RunBusy:
            assert time.monotonic() < deadline
            time.sleep(0.01)


class Plain(Step):
    """Does what `deed` of this process says, if anything, and returns who did it."""

    name: str = ""

    def run(self) -> str:
        with logged(self.context, "run"):
            Deeds.perform("run", self.context)
            return Deeds.who

    def compensate(self, reason: object) -> None:
        with logged(self.context, "compensate"):
            Deeds.perform("compensate", self.context)

    def undo(self, result: object) -> None:
        with logged(self.context, "undo"):
            Deeds.perform("undo", self.context)


class Deeds:
    """What the steps of this process do: a function for an action of a path."""

    who = "first"
    by_path: dict[tuple[str, str], Callable[[Any], None]] = {}

    @classmethod
    def perform(cls, action: str, context: Any) -> None:
        deed = cls.by_path.get((action, context.step))
        if deed is not None:
            deed(context)


def die(context: Any) -> None:
    """End the process as a crash would."""
    os._exit(9)


def fail_here(context: Any) -> None:
    raise RuntimeError("broken on purpose")


class Chain(Reactor):
    a = step(Plain, name="")
    b = step(Plain, name="").after(a)
    c = step(Plain, name="").after(b)


class Elements(Reactor):
    names: list[str]

    before = step(Plain, name="")
    each = map_each(Plain, over=inputs.names, name=element).after(before)
    after = step(Plain, name="").after(each)


def bulk(results: Any) -> None:
    current().write("begin", "undo_all", "each")
    Deeds.perform("undo_all", _Bulk())
    current().write("end", "undo_all", "each")


class _Bulk:
    step = "each"


class InBulk(Reactor):
    names: list[str]

    before = step(Plain, name="")
    each = map_each(Plain, over=inputs.names, name=element).undo_all(bulk).after(before)
    after = step(Plain, name="").after(each)


class Outer(Step):
    """Does nested work."""

    def run(self) -> str:
        with logged(self.context, "run"):
            self.context.call(Plain, name="one")
            self.context.call(Plain, name="two")
            return Deeds.who

    def compensate(self, reason: object) -> None:
        with logged(self.context, "compensate"):
            pass


class Around(Reactor):
    before = step(Plain, name="")
    outer = step(Outer).after(before)
    after = step(Plain, name="").after(outer)
