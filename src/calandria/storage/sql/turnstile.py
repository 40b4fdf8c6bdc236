"""A queue for the writers of one file, so that they wait their turn asleep instead of polling.

SQLite's own waiting is a poll with growing pauses, in which a busy writer that comes back at once
beats everyone who waits. Writers therefore stand in line at an advisory lock on a file beside the
database first. It is for fairness only: SQLite's locks still guard the data.

The line knows who is urgent: a caller for whom someone waits, where a worker has the whole
background to itself. While such a one waits, the others leave the file free for `PAUSE` times as
long as they have just held it, so that a busy worker takes a small part of the time.
"""

from __future__ import annotations

import os
import sys
import time
from types import TracebackType

if sys.platform != "win32":
    import fcntl

PAUSE = 3.0
LONGEST_PAUSE = 0.05
"""Seconds."""


class Turnstile:
    """Lets one writer through at a time: `with turnstile:`, or `enter` and `leave`.

    Raises `OSError` from the constructor when the files cannot be created or opened for writing.
    """

    def __init__(self, path: str) -> None:
        self._urgent: int | None = None
        self._file: int | None = _open(path)
        try:
            # held, shared, by those who wait and are urgent
            self._urgent = _open(f"{path}-urgent")
        except BaseException:
            self.close()
            raise
        self._entered = 0.0
        self._not_before = 0.0

    def enter(self, *, urgent: bool = False) -> None:
        """Wait for the turn."""
        if self._file is None or self._urgent is None or sys.platform == "win32":
            return
        try:
            if urgent:
                self._wait_urgently(self._file, self._urgent)
            else:
                self._wait(self._file)
            self._entered = time.monotonic()
        except BaseException:
            # an interruption may come when the turn has just been given
            fcntl.flock(self._file, fcntl.LOCK_UN)
            raise

    def _wait(self, file: int) -> None:
        pause = self._not_before - time.monotonic()
        if pause > 0:  # even a sleep of no time costs as much as a commit
            time.sleep(pause)
        fcntl.flock(file, fcntl.LOCK_EX)

    def _wait_urgently(self, file: int, mark: int) -> None:
        try:
            fcntl.flock(mark, fcntl.LOCK_SH)
            fcntl.flock(file, fcntl.LOCK_EX)
        finally:
            fcntl.flock(mark, fcntl.LOCK_UN)

    @property
    def urgently(self) -> UrgentTurn:
        """What to enter instead for work that someone waits for."""
        return UrgentTurn(self)

    def __enter__(self) -> None:
        self.enter()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.leave()

    @property
    def wanted(self) -> bool:
        """Whether someone urgent waits in another process."""
        if self._urgent is None or sys.platform == "win32":
            return False
        try:
            fcntl.flock(self._urgent, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
        finally:
            fcntl.flock(self._urgent, fcntl.LOCK_UN)
        return False

    def leave(self) -> None:
        """Let the next one through."""
        if self._file is None or sys.platform == "win32":
            return
        try:
            if self.wanted:
                now = time.monotonic()
                pause = min((now - self._entered) * PAUSE, LONGEST_PAUSE)
                self._not_before = now + pause
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the files, which also gives up the turn; idempotent."""
        for file in (self._file, self._urgent):
            if file is not None:
                os.close(file)
        self._file = self._urgent = None


class UrgentTurn:
    """The turn of someone urgent."""

    def __init__(self, turnstile: Turnstile | NoTurnstile) -> None:
        self._turnstile = turnstile

    def __enter__(self) -> None:
        self._turnstile.enter(urgent=True)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._turnstile.leave()


class NoTurnstile:
    """For a database that no other process can reach."""

    wanted = False

    @property
    def urgently(self) -> UrgentTurn:
        """What to enter instead for work that someone waits for."""
        return UrgentTurn(self)

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        return None

    def enter(self, *, urgent: bool = False) -> None:
        """Go on at once."""

    def leave(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


def _open(path: str) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
