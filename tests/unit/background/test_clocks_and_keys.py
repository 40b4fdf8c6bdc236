"""Wall clocks that jump, keys under races, sweeps by hand, and jobs performed at once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from calandria import (
    DefinitionError,
    Dispatched,
    Failure,
    Halt,
    Reactor,
    Retry,
    Runtime,
    Settings,
    Step,
    Success,
    after,
    halt,
    runs,
    spawn,
    step,
)
from calandria.ports.clock import SystemClock
from calandria.statuses import RunStatus
from calandria.storage import open_store
from tests.unit.background import reactors
from tests.unit.background.helping import eventually, result_of, run_of

HOUR = 3600.0


class JumpingClock(SystemClock):
    """A wall clock that people set; durations go on as ever."""

    offset = 0.0

    def now(self) -> float:
        return super().now() + self.offset


class HandMovedLeaseClock:
    """Times leases and due jobs as the test says."""

    boot_id = "boot"

    def __init__(self) -> None:
        self.at = 1000.0

    def now(self) -> float:
        return self.at


@pytest.fixture
def clock() -> JumpingClock:
    return JumpingClock()


@pytest.fixture
def jumping(storage: str, clock: JumpingClock) -> Iterator[Runtime]:
    settings = Settings(sweep_interval=0.05, park_timeout=10 * HOUR, undo_wait=5)
    with Runtime(storage, settings=settings, clock=clock) as opened:
        yield opened


@pytest.mark.parametrize("step_of", [HOUR, -HOUR])
def test_a_parked_retry_is_made_when_the_clock_jumps(
    jumping: Runtime, clock: JumpingClock, diary: list[str], step_of: float
) -> None:
    class Flaky(Step):
        retry = Retry(max_attempts=2, backoff="fixed", base_delay=0.3, jitter=0)

        def run(self) -> str:
            diary.append("ran")
            if len(diary) == 1:
                raise ValueError("not yet")
            return "done"

    class Whole(Reactor):
        background = True
        work = step(Flaky)

    jumping.start_worker(1)
    run = run_of(jumping, Whole.run())
    eventually(lambda: run.waiting_on)
    clock.offset = step_of
    assert run.wait(10) == Success("done")
    assert diary == ["ran", "ran"]


@pytest.mark.parametrize("step_of", [HOUR, -HOUR])
def test_a_reader_and_its_unit_survive_a_jump(
    jumping: Runtime, clock: JumpingClock, step_of: float
) -> None:
    free = threading.Event()

    def unit() -> str:
        free.wait(10)
        return "unit"

    class Reads(Reactor):
        background = True
        spawned = spawn(unit)

        @step
        def read(*, spawned: str) -> str:
            return spawned

    jumping.start_worker(2)
    run = run_of(jumping, Reads.run())
    eventually(lambda: run.waiting_on)
    clock.offset = step_of
    jumping.sweep()
    free.set()
    assert run.wait(10) == Success("unit")


@pytest.mark.parametrize("step_of", [HOUR, -HOUR])
def test_a_slow_live_run_is_not_taken_over_when_the_clock_jumps(
    jumping: Runtime, clock: JumpingClock, diary: list[str], step_of: float
) -> None:
    begun, free = threading.Event(), threading.Event()

    class Slow(Reactor):
        background = True

        @step
        def work() -> None:
            diary.append("ran")
            begun.set()
            free.wait(10)

    jumping.start_worker(2)
    run = run_of(jumping, Slow.run())
    begun.wait(10)
    clock.offset = step_of
    for _ in range(10):
        assert jumping.sweep() == 0
    free.set()
    assert run.wait(10) == Success(None)
    assert (diary, run.epoch) == (["ran"], 1)


@pytest.mark.parametrize("step_of", [HOUR, -HOUR])
def test_work_is_dispatched_and_done_after_a_jump(
    jumping: Runtime, clock: JumpingClock, notes: list[str], step_of: float
) -> None:
    jumping.start_worker(1)
    clock.offset = step_of
    assert result_of(jumping, reactors.Split.run()) == Success("second")


def test_a_sweep_by_hand_finds_what_lost_its_process(tmp_path: Path, notes: list[str]) -> None:
    lease_clock = HandMovedLeaseClock()
    store = open_store(f"sqlite:///{tmp_path}/runs.db", clock=lease_clock)
    settings = Settings(lease_ttl=60, sweep_interval=30)
    with Runtime(store, settings=settings) as runtime:
        run = run_of(runtime, reactors.Whole.run())
        # a worker took the run with its job, and died
        assert runtime.job_store.claim_job(owner="dead", ttl=60).taken is not None
        lease_clock.at += 59
        assert runtime.sweep() == 0
        lease_clock.at += 2
        assert runtime.sweep() == 1
        assert runtime.sweep() == 0
        runtime.start_worker(1)
        assert run.wait(10) == Success("first")
        assert runtime.sweep() == 0


def test_a_sweep_prunes_what_is_older_than_the_retention(storage: str, notes: list[str]) -> None:
    clock = JumpingClock()
    with Runtime(storage, settings=Settings(retention=HOUR), clock=clock) as runtime:
        reactors.Note.call(text="x")
        runtime.start_worker(1)
        run = run_of(runtime, reactors.Whole.run())
        run.wait(10)
        runtime.sweep()
        assert run.status is RunStatus.COMPLETED
        clock.offset = 2 * HOUR
        runtime.sweep()
        assert list(runs()) == []


RACERS = 50


@pytest.mark.parametrize("reactor", [reactors.Whole, reactors.Split, reactors.Letting])
def test_fifty_threads_with_one_key_make_one_run(
    runtime: Runtime, notes: list[str], reactor: Any
) -> None:
    runtime.start_worker(2)
    line = threading.Barrier(RACERS)

    def call(_: int) -> Any:
        line.wait(10)
        return reactor.options(idempotency_key="order-42", runtime=runtime).run()

    with ThreadPoolExecutor(RACERS) as threads:
        found = list(threads.map(call, range(RACERS)))
    (run,) = runs()
    assert {result.run_id for result in found} == {run.id}
    run.wait(10)
    assert notes.count("first") <= 1 or reactor is reactors.Letting
    eventually(lambda: all(child.result for child in run.children))
    assert len(notes) == len(set(notes))


def test_jobs_are_performed_at_once(storage: str, notes: list[str]) -> None:
    with Runtime(storage, jobs="immediate") as runtime:
        found = reactors.Whole.run()
        assert isinstance(found, Dispatched)
        assert runtime.find(found.run_id).result == Success("first")
        split = reactors.Split.run()
        assert isinstance(split, Dispatched)
        assert runtime.find(split.run_id).result == Success("second")
        assert reactors.Reading.run() == Success("read mail")
        letting = reactors.Letting.run()
        assert all(child.result for child in runtime.find(letting.run_id or "").children)
    assert notes == ["first", "first", "second", "mail", "mail", "first", "done"]


def test_retries_and_failures_are_performed_at_once(storage: str, diary: list[str]) -> None:
    class Flaky(Step):
        retry = Retry(max_attempts=2, base_delay=0, jitter=0)

        def run(self) -> None:
            diary.append("ran")
            raise ValueError("no")

    class Whole(Reactor):
        background = True
        work = step(Flaky)

    class Stops(Reactor):
        background = True

        @step
        def work() -> None:
            halt("enough")

    with Runtime(storage, jobs="immediate") as runtime:
        found = run_of(runtime, Whole.run()).result
        assert isinstance(found, Failure) and found.attempts == 2
        assert run_of(runtime, Stops.run()).result == Halt("enough")
    assert diary == ["ran", "ran"]


def test_a_job_store_is_needed_for_a_worker(storage: str) -> None:
    class Bare:
        """A run store without a job table."""

        def __init__(self) -> None:
            self._store = open_store(storage)

        def __getattr__(self, name: str) -> Any:
            if name == "jobs":
                raise AttributeError(name)
            return getattr(self._store, name)

    with (
        Runtime(Bare()) as runtime,
        pytest.raises(Exception, match="keeps no jobs"),
    ):
        runtime.start_worker(1)


def test_wrong_hand_offs_are_refused_when_declared() -> None:
    class Other(Reactor):
        work = step(reactors.Note)

    with pytest.raises(DefinitionError, match="not several"):

        class Two(Reactor):
            first = step(reactors.Note)
            second = step(reactors.Note)
            background = (after(first), after(second))  # type: ignore[assignment]

    with pytest.raises(DefinitionError, match="Foreign"):

        class Foreign(Reactor):
            first = step(reactors.Note)
            background = after(Other.work)

    with pytest.raises(DefinitionError, match="no hand-off point"):

        class Text(Reactor):
            first = step(reactors.Note)
            background = "yes"  # type: ignore[assignment]


def test_wrong_spawns_are_refused_when_declared() -> None:
    with pytest.raises(DefinitionError, match="not retried by its parent"):

        class Retried(Reactor):
            unit = spawn(reactors.Note).retry(max_attempts=2)
            done = step(reactors.Note)

    with pytest.raises(DefinitionError, match="is spawned"):

        class Returned(Reactor):
            done = step(reactors.Note)
            unit = spawn(reactors.Note)
            returns = unit


def test_a_reactor_that_ends_with_a_spawn_returns_what_it_waits_for(
    runtime: Runtime, notes: list[str]
) -> None:
    class Last(Reactor):
        done = step(reactors.Note, text="done")
        unit = spawn(reactors.Note)

    runtime.start_worker(1)
    assert Last.run() == Success("done")
