"""Thread pools that are made at first use, and made anew in a forked child; calls in them."""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Generic, TypeVar

T = TypeVar("T")


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


async def in_thread(
    pool: ThreadPoolExecutor,
    call: Callable[..., T],
    *arguments: Any,
    undo: Callable[[T], object] | None = None,
) -> T:
    """Perform a blocking call in a thread of `pool`, with the context variables of this task.

    A task that is cancelled meanwhile goes on at once, and the call to its end: `undo` is then
    called with what it returned, in a thread of the pool as well.
    """
    awaited = _AwaitedCall(partial(call, *arguments), undo)
    context = contextvars.copy_context()
    loop = asyncio.get_running_loop()
    try:
        return await loop.run_in_executor(pool, context.run, awaited.perform)
    except asyncio.CancelledError:
        if awaited.abandon():
            pool.submit(context.run, awaited.undo)
        raise


class _AwaitedCall(Generic[T]):
    """A call whose value is undone unless somebody takes it, whichever of the two ends first."""

    def __init__(self, call: Callable[[], T], undo: Callable[[T], object] | None) -> None:
        self._call = call
        self._undo = undo
        self._lock = threading.Lock()
        self._returned: list[T] = []
        self._abandoned = False

    def perform(self) -> T:
        value = self._call()
        with self._lock:
            self._returned.append(value)
            abandoned = self._abandoned
        if abandoned:
            self.undo()
        return value

    def abandon(self) -> bool:
        """Note that nobody takes the value; true if the call has returned and is to be undone."""
        with self._lock:
            self._abandoned = True
            return bool(self._returned)

    def undo(self) -> None:
        if self._undo is not None:
            self._undo(self._returned[0])
