"""What these tests share: keys held by strangers, gates to wait at, and looks at the store."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from calandria import Dispatched, Failure, Lock, Result, Run, Runtime, Semaphore, Step
from calandria.ports.coordination import (
    AcquireRequest,
    CoordinationStore,
    Granted,
    HoldKind,
    HoldRequest,
)

T = TypeVar("T")

LIMIT = 20.0
"""Seconds after which something that should have happened has not."""


def store_of(runtime: Runtime) -> CoordinationStore:
    return runtime.gates.store


def held_keys(runtime: Runtime) -> list[str]:
    """Return the keys that anybody holds now, sorted."""
    return sorted({hold.key for hold in store_of(runtime).holds()})


def take(runtime: Runtime, key: str, who: str = "stranger", limit: int = 0, ttl: float = 60) -> int:
    """Have a stranger hold a lock, or with a `limit` a place in a semaphore; return the token."""
    kind = HoldKind.SEMAPHORE if limit else HoldKind.LOCK
    wanted = HoldRequest(kind, key, limit or 1, ttl)
    answer = store_of(runtime).acquire(AcquireRequest(who, "", who, time.time(), [wanted]))
    assert isinstance(answer, Granted), answer
    return answer.holds[0].token


def let_go(runtime: Runtime, who: str = "stranger") -> None:
    """Have a stranger let go of everything, and tell whoever waits in this process."""
    store_of(runtime).release(who, "")
    runtime.released()


@contextlib.contextmanager
def stranger(runtime: Runtime, *keys: str) -> Iterator[None]:
    """Have a stranger hold keys while the block runs."""
    for key in keys:
        take(runtime, key)
    try:
        yield
    finally:
        let_go(runtime)


class Gate:
    """A step's body waits in it until the test lets it go on."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.opened = threading.Event()

    def __call__(self) -> None:
        self.entered.set()
        assert self.opened.wait(LIMIT), "nobody opened the gate"

    def await_entry(self) -> None:
        assert self.entered.wait(LIMIT), "nobody came to the gate"

    def open(self) -> None:
        self.opened.set()


class Aside:
    """Something performed in another thread."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call
        self._result: Any = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._perform, daemon=True)
        self._thread.start()

    def _perform(self) -> None:
        try:
            self._result = self._call()
        except BaseException as error:
            self._error = error

    @property
    def over(self) -> bool:
        return not self._thread.is_alive()

    def result(self) -> Any:
        self._thread.join(LIMIT)
        assert self.over, "it did not end in time"
        if self._error is not None:
            raise self._error
        return self._result


def eventually(condition: Callable[[], T | None]) -> T:
    """Return the first true value of `condition`; fail after `LIMIT` seconds."""
    deadline = time.monotonic() + LIMIT
    pause = threading.Event()
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not happen in time"
        pause.wait(0.005)
    return found


def run_of(runtime: Runtime, result: Result[Any]) -> Run:
    """Return the run that was dispatched, or that ended."""
    assert result.run_id is not None
    return runtime.find(result.run_id)


def result_of(runtime: Runtime, dispatched: Result[Any]) -> Result[Any]:
    """Return what a run that was handed over comes to."""
    assert isinstance(dispatched, Dispatched), dispatched
    return runtime.find(dispatched.run_id).wait(LIMIT)


def parked(runtime: Runtime, dispatched: Result[Any]) -> Run:
    """Return a dispatched run once it is parked."""
    run = run_of(runtime, dispatched)
    eventually(lambda: run.waiting_on and run.lease_owner is None)
    return run


def failure(result: object) -> Failure:
    assert isinstance(result, Failure), result
    return result


def kinds(run: Run) -> list[str]:
    """Return the kinds of a run's trace, each with its path and its key, if it has them."""
    return [
        " ".join(
            part
            for part in (entry.kind, entry.path, entry.data.get("primitive"), entry.data.get("key"))
            if part
        )
        for entry in run.trace
    ]


def holds_told(run: Run) -> list[str]:
    """Return what a run's trace says of holds."""
    return [line for line in kinds(run) if line.startswith("hold.")]


def locked(
    diary: list[str],
    name: str,
    body: Callable[[], Any] | None = None,
    *,
    on: Lock | Semaphore | None = None,
    undo: Callable[[], Any] | None = None,
    compensate: Callable[[], Any] | None = None,
) -> type[Step]:
    """Return a step under a lock on the key `name`, or under `on`, that notes what it does."""
    needed = [Lock(name) if on is None else on]

    class Locked(Step):
        coordination = needed

        def run(self) -> Any:
            diary.append(f"+{name}")
            return name if body is None else body()

        def compensate(self, reason: object) -> Any:
            diary.append(f"!{name}")
            return None if compensate is None else compensate()

        def undo(self, result: object) -> Any:
            diary.append(f"-{name}")
            return None if undo is None else undo()

    Locked.__qualname__ = f"Locked_{name}"
    return Locked
