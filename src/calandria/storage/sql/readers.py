"""Connections for reading: lent out one to a thread, a few kept for the next."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

KEPT = 4
"""How many idle connections are kept open."""


class Readers:
    """Lends connections that `open_connection` makes."""

    def __init__(self, open_connection: Callable[[], sqlite3.Connection]) -> None:
        self._open = open_connection
        # entered by itself: an interruption could come inside the condition's own `__enter__`
        self._lock = threading.Lock()
        self._returned = threading.Condition(self._lock)
        self._idle: list[sqlite3.Connection] = []
        self._lent = 0
        self._closed = False

    @contextmanager
    def borrow(self) -> Iterator[sqlite3.Connection]:
        """Lend a connection for the block."""
        with self._lock:
            self._lent += 1
            connection = self._idle.pop() if self._idle else None
        try:
            connection = connection or self._open()
            yield connection
        finally:
            self._take_back(connection)

    def close(self) -> None:
        """Close what is idle now, and what is lent when it comes back."""
        with self._lock:
            self._closed = True
            self._close_idle()

    def suspend(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds until nothing is lent, close all, and lend nothing more.

        Returns false, having changed nothing, when the time is over first.
        """
        if not self._lock.acquire(timeout=timeout):
            return False
        if not self._returned.wait_for(lambda: self._lent == 0, timeout):
            self._lock.release()
            return False
        self._close_idle()
        return True

    def resume(self) -> None:
        """Lend again, after `suspend`."""
        self._lock.release()

    def _take_back(self, connection: sqlite3.Connection | None) -> None:
        with self._lock:
            self._lent -= 1
            if connection is not None:
                if self._closed or len(self._idle) >= KEPT:
                    connection.close()
                else:
                    self._idle.append(connection)
            self._returned.notify_all()

    def _close_idle(self) -> None:
        while self._idle:
            self._idle.pop().close()
