"""Ctrl-C between any two instructions of the driver ends the run, and never hangs it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import CodeType, FrameType
from typing import Any

import pytest

from calandria import Reactor, Runtime, runs, step
from calandria.runtime import drivers
from calandria.runtime.drivers import SyncDriver
from calandria.statuses import RunStatus


class Pair(Reactor):
    @step
    def first() -> str:
        return "a"

    @step
    def second(*, first: str) -> str:
        return first + "b"


class Together(Reactor):
    max_concurrency = 2

    @step
    def left() -> str:
        return "l"

    @step
    def right() -> str:
        return "r"


WATCHED = {
    SyncDriver.drive.__code__,
    SyncDriver._drive.__code__,
    SyncDriver._start.__code__,
    SyncDriver._await_settlement.__code__,
    SyncDriver._perform.__code__,
    drivers._settlement.__code__,
}


@contextmanager
def interrupted(codes: set[CodeType], nth: int) -> Iterator[list[int]]:
    """Raise `KeyboardInterrupt` before the nth instruction of these functions, in this thread."""
    seen = [0]

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        if frame.f_code not in codes:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode":
            seen[0] += 1
            if seen[0] == nth:
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield seen
    finally:
        sys.settrace(before)


@pytest.mark.parametrize("reactor", [Pair, Together])
def test_an_interruption_at_any_instruction(reactor: type[Reactor]) -> None:
    nth = 0
    while True:
        nth += 1
        with Runtime("memory://") as runtime:
            bound: Any = reactor.options(runtime=runtime)
            with interrupted(WATCHED, nth) as seen, suppress(KeyboardInterrupt):
                bound.run()
            for run in runs(runtime=runtime):  # none if it came before the run was created
                assert run.status in (RunStatus.ABORTED, RunStatus.COMPLETED), nth
                assert run.lease_owner is None, nth
        if seen[0] < nth:
            break
    assert nth > 20
