"""One long-lived event loop in a thread, for async bodies under a synchronous `run`."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from typing import Any

from calandria.runtime.session import Session


class BackgroundLoop:
    """Starts on first use; a forked child starts its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._pid = os.getpid()

    def run(self, coroutine: Coroutine[Any, Any, Any], session: Session | None = None) -> Any:
        """Run a coroutine on the loop and return its value, or raise what it raised.

        It is cancelled when `session` is asked to stop, and when this thread is interrupted.
        """
        future = asyncio.run_coroutine_threadsafe(coroutine, self._started())
        if session is None:
            return future.result()

        def stop() -> None:
            future.cancel()

        session.listen(stop)
        try:
            if session.stopping:
                future.cancel()
            return future.result()
        except BaseException:
            future.cancel()
            raise
        finally:
            session.unlisten(stop)

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
        if not self.owns_current_thread():
            thread.join()

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None or self._pid != os.getpid():
                self._pid = os.getpid()
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._serve, args=(self._loop,), name="calandria-loop", daemon=True
                )
                self._thread.start()
            return self._loop

    @staticmethod
    def _serve(loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
        finally:
            for task in asyncio.all_tasks(loop):
                task.cancel()
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()
