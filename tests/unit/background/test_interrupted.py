"""What interrupts a step in a worker leaves the run for another attempt; the worker goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from calandria import Failure, Reactor, Runtime, Settings, Step, Success, runs, step
from calandria.runtime.worker import Worker
from calandria.statuses import RunStatus, StepStatus
from tests.unit.background import reactors
from tests.unit.background.helping import eventually, kinds, placed, run_of

INTERRUPTIONS = [SystemExit(3), KeyboardInterrupt(), MemoryError(), GeneratorExit()]


def raising_once(diary: list[str], cause: BaseException) -> type[Step]:
    class Raises(Step):
        def run(self) -> str:
            diary.append(self.context.idempotency_key)
            if len(diary) == 1:
                raise cause
            return "done"

        def compensate(self, reason: object) -> None:
            diary.append("compensated")

    return Raises


@pytest.mark.parametrize("cause", INTERRUPTIONS, ids=lambda cause: type(cause).__name__)
def test_an_interrupted_step_is_tried_again(
    worker: Worker, runtime: Runtime, diary: list[str], cause: BaseException
) -> None:
    class Whole(Reactor):
        background = True
        work = step(raising_once(diary, cause))

    run = run_of(runtime, Whole.run())
    assert run.wait(10) == Success("done")
    # the same attempt, under the same key; nothing was compensated
    assert len(diary) == 2 and diary[0] == diary[1]
    (view,) = run.steps()
    assert (view.attempts, view.recoveries) == (1, 1)
    assert "run.aborted" not in kinds(run)
    assert worker.alive and run_of(runtime, reactors.Whole.run()).wait(10).ok


def test_between_two_attempts_the_run_says_what_it_waits_for(
    storage: str, diary: list[str]
) -> None:
    class Whole(Reactor):
        background = True
        work = step(raising_once(diary, SystemExit(3)))

    settings = Settings(snooze_base_delay=60, snooze_jitter=0)
    with Runtime(storage, settings=settings) as runtime:
        runtime.start_worker(1)
        run = run_of(runtime, Whole.run())
        eventually(lambda: run.waiting_on)
        assert run.waiting_on == ["another attempt after SystemExit"]
        assert (run.status, run.lease_owner) == (RunStatus.RUNNING, None)
        assert next(run.steps()).status is StepStatus.STARTED
        assert run.recover() == Success("done")


def test_a_step_that_interrupts_every_process_is_given_up(storage: str, diary: list[str]) -> None:
    class Deadly(Step):
        def run(self) -> None:
            diary.append("ran")
            raise SystemExit(3)

        def compensate(self, reason: object) -> None:
            diary.append("compensated")

    class Whole(Reactor):
        background = True
        first = step(placed(diary, "first"))
        work = step(Deadly).after(first)

    settings = Settings(max_recoveries=2, snooze_base_delay=0.01, snooze_jitter=0)
    with Runtime(storage, settings=settings) as runtime:
        worker = runtime.start_worker(1)
        run = run_of(runtime, Whole.run())
        found = run.wait(10)
        assert isinstance(found, Failure) and found.exception_class == "Crashed"
        assert diary == ["w:first", "ran", "ran", "ran", "compensated", "w:-first"]
        assert worker.alive


def test_an_undo_that_interrupts_every_process_is_given_up(storage: str, diary: list[str]) -> None:
    class Deadly(Step):
        def run(self) -> str:
            return "done"

        def undo(self, result: str) -> None:
            diary.append("undo")
            raise SystemExit(3)

    class Whole(Reactor):
        background = True
        first = step(placed(diary, "first"))
        work = step(Deadly).after(first)

        @step
        def falls(*, work: str) -> None:
            raise ValueError("no")

    settings = Settings(max_recoveries=2, snooze_base_delay=0.01, snooze_jitter=0)
    with Runtime(storage, settings=settings) as runtime:
        runtime.start_worker(1)
        found = run_of(runtime, Whole.run()).wait(10)
        assert isinstance(found, Failure) and found.error == "no"
        assert [failure.reason for failure in found.rollback_failures] == ["crashed"]
        assert diary == ["w:first", "undo", "undo", "undo", "w:-first"]


def test_what_runs_beside_an_interrupted_step_is_recorded(
    runtime: Runtime, diary: list[str]
) -> None:
    raised = threading.Event()

    class Raises(Step):
        def run(self) -> str:
            diary.append("raises")
            if diary.count("raises") == 1:
                raised.set()
                raise SystemExit(3)
            return "raises"

    class Beside(Step):
        def run(self) -> str:
            diary.append("beside")
            assert raised.wait(10)
            return "beside"

    class Both(Reactor):
        background = True
        concurrency = 2
        beside = step(Beside)
        raises = step(Raises)

        @step
        def both(*, beside: str, raises: str) -> str:
            return f"{beside} {raises}"

    runtime.start_worker(1)
    assert run_of(runtime, Both.run()).wait(10) == Success("beside raises")
    assert sorted(diary) == ["beside", "raises", "raises"]


def test_a_function_of_the_definition_may_interrupt_too(
    worker: Worker, runtime: Runtime, diary: list[str]
) -> None:
    def once(_: Any) -> bool:
        diary.append("asked")
        if len(diary) == 1:
            raise SystemExit(3)
        return True

    class Whole(Reactor):
        background = True
        first = step(reactors.Note)
        work = step(placed(diary, "work")).when(first.map(once))

    run = run_of(runtime, Whole.run())
    assert run.wait(10) == Success("work")
    assert diary == ["asked", "asked", "w:work"]
    assert "run.aborted" not in kinds(run)


def slow(diary: list[str], begun: threading.Event, until: Callable[[Step], object]) -> type[Step]:
    class Slow(Step):
        def run(self) -> str:
            diary.append("slow")
            begun.set()
            until(self)
            return "slow"

    return Slow


def test_stopping_drains(runtime: Runtime, diary: list[str]) -> None:
    begun, free = threading.Event(), threading.Event()

    class Whole(Reactor):
        background = True
        work = step(slow(diary, begun, lambda _: free.wait(10)))
        after_it = step(placed(diary, "after")).after(work)

    worker = runtime.start_worker(1)
    run = run_of(runtime, Whole.run())
    begun.wait(10)
    late = run_of(runtime, reactors.Whole.run())
    stopping = threading.Thread(target=lambda: diary.append(f"drained {worker.stop()}"))
    stopping.start()
    assert stopping.is_alive()
    free.set()
    stopping.join(10)
    # the run under way was finished, and no other was begun
    assert run.status is RunStatus.COMPLETED
    assert late.status is RunStatus.PENDING
    assert diary == ["slow", "w:after", "drained True"]
    assert not worker.alive


def test_stopping_with_a_limit_gives_runs_back(runtime: Runtime, diary: list[str]) -> None:
    begun = threading.Event()

    def until_told(self: Step) -> None:
        eventually(lambda: self.context.cancelled)

    class Whole(Reactor):
        background = True
        work = step(slow(diary, begun, until_told))
        after_it = step(placed(diary, "after")).after(work)

    worker = runtime.start_worker(1)
    run = run_of(runtime, Whole.run())
    begun.wait(10)
    assert worker.stop(timeout=0.05) is False
    eventually(lambda: not worker.alive)
    # the step went on to its end all the same: that is recorded, and the rest is for others
    assert (run.status, run.lease_owner, run.waiting_on) == (RunStatus.RUNNING, None, [])
    assert diary == ["slow"]
    runtime.start_worker(1)
    assert run.wait(10) == Success("after")
    assert diary == ["slow", "w:after"]


def test_a_step_that_stops_when_told_is_repeated_elsewhere(
    runtime: Runtime, diary: list[str]
) -> None:
    begun = threading.Event()

    class Told(Step):
        async def run(self) -> str:
            import asyncio

            diary.append(self.context.idempotency_key)
            begun.set()
            if len(diary) == 1:
                await asyncio.sleep(30)
            return "told"

    class Whole(Reactor):
        background = True
        work = step(Told)

    worker = runtime.start_worker(1)
    run = run_of(runtime, Whole.run())
    begun.wait(10)
    assert worker.stop(timeout=0.05) is False
    eventually(lambda: not worker.alive)
    runtime.start_worker(1)
    assert run.wait(10) == Success("told")
    assert len(diary) == 2 and diary[0] == diary[1]
    assert "compensate.started" not in " ".join(kinds(run))


def test_closing_the_runtime_drains(storage: str, notes: list[str]) -> None:
    with Runtime(storage, settings=Settings()) as runtime:
        worker = runtime.start_worker(2)
        for _ in range(5):
            reactors.Whole.run()
        eventually(lambda: notes)
    assert not worker.alive
    assert notes == ["first"] * len(notes)


def test_threads_work_at_the_same_time(runtime: Runtime) -> None:
    together = threading.Barrier(3)

    class Meet(Reactor):
        background = True

        @step
        def work() -> int:
            return together.wait(10)

    worker = runtime.start_worker(3)
    handles = [run_of(runtime, Meet.run()) for _ in range(3)]
    found = [run.wait(10) for run in handles]
    assert sorted(result.value for result in found if isinstance(result, Success)) == [0, 1, 2]
    eventually(lambda: worker.performed == 3)


def test_a_worker_needs_a_thread(runtime: Runtime) -> None:
    with pytest.raises(Exception, match="at least one thread"):
        runtime.start_worker(0)
    assert list(runs()) == []


def test_a_failing_middleware_or_step_never_ends_a_worker(worker: Worker, runtime: Runtime) -> None:
    class Falls(Reactor):
        background = True

        @step
        def work() -> None:
            raise ExceptionGroup("several", [ValueError("a"), SystemError("b")])

    assert isinstance(run_of(runtime, Falls.run()).wait(10), Failure)
    assert worker.alive
