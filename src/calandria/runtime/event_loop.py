"""One long-lived event loop in a thread, for async bodies under a synchronous `run`."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future, wait
from typing import Any

from calandria.errors import CalandriaError
from calandria.runtime.session import Session


class BackgroundLoop:
    """Starts on first use; a forked child starts its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._pid = os.getpid()

    def run(
        self,
        coroutine: Coroutine[Any, Any, Any],
        session: Session | None = None,
        *,
        path: str = "",
        backward: bool = False,
    ) -> Any:
        """Run a coroutine on the loop and return its value, or raise what it raised.

        It is cancelled when `session` asks the body at `path` to stop (`backward`: only by what
        also ends a rollback) and when this thread is interrupted; it is awaited to its end all the
        same. A second interruption leaves at once. Raises `CalandriaError` in the loop's own
        thread, which would wait for itself.
        """
        if self.owns_current_thread():
            coroutine.close()
            raise CalandriaError(
                "An async body that runs on Calandria's own event loop called synchronously what "
                "has an async body itself, and would wait for itself: use `await ...acall(...)` "
                "or `await ...arun(...)`."
            )
        performance = _Performance(coroutine, self._started())

        def stop() -> None:
            if session is not None and session.stops_at(path, backward=backward):
                performance.cancel()

        try:
            performance.start()
            if session is not None:
                session.listen(stop)
                stop()
            return performance.result()
        except BaseException:
            performance.end()
            raise
        finally:
            if session is not None:
                session.unlisten(stop)

    def forget(self) -> None:
        """In a forked child: let go of the parent's loop, and of a lock it may have held."""
        self._lock = threading.Lock()
        self._loop = self._thread = None

    def owns_current_thread(self) -> bool:
        """Tell whether the calling thread is the loop's own."""
        return threading.current_thread() is self._thread

    def close(self) -> None:
        """Stop the loop; what still runs on it is cancelled."""
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is None or thread is None or self._pid != os.getpid():
            return
        loop.call_soon_threadsafe(loop.stop)
        if thread is not threading.current_thread():
            thread.join()

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None or self._pid != os.getpid():
                loop = asyncio.new_event_loop()
                thread = threading.Thread(
                    target=self._serve, args=(loop,), name="calandria-loop", daemon=True
                )
                # kept only once it is served: an interruption may come in between
                thread.start()
                self._pid, self._loop, self._thread = os.getpid(), loop, thread
            return self._loop

    @staticmethod
    def _serve(loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
        finally:
            tasks = asyncio.all_tasks(loop)
            for task in tasks:
                task.cancel()
            if tasks:
                loop.run_until_complete(asyncio.wait(tasks, timeout=1.0))
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()


class _Performance:
    """One coroutine on its way; its end is waited for even when it was cancelled."""

    def __init__(
        self, coroutine: Coroutine[Any, Any, Any], loop: asyncio.AbstractEventLoop
    ) -> None:
        self._coroutine = coroutine
        self._loop = loop
        self._task: asyncio.Task[None] | None = None
        self._ended: Future[Any] = Future()

    def start(self) -> None:
        """Begin to perform it on the loop."""
        # the callback runs in a copy of this thread's context, and the task inherits it
        self._loop.call_soon_threadsafe(self._start)

    def result(self) -> Any:
        """Wait for the end; return or raise what the coroutine did."""
        return self._ended.result()

    def end(self) -> None:
        """Cancel it and wait for its end, if that is still to come."""
        if not self._ended.done():
            self.cancel()
            wait([self._ended])

    def cancel(self) -> None:
        """Ask the coroutine to stop; called from any thread."""
        self._loop.call_soon_threadsafe(self._cancel)

    def _start(self) -> None:
        if self._ended.done():
            return
        self._task = self._loop.create_task(self._perform())
        self._task.add_done_callback(self._done)

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()
        elif not self._ended.done():
            # an interruption came before it was begun
            self._coroutine.close()
            self._ended.set_exception(asyncio.CancelledError())

    async def _perform(self) -> None:
        # kept from the task, which would pass an interruption on to the loop and so end it
        try:
            self._ended.set_result(await self._coroutine)
        except BaseException as error:
            self._ended.set_exception(error)

    def _done(self, task: asyncio.Task[None]) -> None:
        if not self._ended.done():
            self._coroutine.close()
            self._ended.set_exception(asyncio.CancelledError())
