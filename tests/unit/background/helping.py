"""What these tests share: steps that tell which thread they ran in, and waits with a limit."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from calandria import Dispatched, Result, Run, Runtime, Step

T = TypeVar("T")

LIMIT = 20.0
"""Seconds after which something that should have happened has not."""


def in_worker() -> bool:
    """Tell whether this thread is a worker's."""
    return threading.current_thread().name.startswith("calandria-worker")


def placed(diary: list[str], name: str, then: Callable[[], Any] | None = None) -> type[Step]:
    """Return a step that notes its name and where it runs: `w:` in a worker, `c:` in a caller."""

    class Placed(Step):
        def run(self) -> Any:
            diary.append(f"{'w' if in_worker() else 'c'}:{name}")
            return name if then is None else then()

        def undo(self, result: object) -> None:
            diary.append(f"{'w' if in_worker() else 'c'}:-{name}")

    Placed.__qualname__ = f"Placed_{name}"
    return Placed


def result_of(runtime: Runtime, dispatched: Result[Any]) -> Result[Any]:
    """Return what a run that was handed over comes to."""
    assert isinstance(dispatched, Dispatched), dispatched
    return runtime.find(dispatched.run_id).wait(LIMIT)


def run_of(runtime: Runtime, dispatched: Result[Any]) -> Run:
    """Return the run that was handed over."""
    assert isinstance(dispatched, Dispatched), dispatched
    return runtime.find(dispatched.run_id)


def eventually(condition: Callable[[], T | None]) -> T:
    """Return the first true value of `condition`; fail after `LIMIT` seconds."""
    deadline = time.monotonic() + LIMIT
    pause = threading.Event()
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not happen in time"
        pause.wait(0.005)
    return found


def kinds(run: Run) -> list[str]:
    """Return the kinds of a run's trace, each with the last part of its path."""
    return [f"{e.kind} {e.path}" if e.path else e.kind for e in run.trace]
