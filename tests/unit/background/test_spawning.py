"""Spawned units: dispatched once, independent of their parent, read by those who wait."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from calandria import (
    Failure,
    Halt,
    Reactor,
    Retry,
    Run,
    Runtime,
    Settings,
    Skipped,
    Step,
    Success,
    compose,
    halt,
    map_each,
    skip,
    spawn,
    step,
)
from calandria.definition.context import StepContext
from calandria.definition.execution import RunOptions
from calandria.ports.run_store import Lease, RunFilter
from calandria.runtime.effects import Io
from calandria.runtime.ownership import Job
from calandria.runtime.worker import Worker
from calandria.statuses import RunStatus
from tests.unit.background import reactors
from tests.unit.background.conftest import QUICK
from tests.unit.background.helping import eventually, kinds, placed, result_of, run_of


def children_of(runtime: Runtime, result: Any) -> list[Run]:
    assert result.run_id is not None
    return list(runtime.find(result.run_id).children)


def test_units_run_in_a_worker_as_runs_of_their_own(
    worker: Worker, runtime: Runtime, diary: list[str]
) -> None:
    def mail(*, to: str) -> str:
        diary.append(f"mail {to}")
        return to

    class Ship(Reactor):
        to: str
        work = step(placed(diary, "ship"))

    class Order(Reactor):
        to: str
        sent = spawn(mail)
        placed_step = spawn(placed(diary, "class"))
        shipped = spawn(Ship)
        done = step(placed(diary, "done")).after(sent, placed_step, shipped)

    result = Order.run(to="ann")
    assert result == Success("done")
    children = {run._stored().run.parent_path: run for run in children_of(runtime, result)}
    assert set(children) == {"sent", "placed_step", "shipped"}
    found = {path: run.wait(10) for path, run in children.items()}
    assert found == {
        "sent": Success("ann"),
        "placed_step": Success("class"),
        "shipped": Success("ship"),
    }
    assert sorted(diary) == ["c:done", "mail ann", "w:class", "w:ship"]
    assert children["shipped"].reactor.endswith(":" + Ship.__qualname__)
    assert kinds(children["sent"]) == [
        "run.taken_up",
        "step.started sent",
        "step.completed sent",
        "run.completed",
    ]


def spawning(place: str, target: type[Step]) -> type[Reactor]:
    """Return a reactor that spawns `target` and reads it, at the place named."""

    class Inner(Reactor):
        unit = spawn(target)

        @step
        def read(*, unit: Any) -> Any:
            return unit

    if place == "top":
        return Inner

    class Composed(Reactor):
        inner = compose(Inner)

    class Mapped(Reactor):
        inner = map_each(Inner, over=[0, 1]).collect(list)

    class Nested(Reactor):
        @step
        def inner(context: StepContext) -> Any:
            found = context.run(Inner)
            assert isinstance(found, Success), found
            return found.value

    return {"compose": Composed, "map": Mapped, "nested": Nested}[place]


@pytest.mark.parametrize("in_background", [False, True])
@pytest.mark.parametrize("place", ["top", "compose", "map", "nested"])
def test_a_unit_is_spawned_and_read_at_any_depth(
    worker: Worker, runtime: Runtime, diary: list[str], place: str, in_background: bool
) -> None:
    made: Any = spawning(place, placed(diary, "unit"))

    class Made(made):  # type: ignore[misc]
        background = in_background

    result = Made.run()
    if in_background:
        result = result_of(runtime, result)
    times = 2 if place == "map" else 1
    assert result == Success(["unit"] * 2 if place == "map" else "unit")
    assert diary == ["w:unit"] * times
    assert len(children_of(runtime, result)) == times


def outcome(returns: Callable[[], Any]) -> type[Reactor]:
    class Work(Step):
        def run(self) -> Any:
            return returns()

    class Reader(Reactor):
        unit = spawn(Work)

        @step
        def read(*, unit: Any) -> list[Any]:
            return [unit]

    return Reader


def test_a_reader_gets_the_value(worker: Worker) -> None:
    assert outcome(lambda: {"a": 1}).run() == Success([{"a": 1}])


def test_a_reader_gets_nothing_from_a_halt(worker: Worker) -> None:
    assert outcome(lambda: halt("enough")).run() == Success([None])


def test_a_reader_gets_nothing_from_a_skip_without_a_value(worker: Worker) -> None:
    assert outcome(lambda: skip(None)).run() == Success([None])


def test_a_reader_gets_the_value_of_a_skip_as_any_dependant_does(worker: Worker) -> None:
    assert outcome(lambda: Skipped(5)).run() == Success([5])


def test_a_reader_gets_the_failure_itself(worker: Worker, runtime: Runtime) -> None:
    def fall() -> None:
        raise KeyError("gone")

    got: list[Any] = []

    class Work(Step):
        def run(self) -> None:
            fall()

    class Reader(Reactor):
        unit = spawn(Work)

        @step
        def read(*, unit: Any) -> str:
            got.append(unit)
            return "went on"

    result = Reader.run()
    assert result == Success("went on")
    (failure,) = got
    assert isinstance(failure, Failure)
    assert (failure.exception_class, failure.step) == ("KeyError", "unit")
    (child,) = children_of(runtime, result)
    assert child.status is RunStatus.FAILED


def test_a_unit_that_is_not_wanted_reads_as_nothing(worker: Worker, runtime: Runtime) -> None:
    class Reader(Reactor):
        wanted: bool
        unit = spawn(reactors.Note).when(lambda: False)
        other = spawn(reactors.Whole).when(lambda: False)

        @step
        def read(*, unit: Any, other: Any) -> list[Any]:
            return [unit, other]

    result = Reader.run(wanted=False)
    assert result == Success([None, None])
    assert children_of(runtime, result) == []


def test_a_failure_nobody_reads_never_touches_the_parent(
    worker: Worker, runtime: Runtime, diary: list[str]
) -> None:
    def fall() -> None:
        raise ValueError("no")

    class Parent(Reactor):
        unit = spawn(placed(diary, "unit", fall))
        done = step(placed(diary, "done")).after(unit)

    result = Parent.run()
    (child,) = children_of(runtime, result)
    assert isinstance(child.wait(10), Failure)
    assert result == Success("done")
    assert runtime.find(result.run_id or "").status is RunStatus.COMPLETED


def test_a_unit_retries_and_compensates_once_and_never_undoes(
    worker: Worker, runtime: Runtime, diary: list[str]
) -> None:
    class Work(Step):
        retry = Retry(max_attempts=3, base_delay=0, jitter=0)

        def run(self) -> None:
            diary.append(f"run {self.context.attempt}")
            raise ValueError("no")

        def compensate(self, reason: object) -> None:
            diary.append(f"compensate {reason}")

        def undo(self, result: object) -> None:
            diary.append("undo")

    class Parent(Reactor):
        unit = spawn(Work)
        done = step(reactors.Note).after(unit)

    (child,) = children_of(runtime, Parent.run())
    found = child.wait(10)
    assert isinstance(found, Failure) and found.attempts == 3
    assert diary == ["run 1", "run 2", "run 3", "compensate no"]


def test_a_unit_goes_on_when_its_parent_is_rolled_back(
    worker: Worker, runtime: Runtime, diary: list[str]
) -> None:
    free = threading.Event()

    def fall() -> None:
        raise ValueError("no")

    class Parent(Reactor):
        first = step(placed(diary, "first"))
        unit = spawn(placed(diary, "unit", lambda: free.wait(10) and "unit")).after(first)
        last = step(placed(diary, "last", fall)).after(unit)

    result = Parent.run()
    assert isinstance(result, Failure)
    free.set()
    (child,) = children_of(runtime, result)
    assert child.wait(10) == Success("unit")
    assert "c:-first" in diary and "w:-unit" not in diary


def test_a_unit_stays_when_its_parent_is_undone_by_hand(
    worker: Worker, runtime: Runtime, diary: list[str]
) -> None:
    class Parent(Reactor):
        unit = spawn(placed(diary, "unit"))
        last = step(placed(diary, "last")).after(unit)

    result = Parent.run()
    (child,) = children_of(runtime, result)
    child.wait(10)
    Parent.undo(result.run_id or "")
    assert child.status is RunStatus.COMPLETED
    assert sorted(diary) == ["c:-last", "c:last", "w:unit"]


def test_a_spawned_reactor_rolls_itself_back_and_can_be_undone_by_hand(
    worker: Worker, runtime: Runtime, diary: list[str]
) -> None:
    class Child(Reactor):
        work = step(placed(diary, "work"))

    class Parent(Reactor):
        unit = spawn(Child)
        last = step(placed(diary, "last")).after(unit)

    (child,) = children_of(runtime, Parent.run())
    assert child.wait(10) == Success("work")
    child.undo()
    assert child.status is RunStatus.CANCELLED
    assert "c:-work" in diary and "c:-last" not in diary


def test_a_spawned_step_can_be_undone_by_hand(
    worker: Worker, runtime: Runtime, diary: list[str]
) -> None:
    class Parent(Reactor):
        unit = spawn(placed(diary, "unit"))
        last = step(placed(diary, "last")).after(unit)

    (child,) = children_of(runtime, Parent.run())
    child.wait(10)
    child.undo()
    assert "c:-unit" in diary


def test_inputs_are_validated_at_dispatch(
    worker: Worker, runtime: Runtime, diary: list[str]
) -> None:
    class Count(Step):
        number: int

        def run(self) -> int:
            return self.number

        def compensate(self, reason: object) -> None:
            diary.append("compensated")

    class Parent(Reactor):
        given: str
        first = step(placed(diary, "first"))
        unit = spawn(Count, number=first.map(lambda _: "no number")).after(first)
        last = step(placed(diary, "last")).after(unit)

    result = Parent.run(given="x")
    assert isinstance(result, Failure)
    assert result.step == "unit" and "number" in result.validation_errors
    assert children_of(runtime, result) == []
    assert diary == ["c:first", "c:-first"]


def test_a_caller_waits_only_so_long(storage: str, diary: list[str]) -> None:
    with Runtime(storage, settings=Settings(wait_timeout=0.05)) as runtime:
        result = reactors.Reading.run()
        assert isinstance(result, Failure)
        assert result.exception_class == "WaitTimeout"
        assert "wait_timeout" in str(result.error) and "mail" in str(result.error)
        (child,) = children_of(runtime, result)
        assert child.status is RunStatus.PENDING


def test_a_recovered_caller_waits_anew(storage: str, notes: list[str]) -> None:
    with Runtime(storage, settings=Settings(wait_timeout=1.0)) as runtime:
        run = left_waiting(runtime)
        runtime.pause(1.0)  # the first wait would be over by now
        starting = threading.Timer(0.1, runtime.start_worker)
        starting.start()
        assert run.recover() == Success("read mail")
        starting.join()


def left_waiting(runtime: Runtime) -> Run:
    """Return a run of `Reading` whose process died while it waited for its unit."""
    runtime.prepare()
    begun = runtime.runner._starter.begin(reactors.Reading, {}, RunOptions())
    assert isinstance(begun, Job)
    steps = begun.execution.drive()
    effect = next(steps)
    while isinstance(effect, Io):
        effect = steps.send(effect.call())
    steps.close()
    (run,) = runtime.list_runs(RunFilter())
    stored = run._stored()
    lease = Lease(run.id, stored.lease_owner or "", stored.epoch)
    runtime.store.renew_leases([lease], ttl=0)
    return run


def test_a_worker_parks_while_it_waits(runtime: Runtime, diary: list[str]) -> None:
    free, others = threading.Event(), threading.Event()

    class Slow(Step):
        def run(self) -> str:
            free.wait(10)
            return "slow"

    class Reader(Reactor):
        background = True
        unit = spawn(Slow)

        @step
        def read(*, unit: str) -> str:
            return f"read {unit}"

    class Other(Reactor):
        background = True

        @step
        def work() -> None:
            others.set()

    runtime.start_worker(2)
    run = run_of(runtime, Reader.run())
    eventually(lambda: run.waiting_on)
    assert run.waiting_on == ["unit unit"]
    assert (run.status, run.lease_owner) == (RunStatus.RUNNING, None)
    # one of two threads is in the unit: the other is free, as the reader keeps none
    Other.run()
    assert others.wait(10)
    free.set()
    assert run.wait(10) == Success("read slow")
    assert run.waiting_on == []
    assert kinds(run).count("run.parked") == 1


def test_a_worker_waits_only_so_long_from_dispatch(storage: str) -> None:
    free = threading.Event()

    class Slow(Step):
        def run(self) -> str:
            free.wait(10)
            return "slow"

    class Reader(Reactor):
        background = True
        unit = spawn(Slow)

        @step
        def read(*, unit: str) -> str:
            return unit

    settings = Settings(park_timeout=0.3, undo_wait=0)
    with Runtime(storage, settings=settings) as runtime:
        runtime.start_worker(2)
        run = run_of(runtime, Reader.run())
        found = run.wait(10)
        assert isinstance(found, Failure) and found.exception_class == "WaitTimeout"
        assert "park_timeout" in str(found.error)
        free.set()
        (child,) = run.children
        assert child.wait(10) == Success("slow")


def test_the_last_of_two_units_wakes_the_reader(runtime: Runtime) -> None:
    gates = [threading.Event(), threading.Event()]

    def first() -> int:
        gates[0].wait(10)
        return 1

    def second() -> int:
        gates[1].wait(10)
        return 2

    class Reader(Reactor):
        background = True
        one = spawn(first)
        two = spawn(second)

        @step
        def read(*, one: int, two: int) -> int:
            return one + two

    runtime.start_worker(3)
    run = run_of(runtime, Reader.run())
    eventually(lambda: run.waiting_on == ["unit one", "unit two"])
    gates[1].set()
    eventually(lambda: run.waiting_on == ["unit one"])
    gates[0].set()
    assert run.wait(10) == Success(3)


def test_a_unit_that_settles_is_noticed_beside_a_step_in_flight(runtime: Runtime) -> None:
    read, unit_free = threading.Event(), threading.Event()

    def unit() -> str:
        unit_free.wait(10)
        return "unit"

    class Busy(Reactor):
        background = True
        concurrency = 2
        spawned = spawn(unit)

        @step
        def reader(*, spawned: str) -> str:
            read.set()
            return spawned

        @step
        def long() -> bool:
            unit_free.set()
            return read.wait(10)

        @step
        def both(*, reader: str, long: bool) -> bool:
            return long

    runtime.start_worker(2)
    run = run_of(runtime, Busy.run())
    assert run.wait(15) == Success(True)


def test_a_reader_is_dropped_when_the_run_fails(runtime: Runtime, diary: list[str]) -> None:
    free = threading.Event()

    def unit() -> str:
        free.wait(10)
        return "unit"

    class Parent(Reactor):
        concurrency = 2
        first = step(placed(diary, "first"))
        spawned = spawn(unit).after(first)

        @step
        def read(*, spawned: str) -> str:
            return spawned

        @step
        def falls(*, first: str) -> None:
            raise ValueError("no")

    runtime.start_worker(1)
    result = Parent.run()
    assert isinstance(result, Failure) and result.error == "no"
    assert "c:-first" in [note.replace("w:", "c:") for note in diary]
    free.set()
    (child,) = children_of(runtime, result)
    assert child.wait(10) == Success("unit")


def test_a_reader_is_dropped_when_the_run_halts(runtime: Runtime) -> None:
    free = threading.Event()

    def unit() -> str:
        free.wait(10)
        return "unit"

    class Parent(Reactor):
        spawned = spawn(unit)

        @step
        def read(*, spawned: str) -> str:
            return spawned

        @step
        def enough() -> None:
            halt("enough")

    runtime.start_worker(1)
    assert Parent.run() == Halt("enough")
    free.set()


def test_a_taken_up_parent_does_not_dispatch_again(storage: str, notes: list[str]) -> None:
    with Runtime(storage, settings=QUICK) as runtime:
        run = left_waiting(runtime)
        before = [child.id for child in run.children]
        runtime.start_worker(1)
        # the unit's end wakes its parent, whose process is gone
        assert run.wait(10) == Success("read mail")
        assert [child.id for child in run.children] == before
        assert notes == ["mail"]


def test_prune_takes_the_units_with_their_parent(
    worker: Worker, runtime: Runtime, notes: list[str]
) -> None:
    result = reactors.Letting.run()
    children = children_of(runtime, result)
    for child in children:
        child.wait(10)
    eventually(lambda: not worker.running)
    assert runtime.prune(older_than=-10) == 1
    assert all(runtime.store.load_run(child.id) is None for child in children)
