"""A folder with a database and a step log, and the processes that work on it."""

from __future__ import annotations

import faulthandler
import logging
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from calandria import Run, RunStatus, Runtime, Settings, runs
from tests.crash import steplog
from tests.crash.background.deeds import Deed, read_deeds
from tests.crash.children import PATIENCE_SECONDS, Child
from tests.crash.steplog import StepLog

ACTIVE = (RunStatus.PENDING, RunStatus.RUNNING, RunStatus.ROLLING_BACK)


class Workshop:
    """Where one history happens. `lease` and `sweep` are seconds."""

    def __init__(self, folder: Path, *, lease: float = 0.5, sweep: float = 0.3) -> None:
        self.folder = folder
        self.url = f"sqlite:///{folder / 'runs.db'}"
        self.lease = lease
        self.sweep = sweep
        self.max_recoveries = 1000
        self._log = folder / "steps.log"
        steplog.use(StepLog(self._log))

    def runtime(self, storage: Any = None, **settings: Any) -> Runtime:
        chosen: dict[str, Any] = {
            "lease_ttl": self.lease,
            "sweep_interval": self.sweep,
            "max_recoveries": self.max_recoveries,
            "snooze_base_delay": 0.1,
            "snooze_jitter": 0.1,
            "sqlite_synchronous": "NORMAL",
        }
        return Runtime(storage or self.url, settings=Settings(**(chosen | settings)))

    def deeds(self) -> list[Deed]:
        return read_deeds(self._log)

    def begun(self, action: str = "run") -> list[str]:
        return [d.path for d in self.deeds() if (d.what, d.action) == ("begin", action)]

    def ended(self, action: str = "run") -> list[str]:
        return [d.path for d in self.deeds() if (d.what, d.action) == ("end", action) and d.ok]

    def worker(self, threads: int = 2, *, first: Callable[[], None] | None = None) -> Child:
        """Start a worker process; SIGTERM drains it. `first` is called in it before."""

        def serve() -> None:
            parent = os.getppid()
            if first is not None:
                first()
            with self.runtime() as runtime:
                worker = runtime.start_worker(threads)
                while not _told_to_end():
                    if os.getppid() != parent:
                        os._exit(3)  # a test that failed leaves no worker behind
                assert worker.stop(timeout=PATIENCE_SECONDS)

        # blocked in every thread and waited for: a handler could come just before a wait
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
        try:
            return Child(serve)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _told_to_end() -> bool:
    found = signal.sigtimedwait([signal.SIGTERM], 0.5)
    # a stop that outlasts the wait makes it return, too, with no signal in it
    return found is not None and found.si_signo == signal.SIGTERM


def end(*workers: Child) -> None:
    """Have workers drain, and wait for them."""
    for worker in workers:
        worker.signal(signal.SIGTERM)
    for worker in workers:
        worker.join()


def poll(child: Child) -> int | None:
    """Return the exit code of a child that has ended, else `None`."""
    found, status = os.waitpid(child.pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if found else None


def active(runtime: Runtime) -> list[Run]:
    """Return the runs that are not over, spawned ones included."""
    found: list[Run] = []
    for run in runs(runtime=runtime):
        found += [one for one in (run, *_below(run)) if one.status in ACTIVE]
    return found


def _below(run: Run) -> list[Run]:
    return [one for child in run.children for one in (child, *_below(child))]


def all_over(runtime: Runtime, patience: float = PATIENCE_SECONDS) -> None:
    """Wait until no run is under way; fails naming those that still are."""
    deadline = time.monotonic() + patience
    while True:
        left = active(runtime)
        if not left:
            return
        assert time.monotonic() < deadline, "stuck: " + "; ".join(
            f"{run.id} {run.reactor} {run.status.value} epoch {run.epoch} owner {run.lease_owner} "
            f"waits for {run.waiting_on}"
            for run in left
        )
        threading.Event().wait(0.05)


def log_to(path: Path) -> None:
    """Have this process append what the library logs to a file."""
    handler = logging.FileHandler(path)
    handler.setFormatter(logging.Formatter("%(process)d %(name)s %(message)s"))
    logger = logging.getLogger("calandria")
    logger.addHandler(handler)
    logger.propagate = False


faulthandler.enable()
