"""Where a run leaves the caller's process, and what the caller gets."""

from __future__ import annotations

import asyncio
import threading

import pytest

from calandria import (
    Dispatched,
    Failure,
    Halt,
    Reactor,
    Runtime,
    Success,
    WaitTimeout,
    after,
    before,
    compose,
    halt,
    runs,
    skip,
    step,
)
from calandria.runtime.worker import Worker
from calandria.statuses import RunStatus
from tests.unit.background import reactors
from tests.unit.background.helping import (
    in_worker,
    kinds,
    placed,
    result_of,
    run_of,
)

BEFORE_OR_AFTER = {"before": before, "after": after}


def test_a_background_run_runs_in_a_worker_alone(worker: Worker, diary: list[str]) -> None:
    class Both(Reactor):
        background = True
        first = step(placed(diary, "first"))
        second = step(placed(diary, "second")).after(first)

    runtime = worker._runtime
    assert result_of(runtime, Both.run()) == Success("second")
    assert diary == ["w:first", "w:second"]


def test_after_is_the_last_in_the_caller(worker: Worker, diary: list[str]) -> None:
    class Split(Reactor):
        first = step(placed(diary, "first"))
        second = step(placed(diary, "second")).after(first)
        background = after(first)

    assert result_of(worker._runtime, Split.run()) == Success("second")
    assert diary == ["c:first", "w:second"]


def test_before_is_the_first_in_the_worker(worker: Worker, diary: list[str]) -> None:
    class Split(Reactor):
        first = step(placed(diary, "first"))
        second = step(placed(diary, "second")).after(first)
        third = step(placed(diary, "third")).after(second)
        background = before(third)

    assert result_of(worker._runtime, Split.run()) == Success("third")
    assert diary == ["c:first", "c:second", "w:third"]


def test_before_the_first_step_leaves_nothing_to_the_caller(
    worker: Worker, diary: list[str]
) -> None:
    class Split(Reactor):
        first = step(placed(diary, "first"))
        background = before(first)

    assert result_of(worker._runtime, Split.run()) == Success("first")
    assert diary == ["w:first"]


def test_after_the_last_step_there_is_nothing_to_hand_over(
    runtime: Runtime, diary: list[str]
) -> None:
    class Whole(Reactor):
        first = step(placed(diary, "first"))
        second = step(placed(diary, "second")).after(first)
        background = after(second)

    # a local class is handed over only where a worker of this process can find it
    runtime.start_worker(1)
    assert Whole.run() == Success("second")
    assert diary == ["c:first", "c:second"]


def test_a_skipped_trigger_hands_over(worker: Worker, diary: list[str]) -> None:
    class Split(Reactor):
        first = step(placed(diary, "first", lambda: skip(None)))
        second = step(placed(diary, "second")).after(first)
        background = after(first)

    assert result_of(worker._runtime, Split.run()) == Success("second")
    assert diary == ["c:first", "w:second"]


def test_an_unwanted_trigger_hands_over(worker: Worker, diary: list[str]) -> None:
    class Split(Reactor):
        wanted: bool
        first = step(placed(diary, "first")).when(lambda: False)
        second = step(placed(diary, "second")).after(first)
        background = after(first)

    assert result_of(worker._runtime, Split.run(wanted=True)) == Success("second")
    assert diary == ["w:second"]


def test_a_halting_trigger_stops(worker: Worker, diary: list[str]) -> None:
    class Split(Reactor):
        first = step(placed(diary, "first", lambda: halt("enough")))
        second = step(placed(diary, "second")).after(first)
        background = after(first)

    assert Split.run() == Halt("enough")
    assert diary == ["c:first"]


def test_a_failing_trigger_rolls_back_in_the_caller(worker: Worker, diary: list[str]) -> None:
    def fall() -> None:
        raise ValueError("no")

    class Split(Reactor):
        zeroth = step(placed(diary, "zeroth"))
        first = step(placed(diary, "first", fall)).after(zeroth)
        second = step(placed(diary, "second")).after(first)
        background = after(first)

    assert isinstance(Split.run(), Failure)
    assert diary == ["c:zeroth", "c:first", "c:-zeroth"]


def test_a_failure_in_the_worker_undoes_what_the_caller_did(
    worker: Worker, diary: list[str]
) -> None:
    def fall() -> None:
        raise ValueError("no")

    class Split(Reactor):
        first = step(placed(diary, "first"))
        second = step(placed(diary, "second", fall)).after(first)
        background = after(first)

    found = result_of(worker._runtime, Split.run())
    assert isinstance(found, Failure) and found.error == "no"
    assert diary == ["c:first", "w:second", "w:-first"]


def test_what_is_in_flight_settles_in_the_caller_first(worker: Worker) -> None:
    places: dict[str, bool] = {}
    reached, free = threading.Event(), threading.Event()

    class Split(Reactor):
        concurrency = 2

        @step
        def slow() -> str:
            reached.set()
            free.wait(10)
            places["slow"] = in_worker()
            return "slow"

        @step
        def trigger() -> str:
            reached.wait(10)
            free.set()
            return "trigger"

        @step
        def last(*, slow: str, trigger: str) -> str:
            return f"{slow} {trigger}"

        background = after(trigger)

    run = run_of(worker._runtime, Split.run())
    assert run.wait(10) == Success("slow trigger")
    assert places == {"slow": False}
    found = kinds(run)
    assert found.index("step.completed slow") < found.index("run.handed_over")
    assert found.index("run.handed_over") < found.index("step.started last")


def test_a_composed_childs_background_is_not_its_parents(
    runtime: Runtime, diary: list[str]
) -> None:
    class Child(Reactor):
        background = True
        work = step(placed(diary, "work"))

    class Parent(Reactor):
        child = compose(Child)

    assert Parent.run() == Success("work")
    assert diary == ["c:work"]


def test_from_async_code(worker: Worker, diary: list[str]) -> None:
    class Split(Reactor):
        first = step(placed(diary, "first"))
        second = step(placed(diary, "second")).after(first)
        background = after(first)

    class Whole(Reactor):
        background = True
        first = step(placed(diary, "whole"))

    async def both() -> list[object]:
        split = run_of(worker._runtime, await Split.arun())
        whole = run_of(worker._runtime, await Whole.arun())
        return [await split.await_result(10), await whole.await_result(10)]

    assert asyncio.run(both()) == [Success("second"), Success("whole")]
    assert sorted(diary) == ["c:first", "w:second", "w:whole"]


def test_a_dispatched_result_names_the_run(worker: Worker, diary: list[str]) -> None:
    class Whole(Reactor):
        background = True
        first = step(placed(diary, "first"))

    dispatched = Whole.run()
    assert isinstance(dispatched, Dispatched) and not isinstance(dispatched, Failure)
    assert Whole.find(dispatched.run_id).wait(10) == Success("first")


def test_waiting_has_a_limit(runtime: Runtime) -> None:
    free = threading.Event()

    class Slow(Reactor):
        background = True

        @step
        def work() -> str:
            free.wait(10)
            return "done"

    runtime.start_worker(1)
    run = run_of(runtime, Slow.run())
    with pytest.raises(WaitTimeout, match=r"still (pending|running)"):
        run.wait(0.02)
    with pytest.raises(WaitTimeout, match=r"still (pending|running)"):
        asyncio.run(run.await_result(0.02))
    free.set()
    assert run.wait(10) == Success("done")


def test_many_waits_take_no_thread_each(runtime: Runtime) -> None:
    free = threading.Event()

    class Slow(Reactor):
        background = True

        @step
        def work() -> str:
            free.wait(10)
            return "done"

    runtime.start_worker(2)
    handles = [run_of(runtime, Slow.run()) for _ in range(30)]

    before = threading.active_count()

    async def wait_for_all() -> list[object]:
        waiting = [asyncio.ensure_future(run.await_result(10)) for run in handles]
        await asyncio.sleep(0.1)
        idle_threads = threading.active_count()
        free.set()
        found = await asyncio.gather(*waiting)
        assert idle_threads < before + 5, (before, idle_threads)
        return list(found)

    assert asyncio.run(wait_for_all()) == [Success("done")] * 30


@pytest.mark.parametrize("point", ["whole", "after", "before"])
def test_invalid_inputs_fail_the_caller_and_record_nothing(runtime: Runtime, point: str) -> None:
    class Split(Reactor):
        number: int

        @step
        def first(*, number: int) -> int:
            return number

        @step
        def second(*, first: int) -> int:
            return first

        background = True if point == "whole" else BEFORE_OR_AFTER[point](second)

    runtime.start_worker(1)
    found = Split.run(number="no number")  # type: ignore[arg-type]
    assert isinstance(found, Failure) and "number" in found.validation_errors
    keyed = Split.options(idempotency_key="k").run(number="x")  # type: ignore[arg-type]
    assert isinstance(keyed, Failure)
    assert list(runs()) == []
    assert runtime.store.find_key(f"{Split.__module__}:{Split.__qualname__}", "k") is None


def test_the_trace_is_one(worker: Worker, diary: list[str]) -> None:
    class Split(Reactor):
        first = step(placed(diary, "first"))
        second = step(placed(diary, "second")).after(first)
        background = after(first)

    run = run_of(worker._runtime, Split.run())
    run.wait(10)
    assert kinds(run) == [
        "run.started",
        "step.started first",
        "step.completed first",
        "run.handed_over",
        "run.taken_up",
        "step.started second",
        "step.completed second",
        "run.completed",
    ]
    assert [entry.sequence for entry in run.trace] == list(range(1, 9))


def test_a_key_leads_to_the_run_wherever_it_is(runtime: Runtime) -> None:
    free, begun = threading.Event(), threading.Event()

    class Keyed(Reactor):
        background = True

        @step
        def work() -> str:
            begun.set()
            free.wait(10)
            return "done"

    worker = runtime.start_worker(1)
    first = Keyed.options(idempotency_key="k").run()
    begun.wait(10)
    again = Keyed.options(idempotency_key="k").run()
    assert first == again and isinstance(again, Dispatched)
    free.set()
    assert result_of(runtime, first) == Success("done")
    assert Keyed.options(idempotency_key="k").run() == Success("done")
    assert worker.performed == 1


def test_a_pending_run_can_be_recovered_here(runtime: Runtime, notes: list[str]) -> None:
    run = run_of(runtime, reactors.Whole.run())
    assert run.status is RunStatus.PENDING
    assert run.recover() == Success("first")
    assert notes == ["first"]


def test_a_pending_run_can_be_cancelled(runtime: Runtime, notes: list[str]) -> None:
    run = run_of(runtime, reactors.Whole.run())
    run.cancel("not wanted")
    assert run.status is RunStatus.CANCELLED
    runtime.start_worker(1)
    assert run_of(runtime, reactors.Split.run()).wait(10) == Success("second")
    assert isinstance(run.result, Failure)
    # its own job, which came before the other's, did nothing
    assert notes == ["first", "second"]


def test_a_run_that_was_handed_over_can_be_recovered_here(
    runtime: Runtime, notes: list[str]
) -> None:
    run = run_of(runtime, reactors.Split.run())
    assert (run.status, run.lease_owner) == (RunStatus.RUNNING, None)
    assert run.recover() == Success("second")
    assert notes == ["first", "second"]
