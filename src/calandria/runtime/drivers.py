"""The two drivers: they perform an execution's effects, and decide nothing.

`SyncDriver` runs bodies in the caller's thread, or in the runtime's pool when the reactor allows
several at a time. `AsyncDriver` runs async bodies on the caller's loop and everything that blocks
in threads of the pool, so that no run costs a thread while it waits.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import queue
from collections import deque
from collections.abc import Generator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from calandria.runtime.effects import (
    Body,
    Effect,
    Interrupted,
    Interruption,
    Io,
    Next,
    Settlement,
    Start,
    StepOutcome,
)
from calandria.runtime.event_loop import BackgroundLoop
from calandria.runtime.outcomes import of_exception, of_value
from calandria.runtime.session import Session

T = TypeVar("T")
Execution = Generator[Effect, Any, T]


def _settlement(
    session: Session, body: Body, outcome: StepOutcome | Interrupted, began: float
) -> Settlement:
    clock = session.services.clock
    return Settlement(body, outcome, session.next_order(), clock.now(), clock.monotonic() - began)


class SyncDriver:
    """Drives an execution to its end in the calling thread."""

    def __init__(
        self, session: Session, loop: BackgroundLoop, pool: ThreadPoolExecutor | None
    ) -> None:
        """With a `pool`, bodies run there, several at a time; without, in this thread."""
        self._session = session
        self._loop = loop
        self._pool = pool
        self._started: deque[Body] = deque()
        self._settled: queue.SimpleQueue[Settlement | None] = queue.SimpleQueue()
        self._in_flight = 0

    def drive(self, execution: Execution[T]) -> T:
        """Perform every effect and return what the execution returns."""
        self._session.listen(self._wake)
        try:
            return self._drive(execution)
        finally:
            self._session.unlisten(self._wake)

    def _drive(self, execution: Execution[T]) -> T:
        answer: Any = None
        error: BaseException | None = None
        while True:
            try:
                effect = execution.send(answer) if error is None else execution.throw(error)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            answer, error = None, None
            if type(effect) is Io:
                try:
                    answer = effect.call()
                except Exception as raised:
                    error = raised
            elif type(effect) is Start:
                self._start(effect.body)
            elif type(effect) is Next:
                try:
                    answer = self._next(effect.timeout)
                except KeyboardInterrupt as interruption:
                    error = Interruption(interruption)

    def _wake(self) -> None:
        self._settled.put(None)

    def _start(self, body: Body) -> None:
        if self._pool is None:
            self._started.append(body)
            return
        self._in_flight += 1
        context = contextvars.copy_context()
        self._pool.submit(context.run, self._perform_in_pool, body)

    def _perform_in_pool(self, body: Body) -> None:
        self._settled.put(self._perform(body))

    def _next(self, timeout: float | None) -> Settlement | None:
        if self._started:
            return self._perform(self._started.popleft())
        try:
            return self._settled.get(timeout=timeout)
        except queue.Empty:
            return None

    def _perform(self, body: Body) -> Settlement:
        began = self._session.services.clock.monotonic()
        outcome: StepOutcome | Interrupted
        try:
            value = body.call()
            if inspect.iscoroutine(value):
                value = self._loop.run(value, self._session)
            outcome = of_value(value)
        except BaseException as exception:
            outcome = of_exception(exception, stopping=self._session.stopping)
        return _settlement(self._session, body, outcome, began)


class AsyncDriver:
    """Drives an execution to its end on the running event loop."""

    def __init__(self, session: Session, pool: ThreadPoolExecutor) -> None:
        self._session = session
        self._pool = pool
        self._loop = asyncio.get_running_loop()
        self._settled: asyncio.Queue[Settlement | None] = asyncio.Queue()
        self._tasks: set[asyncio.Task[None]] = set()
        self._interruption: BaseException | None = None

    async def drive(self, execution: Execution[T]) -> T:
        """Perform every effect and return what the execution returns."""
        self._session.listen(self._stop)
        try:
            return await self._drive(execution)
        finally:
            self._session.unlisten(self._stop)

    async def _drive(self, execution: Execution[T]) -> T:
        answer: Any = None
        error: BaseException | None = None
        while True:
            try:
                effect = execution.send(answer) if error is None else execution.throw(error)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            answer, error = None, None
            if type(effect) is Io:
                try:
                    answer = await self._io(effect)
                except Exception as raised:
                    error = raised
            elif type(effect) is Start:
                self._start(effect.body)
            elif type(effect) is Next:
                try:
                    answer = await self._next(effect.timeout)
                except asyncio.CancelledError as interruption:
                    error = Interruption(interruption)

    def _stop(self) -> None:
        """Cancel the async bodies; called from any thread."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._cancel_bodies)

    def _cancel_bodies(self) -> None:
        for task in tuple(self._tasks):
            task.cancel()
        self._settled.put_nowait(None)

    async def _io(self, effect: Io) -> Any:
        """Perform a storage call in a thread; a cancellation waits for it, then is delivered."""
        future = self._loop.run_in_executor(self._pool, effect.call)
        while True:
            try:
                return await asyncio.shield(future)
            except asyncio.CancelledError as cancelled:
                if self._interruption is not None:
                    raise
                self._interruption = cancelled

    async def _next(self, timeout: float | None) -> Settlement | None:
        if self._interruption is not None:
            interruption, self._interruption = self._interruption, None
            raise interruption
        try:
            async with asyncio.timeout(timeout):
                return await self._settled.get()
        except TimeoutError:
            return None

    def _start(self, body: Body) -> None:
        if body.is_async:
            task = self._loop.create_task(self._perform(body))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            return
        context = contextvars.copy_context()
        future = self._pool.submit(context.run, self._perform_in_thread, body)
        future.add_done_callback(self._deliver)

    def _deliver(self, future: Future[Settlement]) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._settled.put_nowait, future.result())

    def _perform_in_thread(self, body: Body) -> Settlement:
        began = self._session.services.clock.monotonic()
        outcome: StepOutcome | Interrupted
        try:
            outcome = of_value(body.call())
        except BaseException as exception:
            outcome = of_exception(exception, stopping=self._session.stopping)
        return _settlement(self._session, body, outcome, began)

    async def _perform(self, body: Body) -> None:
        began = self._session.services.clock.monotonic()
        outcome: StepOutcome | Interrupted
        try:
            value = body.call()
            outcome = of_value(await value if inspect.isawaitable(value) else value)
        except BaseException as exception:
            outcome = of_exception(exception, stopping=self._session.stopping)
        self._settled.put_nowait(_settlement(self._session, body, outcome, began))


def in_event_loop() -> bool:
    """Tell whether the calling thread is running an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
