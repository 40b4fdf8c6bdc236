"""Step classes that write to a diary: `+a` for a run, `!a` for a compensate, `-a` for an undo."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from calandria import Retry, Run, Step, runs

ONCE = Retry(max_attempts=1)
TWICE = Retry(max_attempts=2, base_delay=0)
THRICE = Retry(max_attempts=3, base_delay=0)


class Outage(Exception):
    """What a step of these tests fails with."""


def logged(
    diary: list[str],
    name: str,
    run: Callable[[], Any] | None = None,
    *,
    undo: Callable[[], Any] | None = None,
    compensate: Callable[[], Any] | None = None,
    retry: Retry = ONCE,
    rollback_retry: Retry = ONCE,
) -> type[Step]:
    """Return a step class that notes what is done with it, then does what it is given."""
    policy, back = retry, rollback_retry

    class Logged(Step):
        retry = policy
        rollback_retry = back

        def run(self) -> Any:
            diary.append(f"+{name}")
            return name if run is None else run()

        def compensate(self, reason: object) -> Any:
            diary.append(f"!{name}")
            return None if compensate is None else compensate()

        def undo(self, result: object) -> Any:
            diary.append(f"-{name}")
            return None if undo is None else undo()

    Logged.__qualname__ = f"Logged_{name}"
    return Logged


def async_logged(
    diary: list[str],
    name: str,
    run: Callable[[], Any] | None = None,
    *,
    undo: Callable[[], Any] | None = None,
    compensate: Callable[[], Any] | None = None,
) -> type[Step]:
    """Like `logged`, with async bodies."""

    class AsyncLogged(Step):
        async def run(self) -> Any:
            diary.append(f"+{name}")
            return name if run is None else run()

        async def compensate(self, reason: object) -> Any:
            diary.append(f"!{name}")
            return None if compensate is None else compensate()

        async def undo(self, result: object) -> Any:
            diary.append(f"-{name}")
            return None if undo is None else undo()

    AsyncLogged.__qualname__ = f"AsyncLogged_{name}"
    return AsyncLogged


def raising(exception: BaseException) -> Callable[[], Any]:
    """Return a function that raises `exception`."""

    def throw() -> Any:
        raise exception

    return throw


def only_run() -> Run:
    """Return the one run in the storage."""
    (run,) = runs()
    return run
