"""Time, as the library sees it: injected, so that tests can move it."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Two readings: one for people and schedules, one for measuring."""

    def now(self) -> float:
        """Return seconds since 1970 by the wall clock; it may be set back or forward."""
        ...

    def monotonic(self) -> float:
        """Return seconds of a clock that only goes forward, for durations."""
        ...


class SystemClock:
    """The host's clocks."""

    def now(self) -> float:
        """Return seconds since 1970 by the wall clock."""
        return time.time()

    def monotonic(self) -> float:
        """Return seconds of a clock that only goes forward."""
        return time.monotonic()
