"""Several steps at a time, threads and loops, and what crosses between them."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from typing import Any

import pytest

from calandria import Failure, Reactor, Runtime, Step, Success, compose, element, map_each, step
from tests.unit.runtime.saga import Outage, logged, only_run, raising

pytestmark = pytest.mark.usefixtures("runtime")

current: contextvars.ContextVar[str] = contextvars.ContextVar("current", default="unset")


class Look(Step):
    def run(self) -> str:
        return current.get()


class AsyncLook(Step):
    async def run(self) -> str:
        await asyncio.sleep(0)
        return current.get()


class NestedLook(Step):
    def run(self) -> Any:
        return self.context.call(AsyncLook)


class AsyncNestedLook(Step):
    async def run(self) -> Any:
        return await self.context.acall(Look)


@pytest.mark.parametrize("target", [Look, AsyncLook, NestedLook, AsyncNestedLook])
@pytest.mark.parametrize("several", [1, 4])
@pytest.mark.parametrize("how", ["run", "arun"])
def test_context_variables_reach_bodies(target: type[Step], several: int, how: str) -> None:
    class Saga(Reactor):
        concurrency = several
        look = step(target)
        other = step(Look)
        returns = look

    current.set("from the caller")
    result = Saga.run() if how == "run" else asyncio.run(Saga.arun())

    assert result == Success("from the caller")


def meeting(count: int, reactor_concurrency: int) -> type[Reactor]:
    barrier = threading.Barrier(count, timeout=10)

    class Meet(Step):
        def run(self) -> str:
            barrier.wait()
            return "met"

    class Saga(Reactor):
        concurrency = reactor_concurrency
        a = step(Meet)
        b = step(Meet)
        c = step(Meet)
        d = step(Meet)

    return Saga


@pytest.mark.parametrize("how", ["run", "arun"])
def test_independent_steps_really_run_at_the_same_time(how: str) -> None:
    saga = meeting(4, 4)

    result = saga.run() if how == "run" else asyncio.run(saga.arun())

    assert result == Success("met")


@pytest.mark.parametrize("how", ["run", "arun"])
def test_never_more_at_a_time_than_the_reactor_allows(how: str) -> None:
    lock, gate = threading.Lock(), threading.Barrier(3, timeout=10)
    inside, most = 0, 0

    class Count(Step):
        def run(self) -> None:
            nonlocal inside, most
            with lock:
                inside += 1
                most = max(most, inside)
            gate.wait()
            with lock:
                inside -= 1

    class Saga(Reactor):
        concurrency = 3
        a, b, c, d, e, f = (step(Count) for _ in range(6))

    result = Saga.run() if how == "run" else asyncio.run(Saga.arun())

    assert result.ok
    assert most == 3


def test_one_at_a_time_is_in_the_callers_thread_in_declaration_order(diary: list[str]) -> None:
    threads: list[threading.Thread] = []

    class Where(Step):
        def run(self) -> None:
            threads.append(threading.current_thread())

        def undo(self, result: object) -> None:
            threads.append(threading.current_thread())

        def compensate(self, reason: object) -> None:
            threads.append(threading.current_thread())

    class Inner(Reactor):
        where = step(Where)

    class Saga(Reactor):
        first = step(logged(diary, "first"))
        second = step(logged(diary, "second"))
        where = step(Where)
        inner = compose(Inner)
        each = map_each(Where, over=[0])
        third = step(logged(diary, "third", raising(Outage())))

    Saga.run()

    assert diary[:3] == ["+first", "+second", "+third"]
    assert threads == [threading.current_thread()] * 6


def test_only_what_may_overlap_leaves_the_callers_thread() -> None:
    threads: dict[str, threading.Thread] = {}

    class Where(Step):
        name: str

        def run(self) -> None:
            threads[self.name] = threading.current_thread()

    class Inner(Reactor):
        concurrency = 2
        where = step(Where, name="inner")

    class Saga(Reactor):
        where = step(Where, name="outer")
        inner = compose(Inner).after(where)
        last = step(Where, name="last").after(inner)

    Saga.run()

    caller = threading.current_thread()
    assert threads["outer"] is threads["last"] is caller
    assert threads["inner"] is not caller


def test_composed_and_mapped_reactors_overlap_with_their_siblings() -> None:
    barrier = threading.Barrier(3, timeout=10)

    class Meet(Step):
        def run(self) -> None:
            barrier.wait()

    class Inner(Reactor):
        meet = step(Meet)

    class Saga(Reactor):
        concurrency = 3
        plain = step(Meet)
        inner = compose(Inner)
        each = map_each(Inner, over=[0])

    assert Saga.run().ok


def test_a_blocking_sync_step_does_not_block_the_loop_under_arun() -> None:
    released = threading.Event()

    class Block(Step):
        def run(self) -> bool:
            return released.wait(10)

    class Saga(Reactor):
        block = step(Block)

    async def main() -> Any:
        task = asyncio.create_task(Saga.arun())
        await asyncio.sleep(0.01)
        released.set()
        return await task

    assert asyncio.run(main()) == Success(True)


def test_async_bodies_of_arun_run_on_the_callers_loop() -> None:
    loops: list[asyncio.AbstractEventLoop] = []

    class Where(Step):
        async def run(self) -> None:
            loops.append(asyncio.get_running_loop())

        async def undo(self, result: object) -> None:
            loops.append(asyncio.get_running_loop())

    class Saga(Reactor):
        where = step(Where)
        broken = step(logged([], "broken", raising(Outage()))).after(where)

    async def main() -> None:
        await Saga.arun()
        loops.append(asyncio.get_running_loop())

    asyncio.run(main())
    assert len(set(loops)) == 1
    assert len(loops) == 3


def test_async_bodies_of_run_share_one_long_lived_loop() -> None:
    loops: set[asyncio.AbstractEventLoop] = set()

    class Where(Step):
        async def run(self) -> None:
            loops.add(asyncio.get_running_loop())

    class Saga(Reactor):
        concurrency = 2
        a = step(Where)
        b = step(Where)

    Saga.run()
    Saga.run()
    assert len(loops) == 1


def test_many_aruns_in_one_loop() -> None:
    class Sleep(Step):
        number: int

        async def run(self) -> int:
            await asyncio.sleep(0.001)
            return self.number

    class Block(Step):
        number: int

        def run(self) -> int:
            time.sleep(0)
            return self.number

    class Saga(Reactor):
        number: int
        asleep = step(Sleep)
        blocked = step(Block).after(asleep)

    async def main() -> Any:
        return await asyncio.gather(*(Saga.arun(number=n) for n in range(200)))

    assert asyncio.run(main()) == [Success(n) for n in range(200)]


def test_nested_aruns_do_not_starve_each_other() -> None:
    class Leaf(Reactor):
        @step
        async def leaf() -> int:
            return 1

    class Branch(Reactor):
        @step
        async def branch() -> Any:
            results = await asyncio.gather(*(Leaf.arun() for _ in range(5)))
            return sum(r.value for r in results if isinstance(r, Success))

    async def main() -> Any:
        return await asyncio.gather(*(Branch.arun() for _ in range(10)))

    assert asyncio.run(main()) == [Success(5)] * 10


def test_concurrent_runs_in_threads_do_not_disturb_each_other() -> None:
    class Saga(Reactor):
        number: int

        @step
        def double(*, number: int) -> int:
            return number * 2

    results: dict[int, Any] = {}

    def run(number: int) -> None:
        results[number] = Saga.options(runtime=runtime).run(number=number)

    with Runtime("memory://") as runtime:
        threads = [threading.Thread(target=run, args=(n,)) for n in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)

    assert results == {n: Success(n * 2) for n in range(16)}


def test_retries_wait_their_turn_within_the_limit() -> None:
    inside = most = 0
    lock = threading.Lock()

    class Flaky(Step):
        number: int

        def run(self) -> int:
            nonlocal inside, most
            with lock:
                inside += 1
                most = max(most, inside)
            time.sleep(0)
            with lock:
                inside -= 1
            if self.context.attempt == 1:
                raise Outage
            return self.number

    class Saga(Reactor):
        concurrency = 2
        a, b, c, d = (step(Flaky, number=n).retry(max_attempts=2, base_delay=0) for n in range(4))
        returns = d

    assert Saga.run() == Success(3)
    assert most <= 2


def test_a_failure_in_one_async_step_lets_the_other_settle(diary: list[str]) -> None:
    failed = asyncio.Event()

    class Slow(Step):
        async def run(self) -> str:
            await failed.wait()
            await asyncio.sleep(0.001)
            diary.append("late")
            return "slow"

        async def undo(self, result: str) -> None:
            diary.append(f"-{result}")

    class Broken(Step):
        async def run(self) -> None:
            failed.set()
            raise Outage

        async def compensate(self, reason: object) -> None:
            diary.append("!broken")

    class Saga(Reactor):
        concurrency = 2
        slow = step(Slow)
        broken = step(Broken)

    result = asyncio.run(Saga.arun())

    assert isinstance(result, Failure)
    assert diary == ["late", "!broken", "-slow"]
    assert only_run().rollback == "complete"


def test_elements_of_an_inline_map_run_one_at_a_time_whatever_the_concurrency() -> None:
    inside = 0

    class Count(Step):
        number: int

        def run(self) -> None:
            nonlocal inside
            inside += 1
            assert inside == 1
            inside -= 1

    class Saga(Reactor):
        concurrency = 4
        each = map_each(Count, over=range(20), number=element)

    assert Saga.run().ok
