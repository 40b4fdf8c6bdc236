"""The two drivers: they perform an execution's effects, and decide nothing.

`SyncDriver` runs bodies in the caller's thread, or in the runtime's pool when the reactor allows
several at a time. `AsyncDriver` runs async bodies on the caller's loop and everything that blocks
in threads of the pool, so that no run costs a thread while it waits.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import inspect
import queue
from collections import deque
from collections.abc import Generator, Iterable
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
from calandria.runtime.outcomes import WorkerStopping, of_exception, of_value
from calandria.runtime.session import Session

T = TypeVar("T")
Execution = Generator[Effect, Any, T]


def _settlement(
    session: Session, body: Body, outcome: StepOutcome | Interrupted, began: float
) -> Settlement:
    clock = session.services.clock
    return Settlement(body, outcome, session.next_order(), clock.now(), clock.monotonic() - began)


def _outcome_of(
    exception: BaseException, session: Session, body: Body
) -> StepOutcome | Interrupted:
    if isinstance(exception, Exception) and isinstance(session.interruption, WorkerStopping):
        # it was told to leave its work to another worker, and this is how it left
        return Interrupted(None)
    return of_exception(exception, stopping=session.stops(backward=body.backward))


class SyncDriver:
    """Drives an execution to its end in the calling thread."""

    def __init__(
        self, session: Session, loop: BackgroundLoop, pool: ThreadPoolExecutor | None
    ) -> None:
        """With a `pool`, bodies run there, several at a time; without, or alone, in this thread."""
        self._session = session
        self._loop = loop
        self._pool = pool
        self._started: deque[Body] = deque()
        self._ended: deque[Settlement] = deque()
        """What has settled and was not yet taken: an interruption may come at any instruction."""
        self._performing: Body | None = None
        self._awake: queue.SimpleQueue[None] = queue.SimpleQueue()

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
                    self._await_settlement(effect.timeout)
                except KeyboardInterrupt as interruption:
                    self._cut_off()
                    error = Interruption(interruption)
                else:
                    # taken where an interruption cannot be told, and so cannot lose it in silence
                    answer = self._ended.popleft() if self._ended else None

    def _wake(self) -> None:
        self._awake.put(None)

    def _start(self, body: Body) -> None:
        if self._pool is None or body.alone:
            self._started.append(body)
            return
        context = contextvars.copy_context()
        self._pool.submit(context.run, self._perform_in_pool, body)

    def _perform_in_pool(self, body: Body) -> None:
        self._ended.append(self._perform(body))
        self._wake()

    def _await_settlement(self, timeout: float | None) -> None:
        if self._started:
            # in two places for a moment: an interruption between two instructions loses no body
            self._performing = self._started[0]
            self._started.popleft()
            self._ended.append(self._perform(self._performing))
            self._performing = None
        elif not self._ended:
            with contextlib.suppress(queue.Empty):
                self._awake.get(timeout=timeout)

    def _cut_off(self) -> None:
        """Settle the body that was being performed, if an interruption came just beside it."""
        body, self._performing = self._performing, None
        if self._started and self._started[0] is body:
            self._started.popleft()
        if body is not None and not any(ended.body is body for ended in self._ended):
            clock = self._session.services.clock
            self._ended.append(
                _settlement(self._session, body, Interrupted(None), clock.monotonic())
            )

    def _perform(self, body: Body) -> Settlement:
        began = self._session.services.clock.monotonic()
        outcome: StepOutcome | Interrupted
        try:
            value = body.call()
            if inspect.iscoroutine(value):
                value = self._loop.run(value, self._session, path=body.path, backward=body.backward)
            outcome = of_value(value)
        except BaseException as exception:
            outcome = _outcome_of(exception, self._session, body)
        return _settlement(self._session, body, outcome, began)


class AsyncDriver:
    """Drives an execution to its end on the running event loop.

    A cancellation of the surrounding task interrupts the run. Around `nested` work it does not:
    either the run is stopping, and what is nested sees that for itself, or a body cancelled its own
    work, which fails with it. In any case the task learns of it once everything has settled.
    """

    def __init__(
        self, session: Session, pool: ThreadPoolExecutor, *, nested: bool, backward: bool = False
    ) -> None:
        """`backward` tells that the body around nested work undoes or compensates."""
        self._session = session
        self._pool = pool
        self._nested = nested
        self._backward = backward
        self._loop = asyncio.get_running_loop()
        self._settled: asyncio.Queue[Settlement | None] = asyncio.Queue()
        self._tasks: dict[asyncio.Task[Settlement], Body] = {}
        self._cancelled: BaseException | None = None
        self._told = False
        """Whether the execution was told of the cancellation."""

    async def drive(self, execution: Execution[T]) -> T:
        """Perform every effect and return what the execution returns."""
        self._session.listen(self._stop)
        try:
            value = await self._drive(execution)
        finally:
            self._session.unlisten(self._stop)
        if self._cancelled is not None and not self._told:
            raise self._cancelled
        return value

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
                except asyncio.CancelledError as cancelled:
                    error = self._on_cancelled(cancelled)

    def _on_cancelled(self, cancelled: asyncio.CancelledError) -> Interruption | None:
        if not self._nested:
            self._cancelled, self._told = cancelled, True
            return Interruption(cancelled)
        if self._cancelled is None:
            self._cancelled = cancelled
            if not self._session.stops(backward=self._backward):
                self._cancel_tasks(tuple(self._tasks))
        return None

    def _stop(self) -> None:
        """Cancel the async bodies that are to stop; called from any thread."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._cancel_bodies)

    def _cancel_bodies(self) -> None:
        self._cancel_tasks(
            [
                t
                for t, b in self._tasks.items()
                if self._session.stops_at(b.path, backward=b.backward)
            ]
        )
        self._settled.put_nowait(None)

    def _cancel_tasks(self, tasks: Iterable[asyncio.Task[Settlement]]) -> None:
        for task in tasks:
            task.cancel()

    async def _io(self, effect: Io) -> Any:
        """Perform a storage call in a thread; a cancellation waits for it, then is delivered."""
        future = self._loop.run_in_executor(self._pool, effect.call)
        while True:
            try:
                return await asyncio.shield(future)
            except asyncio.CancelledError as cancelled:
                if self._nested:
                    self._on_cancelled(cancelled)
                elif self._cancelled is not None:
                    raise
                else:
                    self._cancelled = cancelled

    async def _next(self, timeout: float | None) -> Settlement | None:
        if self._cancelled is not None and not self._told and not self._nested:
            raise self._cancelled
        try:
            async with asyncio.timeout(timeout):
                return await self._settled.get()
        except TimeoutError:
            return None

    def _start(self, body: Body) -> None:
        began = self._session.services.clock.monotonic()
        if body.is_async:
            task = self._loop.create_task(self._perform(body, began))
            self._tasks[task] = body
            task.add_done_callback(functools.partial(self._task_done, began))
            return
        context = contextvars.copy_context()
        future = self._pool.submit(context.run, self._perform_in_thread, body, began)
        future.add_done_callback(self._deliver)

    def _deliver(self, future: Future[Settlement]) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._settled.put_nowait, future.result())

    def _task_done(self, began: float, task: asyncio.Task[Settlement]) -> None:
        body = self._tasks.pop(task)
        if task.cancelled():
            # before its first step, so that nothing in it could see to its own settlement
            outcome = _outcome_of(asyncio.CancelledError(), self._session, body)
            self._settled.put_nowait(_settlement(self._session, body, outcome, began))
        else:
            self._settled.put_nowait(task.result())

    def _perform_in_thread(self, body: Body, began: float) -> Settlement:
        outcome: StepOutcome | Interrupted
        try:
            outcome = of_value(body.call())
        except BaseException as exception:
            outcome = _outcome_of(exception, self._session, body)
        return _settlement(self._session, body, outcome, began)

    async def _perform(self, body: Body, began: float) -> Settlement:
        outcome: StepOutcome | Interrupted
        try:
            value = body.call()
            outcome = of_value(await value if inspect.isawaitable(value) else value)
        except BaseException as exception:
            outcome = _outcome_of(exception, self._session, body)
        return _settlement(self._session, body, outcome, began)


def in_event_loop() -> bool:
    """Tell whether the calling thread is running an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
