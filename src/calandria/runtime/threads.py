"""Thread pools that are made at first use, and made anew in a forked child."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor


class Threads:
    """A pool of at most `limit` threads, which begins with its first piece of work."""

    def __init__(self, limit: int, name: str) -> None:
        self._limit = limit
        self._name = name
        self._lock = threading.Lock()
        self._made: tuple[int, ThreadPoolExecutor] | None = None

    @property
    def pool(self) -> ThreadPoolExecutor:
        """The pool of this process."""
        found = self._made
        if found is None or found[0] != os.getpid():
            with self._lock:
                found = self._made
                if found is None or found[0] != os.getpid():
                    pool = ThreadPoolExecutor(self._limit, thread_name_prefix=self._name)
                    found = self._made = (os.getpid(), pool)
        return found[1]

    def close(self) -> None:
        """Let the threads end once they are idle."""
        if self._made is not None and self._made[0] == os.getpid():
            self._made[1].shutdown(wait=False)

    def start_anew(self) -> None:
        """In a forked child: the parent's threads are not here, nor whoever held the lock."""
        self._lock = threading.Lock()
        self._made = None
