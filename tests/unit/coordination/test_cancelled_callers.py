"""A task that is cancelled while it waits for a key, or works under one, leaves nothing held."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from calandria import Lock, OrderedLock, Reactor, Runtime, Step, Success, step
from tests.unit.coordination.helping import held_keys, let_go, stranger

Key = Callable[[Any], str]


def key_that_tells(asked: threading.Event) -> Key:
    def key(_: Any) -> str:
        asked.set()
        return "k"

    return key


async def cancel_once(asked: threading.Event, work: Coroutine[Any, Any, Any]) -> None:
    task = asyncio.create_task(work)
    assert await asyncio.to_thread(asked.wait, 30)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("is_async", [False, True])
def test_a_call_cancelled_while_it_waits_for_its_key(runtime: Runtime, is_async: bool) -> None:
    asked, ran = threading.Event(), threading.Event()

    class Sync(Step):
        coordination = [OrderedLock("s"), Lock(key_that_tells(asked), wait=60)]

        def run(self) -> None:
            ran.set()

    class Async(Step):
        coordination = [OrderedLock("s"), Lock(key_that_tells(asked), wait=60)]

        async def run(self) -> None:
            ran.set()

    with stranger(runtime, "k"):
        asyncio.run(cancel_once(asked, (Async if is_async else Sync).acall()))
    runtime.pool.shutdown(wait=True)

    assert held_keys(runtime) == []
    assert OrderedLock.peek("s", runtime=runtime) == []
    assert not ran.is_set()


def test_a_run_cancelled_while_it_waits_at_its_gates(runtime: Runtime) -> None:
    asked, ran = threading.Event(), threading.Event()

    class Guarded(Reactor):
        coordination = [OrderedLock("s"), Lock(key_that_tells(asked), wait=60)]

        @step
        def work() -> None:
            ran.set()

    async def cancel_then_free() -> None:
        await cancel_once(asked, Guarded.arun())
        let_go(runtime)

    with stranger(runtime, "k"):
        asyncio.run(cancel_then_free())
    runtime.pool.shutdown(wait=True)

    assert held_keys(runtime) == []
    assert OrderedLock.peek("s", runtime=runtime) == []
    assert not ran.is_set()


def test_a_cancelled_call_keeps_its_key_until_its_body_has_ended(runtime: Runtime) -> None:
    entered, held_at_the_end = threading.Event(), list[str]()

    class Slow(Step):
        coordination = [Lock("k")]

        def run(self) -> None:
            entered.set()
            pause = threading.Event()
            while not self.context.cancelled:
                pause.wait(0.001)
            held_at_the_end.extend(held_keys(runtime))

    asyncio.run(cancel_once(entered, Slow.acall()))

    assert held_at_the_end == ["k"]
    assert held_keys(runtime) == []


def test_a_sync_body_of_an_awaited_call_does_not_block_the_loop(runtime: Runtime) -> None:
    begun, turned = threading.Event(), threading.Event()

    class Waits(Step):
        def run(self) -> bool:
            begun.set()
            return turned.wait(5)

    async def call_and_turn() -> Any:
        task = asyncio.create_task(Waits.acall())
        assert await asyncio.to_thread(begun.wait, 30)
        turned.set()
        return await task

    assert asyncio.run(call_and_turn()) == Success(True)
