"""One commit for several threads: those that wait to write join the transaction that is open.

What a commit costs is mostly its way to the disk, which several transactions can share. A thread
that is done leaves the transaction open for the next one if one waits; the last, or the one that
makes it large enough, commits it for all, and only then do the others go on.
"""

from __future__ import annotations

import threading
from collections import deque

MOST_MEMBERS = 8
"""How many share a commit: other processes wait for as long as a transaction is open."""


class Group:
    """The threads that share an open transaction."""

    def __init__(self, *, lasting: bool) -> None:
        self.lasting = lasting
        self.members = 0
        self._over = threading.Event()
        self._error: BaseException | None = None

    def end(self, error: BaseException | None) -> None:
        """Let the members go on, or fail."""
        self._error = error
        self._over.set()

    def wait(self) -> None:
        """Wait for the commit; raises what it failed with."""
        self.wait_until_over()
        if self._error is not None:
            raise self._error

    def wait_until_over(self, timeout: float | None = None) -> bool:
        """Wait for the end, good or bad; false if the time is over first."""
        return self._over.wait(timeout)


class Candidates:
    """Counts the threads that are sure to write next: none of them can be interrupted."""

    def __init__(self) -> None:
        self.others = False
        """Whether someone waits who does not join: what is open is then to be committed."""
        # appending and popping are atomic
        self._waiting: deque[None] = deque()

    def come(self) -> None:
        """Stand in line."""
        self._waiting.append(None)

    def __len__(self) -> int:
        return len(self._waiting)

    def go(self) -> None:
        """Leave the line."""
        self._waiting.pop()

    def may_join(self, group: Group) -> bool:
        """Tell whether a group is to be left open: someone waits, and it is not large."""
        if self.others or not group.lasting:
            return False
        return bool(self._waiting) and group.members < MOST_MEMBERS
