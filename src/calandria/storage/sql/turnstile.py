"""A queue for the writers of one file, so that they wait their turn asleep instead of polling.

SQLite's own waiting is a poll with growing pauses, in which a busy writer that comes back at once
beats everyone who waits. Writers therefore stand in line at an advisory lock on a file beside the
database first. It is for fairness only: SQLite's locks still guard the data.
"""

from __future__ import annotations

import os
import sys
from types import TracebackType

if sys.platform != "win32":
    import fcntl


class Turnstile:
    """Lets one writer through at a time; `with turnstile:` waits for the turn.

    Raises `OSError` from the constructor when the file cannot be created or opened for writing.
    """

    def __init__(self, path: str) -> None:
        self._file: int | None = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)

    def __enter__(self) -> None:
        if self._file is not None and sys.platform != "win32":
            fcntl.flock(self._file, fcntl.LOCK_EX)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._file is not None and sys.platform != "win32":
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the file, which also gives up the turn; idempotent."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


class NoTurnstile:
    """For a database that no other process can reach."""

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        return None

    def close(self) -> None:
        """Do nothing."""
