"""Killing real processes: at a commit, at a line of the step log, or at any moment."""

from __future__ import annotations

import faulthandler
import os
import signal
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calandria import Runtime, Settings
from calandria.ports.run_store import Changes, Lease, NewRun, RunStore
from calandria.storage import open_store
from calandria.storage.sql.lease_clock import HostLeaseClock
from tests.crash import steplog
from tests.crash.steplog import StepLog

PATIENCE_SECONDS = 40.0
LEASE_SECONDS = 30.0
LATER_SECONDS = 1000.0
"""How much later each process's lease clock is than that of the one before: its lease lapsed."""


@dataclass(frozen=True)
class KillPoint:
    """`where` is `before` or `after` commit `at`, after `line` `at`, or at any `time` (seconds)."""

    where: str
    at: float

    def __str__(self) -> str:
        return f"{self.where} {self.at:g}"


class KillingStore:
    """A run store that tells the step log what was committed, and kills its process at a commit."""

    def __init__(self, store: RunStore, log: StepLog, point: KillPoint | None) -> None:
        self._store = store
        self._log = log
        self._point = point
        self.commits = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def create_run(self, run: NewRun, changes: Changes, *, owner: str | None, ttl: float) -> Any:
        self._kill("before")
        created = self._store.create_run(run, changes, owner=owner, ttl=ttl)
        self._committed(changes)
        return created

    def take_lease(self, run_id: str, *, owner: str, ttl: float) -> Any:
        self._kill("before")
        taken = self._store.take_lease(run_id, owner=owner, ttl=ttl)
        self._committed(Changes())
        return taken

    def commit(self, lease: Lease, changes: Changes) -> str | None:
        self._kill("before")
        reason = self._store.commit(lease, changes)
        self._committed(changes)
        return reason

    def _committed(self, changes: Changes) -> None:
        for record in (*changes.steps, *changes.updates):
            progress = record.progress
            self._log.write(
                "committed",
                "",
                record.path,
                attempt=progress.attempts,
                status=progress.status.value,
                rollback=progress.rollback.value,
                order=progress.completed_order,
            )
        self._kill("after")
        self.commits += 1

    def _kill(self, where: str) -> None:
        point = self._point
        if point is not None and (point.where, point.at) == (where, self.commits + 1):
            os.kill(os.getpid(), signal.SIGKILL)


class LaterClock(HostLeaseClock):
    """The host's lease clock, set forward."""

    def __init__(self, ahead: float) -> None:
        super().__init__()
        self._ahead = ahead

    def now(self) -> float:
        return super().now() + self._ahead


@dataclass
class Place:
    """Where one history happens: its database and its step log."""

    folder: Path

    @property
    def log(self) -> Path:
        return self.folder / "steps.log"

    def store(self, generation: int) -> RunStore:
        clock = LaterClock(generation * LATER_SECONDS)
        url = f"sqlite:///{self.folder / 'runs.db'}"
        return open_store(url, sqlite_synchronous="NORMAL", clock=clock)

    def runtime(self, store: Any) -> Runtime:
        return Runtime(store, settings=Settings(lease_ttl=LEASE_SECONDS))


@dataclass(frozen=True)
class Ended:
    """How a process ended: `killed`, or after so many commits and lines."""

    killed: bool
    seconds: float
    commits: int = 0
    lines: int = 0


def in_process(
    place: Place, generation: int, point: KillPoint | None, work: Callable[[], None]
) -> Ended:
    """Do `work` in a process of its own, killed at `point`; raises if it fails or hangs."""
    reading, writing = os.pipe()
    began = time.monotonic()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _child(place, generation, point, work, writing)
    os.close(writing)
    if point is not None and point.where == "time":
        time.sleep(point.at)
        os.kill(child, signal.SIGKILL)
    status = _reap(child)
    seconds = time.monotonic() - began
    with os.fdopen(reading, "rb") as pipe:
        told = pipe.read().split()
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
        return Ended(True, seconds)
    assert status == 0, f"the process failed (status {status}); its traceback is above"
    return Ended(False, seconds, int(told[0]), int(told[1]))


def _child(
    place: Place, generation: int, point: KillPoint | None, work: Callable[[], None], told: int
) -> None:
    code = 70
    try:
        faulthandler.enable()
        line = int(point.at) if point is not None and point.where == "line" else None
        log = StepLog(place.log, line)
        steplog.use(log)
        store = KillingStore(place.store(generation), log, point)
        with place.runtime(store):
            work()
        os.write(told, f"{store.commits} {log.count}".encode())
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _reap(child: int) -> int:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return status
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGABRT)  # faulthandler shows where it hangs
            os.waitpid(child, 0)
            raise AssertionError("the process hangs; its stacks are above")
        time.sleep(0.001)
