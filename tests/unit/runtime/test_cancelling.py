"""Cancel stops a run and keeps what it did; `undo` is the verb that rolls back."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from calandria import (
    Failure,
    Reactor,
    Retry,
    Run,
    RunStateError,
    RunStatus,
    Runtime,
    Step,
    Success,
    UnknownRun,
    compose,
    element,
    map_each,
    runs,
    step,
)
from tests.unit.runtime.saga import Outage, logged, only_run, raising

pytestmark = pytest.mark.usefixtures("runtime")


def in_background(action: Callable[[], Any]) -> Callable[[], Any]:
    """Start `action` in a thread; what is returned waits for it and gives its result."""
    results: list[Any] = []

    def work() -> None:
        results.append(action())

    thread = threading.Thread(target=work)
    thread.start()

    def join() -> Any:
        thread.join(20)
        assert not thread.is_alive()
        return results[0]

    return join


class Gate:
    """A sync body that says when it is in and looks up until it is cancelled."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.saw: list[bool] = []

    def step(self, diary: list[str], *, finishes: bool = True) -> type[Step]:
        gate = self

        class Guarded(Step):
            def run(self) -> str:
                gate.entered.set()
                while not self.context.cancelled:
                    threading.Event().wait(0.001)
                gate.saw.append(self.context.cancelled)
                if not finishes:
                    raise Outage("stopped half-way")
                return "guarded"

            def compensate(self, reason: object) -> None:
                gate.saw.append(self.context.cancelled)
                diary.append(f"!guarded {reason}")

            def undo(self, result: str) -> None:
                diary.append("-guarded")

        return Guarded


def test_a_running_sync_step_sees_the_cancel_and_may_finish(
    diary: list[str], runtime: Runtime
) -> None:
    gate = Gate()

    class Saga(Reactor):
        first = step(logged(diary, "first"))
        guarded = step(gate.step(diary)).after(first)
        never = step(logged(diary, "never")).after(guarded)

    # Given a run in a step
    join = in_background(lambda: Saga.run())
    assert gate.entered.wait(10)
    run = only_run()

    # When it is cancelled
    Saga.cancel(run.id, "not needed")

    # Then the step sees it, its success is kept, and nothing more starts
    result = join()
    assert isinstance(result, Failure)
    assert (result.error, result.exception_class) == ("not needed", "Cancelled")
    assert gate.saw == [True]
    assert diary == ["+first"]
    assert (run.status, run.rollback, run.pending_compensation) == ("cancelled", "none", None)
    assert dict(run.results) == {"first": "first", "guarded": "guarded"}
    # and undo reverses it
    run.undo()
    assert diary == ["+first", "-guarded", "-first"]


def test_a_step_that_fails_because_of_the_cancel_is_pending_compensation(
    diary: list[str],
) -> None:
    gate = Gate()

    class Saga(Reactor):
        first = step(logged(diary, "first"))
        guarded = step(gate.step(diary, finishes=False)).after(first)

    join = in_background(lambda: Saga.run())
    assert gate.entered.wait(10)
    run = only_run()
    run.cancel("enough")
    join()

    assert run.status is RunStatus.CANCELLED
    assert run.pending_compensation == "guarded"
    assert run.needs_attention
    assert diary == ["+first"]

    run.undo()
    assert diary == ["+first", "!guarded stopped half-way", "-first"]
    assert gate.saw == [True, False]
    undone = only_run()
    assert (undone.pending_compensation, undone.rollback) == (None, "complete")


@pytest.mark.parametrize("how", ["run", "arun"])
@pytest.mark.parametrize("nested", ["plain", "compose", "map", "call"])
def test_an_async_step_is_cancelled_and_left_as_pending(
    diary: list[str], how: str, nested: str
) -> None:
    entered = threading.Event()

    class Slow(Step):
        async def run(self) -> None:
            entered.set()
            try:
                await asyncio.sleep(60)
            finally:
                diary.append("finally")

        async def compensate(self, reason: object) -> None:
            diary.append("!slow")

    class Inner(Reactor):
        slow = step(Slow)

    class Caller(Step):
        async def run(self) -> Any:
            return await self.context.acall(Slow)

    member: Any = {
        "plain": lambda: step(Slow),
        "compose": lambda: compose(Inner),
        "map": lambda: map_each(Slow, over=[0]),
        "call": lambda: step(Caller),
    }[nested]

    class Saga(Reactor):
        first = step(logged(diary, "first"))
        work = member().after(first)

    join = in_background(lambda: Saga.run() if how == "run" else asyncio.run(Saga.arun()))
    assert entered.wait(10)
    run = only_run()
    run.cancel("enough")
    result = join()

    assert isinstance(result, Failure)
    assert result.exception_class == "Cancelled"
    assert diary == ["+first", "finally"]
    assert run.status is RunStatus.CANCELLED
    assert (run.pending_compensation or "").startswith("work")
    run.undo()
    assert diary == ["+first", "finally", "!slow", "-first"]
    run.undo()
    assert diary == ["+first", "finally", "!slow", "-first"]


def test_an_async_step_that_catches_the_cancel_and_finishes_is_a_success() -> None:
    entered = threading.Event()

    class Slow(Step):
        async def run(self) -> str:
            entered.set()
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                return "finished early"
            return "finished"

    class Saga(Reactor):
        slow = step(Slow)

    join = in_background(lambda: Saga.run())
    assert entered.wait(10)
    run = only_run()
    run.cancel()
    join()

    assert run.results["slow"] == "finished early"
    assert run.pending_compensation is None


def test_a_cancel_ends_the_wait_for_a_retry(diary: list[str]) -> None:
    failed = threading.Event()

    def body() -> None:
        failed.set()
        raise Outage("once")

    class Saga(Reactor):
        work = step(logged(diary, "work", body, retry=Retry(max_attempts=2, base_delay=3600)))

    join = in_background(lambda: Saga.run())
    assert failed.wait(10)
    run = only_run()
    run.cancel("enough")
    join()

    assert run.status is RunStatus.CANCELLED
    assert run.pending_compensation == "work"
    run.undo()
    assert diary == ["+work", "!work"]


def test_a_cancel_between_elements_keeps_what_is_done(diary: list[str]) -> None:
    class Work(Step):
        number: int

        def run(self) -> int:
            if self.number == 2:
                Saga.cancel(self.context.run_id or "", "from inside")
            return self.number

        def undo(self, result: int) -> None:
            diary.append(f"-{result}")

    class Saga(Reactor):
        each = map_each(Work, over=range(10), number=element)

    result = Saga.run()

    assert isinstance(result, Failure)
    assert result.error == "from inside"
    assert [view.path for view in only_run().steps("each")] == ["each[0]", "each[1]", "each[2]"]
    only_run().undo()
    assert diary == ["-2", "-1", "-0"]


def test_a_cancel_in_the_last_step_still_cancels(diary: list[str]) -> None:
    class Last(Step):
        def run(self) -> str:
            runs_found = list(runs())
            runs_found[0].cancel("late")
            return "done"

    class Saga(Reactor):
        last = step(Last)

    assert isinstance(Saga.run(), Failure)
    assert only_run().status is RunStatus.CANCELLED
    assert only_run().results["last"] == "done"


def test_a_cancel_of_concurrent_steps_waits_for_all_of_them(diary: list[str]) -> None:
    gates = [Gate(), Gate()]

    class Saga(Reactor):
        concurrency = 2
        one = step(gates[0].step(diary))
        two = step(gates[1].step(diary, finishes=False))

    join = in_background(lambda: Saga.run())
    assert all(gate.entered.wait(10) for gate in gates)
    run = only_run()
    run.cancel()
    join()

    assert dict(run.results) == {"one": "guarded"}
    assert run.pending_compensation == "two"


def test_a_cancel_while_rolling_back_is_refused_and_disturbs_nothing(diary: list[str]) -> None:
    refused: list[str] = []

    def undo() -> None:
        with pytest.raises(RunStateError) as caught:
            only_run().cancel("too late")
        refused.append(str(caught.value))

    class AsyncUndo(Step):
        def run(self) -> None: ...

        async def undo(self, result: object) -> None:
            await asyncio.sleep(0)
            diary.append(f"-async {self.context.cancelled}")

    class Saga(Reactor):
        first = step(AsyncUndo)
        second = step(logged(diary, "second", undo=undo)).after(first)
        third = step(logged(diary, "third", raising(Outage()))).after(second)

    result = Saga.run()

    assert isinstance(result, Failure)
    assert diary == ["+second", "+third", "!third", "-second", "-async False"]
    assert "rolling_back" in refused[0]
    assert only_run().status is RunStatus.FAILED


@pytest.mark.parametrize("how", ["run", "arun"])
def test_a_cancel_that_comes_with_the_failure_lets_the_rollback_end(
    diary: list[str], how: str, tmp_path: Any
) -> None:
    """The request is accepted while the run goes forward, and read once it goes back."""
    url = f"sqlite:///{tmp_path}/runs.db"

    class Undone(Step):
        async def run(self) -> None: ...

        async def undo(self, result: object) -> None:
            await asyncio.sleep(0)
            diary.append(f"-undone {self.context.cancelled}")

    class Broken(Step):
        def run(self) -> None:
            other.find(self.context.run_id or "").cancel("from elsewhere")
            raise Outage("broken")

        async def compensate(self, reason: object) -> None:
            await asyncio.sleep(0)
            diary.append(f"!broken {self.context.cancelled}")

    class Saga(Reactor):
        undone = step(Undone)
        broken = step(Broken).after(undone)

    with Runtime(url) as runtime, Runtime(url) as other:
        bound = Saga.options(runtime=runtime)
        result = bound.run() if how == "run" else asyncio.run(bound.arun())

    assert isinstance(result, Failure)
    assert result.error == "broken"
    assert diary == ["!broken False", "-undone False"]


def test_a_cancel_from_another_process_reaches_the_step(diary: list[str], tmp_path: Any) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    gate = Gate()

    class Saga(Reactor):
        guarded = step(gate.step(diary))

    from calandria import Settings

    with Runtime(url, settings=Settings(lease_ttl=0.2)) as runtime, Runtime(url) as other:
        join = in_background(lambda: Saga.options(runtime=runtime).run())
        assert gate.entered.wait(10)
        (run,) = runs(runtime=other)
        run.cancel("from elsewhere")
        result = join()
        assert isinstance(result, Failure)
        assert result.error == "from elsewhere"
        assert run.wait(5).ok is False


@pytest.mark.parametrize("ending", ["completed", "failed", "halted", "cancelled"])
def test_a_finished_run_refuses_a_cancel(diary: list[str], ending: str) -> None:
    from calandria import halt

    body = {"completed": None, "failed": raising(Outage()), "halted": halt, "cancelled": None}

    class Saga(Reactor):
        work = step(logged(diary, "work", body[ending]))

    Saga.run()
    run = only_run()
    if ending == "cancelled":
        run.undo()

    with pytest.raises(RunStateError, match=ending):
        run.cancel("too late")

    assert run.status.value == ending


def test_a_cancel_through_another_reactor_is_unknown_and_asks_nothing(diary: list[str]) -> None:
    gate = Gate()

    class Saga(Reactor):
        guarded = step(gate.step(diary))

    class Other(Reactor):
        work = step(logged(diary, "work"))

    join = in_background(lambda: Saga.run())
    assert gate.entered.wait(10)
    run = only_run()
    with pytest.raises(UnknownRun):
        Other.cancel(run.id, "wrong reactor")
    assert gate.saw == []
    run.cancel("right")
    result = join()
    assert isinstance(result, Failure)
    assert result.error == "right"


def test_cancel_of_an_unknown_run() -> None:
    class Saga(Reactor):
        work = step(logged([], "work"))

    with pytest.raises(UnknownRun):
        Saga.cancel("no such run", "x")


def test_a_cancelled_run_can_be_pruned_and_is_a_handle(diary: list[str]) -> None:
    gate = Gate()

    class Saga(Reactor):
        guarded = step(gate.step(diary))

    join = in_background(lambda: Saga.run())
    assert gate.entered.wait(10)
    handle = Saga.cancel(only_run().id, "x")
    join()

    assert isinstance(handle, Run)
    assert handle.status is RunStatus.CANCELLED
    assert handle.result == Failure("x", retryable=False, exception_class="Cancelled")
    assert handle.wait(1) == handle.result
    assert Success(1).ok
