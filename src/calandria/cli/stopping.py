"""Being asked to stop: the first signal is a request, the second an order."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
from queue import Empty, SimpleQueue
from types import FrameType, TracebackType

from calandria.telemetry.formatters import FIELDS, key_values

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
LONGEST_WAIT = 0.5
"""Seconds between two looks for a signal that came at an odd moment."""


def tell(level: int, event: str, **fields: object) -> None:
    """Log what happens to the worker process itself, as the library's own lines are written."""
    known = {"event": event, **fields}
    logging.getLogger("calandria.worker").log(
        level, "%s", key_values(known.items()), extra={FIELDS: known}
    )


class StopRequests:
    """Takes SIGTERM and SIGINT as requests to stop, in the block that it is entered for.

    To be entered in the main thread. A second signal ends the process at once, with the exit
    code 128 and the signal's number, as if the signal itself had done it.
    """

    def __init__(self) -> None:
        # the one queue that a signal handler may put into while its own thread is inside `get`
        self._asked: SimpleQueue[int] = SimpleQueue()
        self._asked_before = False
        self._handlers: dict[signal.Signals, object] = {}

    def __enter__(self) -> StopRequests:
        for one in STOP_SIGNALS:
            self._handlers[one] = signal.signal(one, self._handle)
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for one, handler in self._handlers.items():
            signal.signal(one, handler)  # type: ignore[arg-type]

    def wait(self) -> str:
        """Wait for a request to stop and return the name of the signal that made it."""
        while True:
            # Python sees a signal that comes just before a wait at the end of the wait
            with contextlib.suppress(Empty):
                return signal.Signals(self._asked.get(timeout=LONGEST_WAIT)).name

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._asked_before:
            tell(logging.ERROR, "worker.aborted", signal=signal.Signals(number).name)
            os._exit(128 + number)
        self._asked_before = True
        self._asked.put(number)
