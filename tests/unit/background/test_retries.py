"""Retries in a worker: jobs, not sleeping threads."""

from __future__ import annotations

from typing import Any

import pytest

from calandria import (
    Failure,
    Reactor,
    Retry,
    Runtime,
    Settings,
    Step,
    Success,
    compose,
    map_each,
    step,
)
from calandria.runtime.worker import Worker
from calandria.statuses import RunStatus, StepStatus
from tests.unit.background.helping import eventually, kinds, result_of, run_of

LATER = Retry(max_attempts=3, backoff="fixed", base_delay=0.15, jitter=0)


def flaky(diary: list[str], failures: int, policy: Retry = LATER) -> type[Step]:
    """Return a step that fails so many times."""

    class Flaky(Step):
        retry = policy

        def run(self) -> str:
            diary.append(f"attempt {self.context.attempt}")
            if len([note for note in diary if note.startswith("attempt")]) <= failures:
                raise ValueError("not yet")
            return "done"

    return Flaky


def test_no_thread_sleeps_for_a_retry(runtime: Runtime, diary: list[str]) -> None:
    class Retried(Reactor):
        background = True
        work = step(flaky(diary, 2))

    class Other(Reactor):
        background = True

        @step
        def work() -> None:
            diary.append("other")

    runtime.start_worker(1)
    run = run_of(runtime, Retried.run())
    eventually(lambda: run.waiting_on)
    assert run.waiting_on == ["retry work"]
    assert (run.status, run.lease_owner) == (RunStatus.RUNNING, None)
    others = [run_of(runtime, Other.run()) for _ in range(3)]
    assert [other.wait(10) for other in others] == [Success(None)] * 3
    assert run.wait(10) == Success("done")
    # the one thread served the others while the retry was due later
    assert diary.index("other") < diary.index("attempt 3")


def test_attempts_are_counted_in_the_journal(runtime: Runtime, diary: list[str]) -> None:
    class Retried(Reactor):
        background = True
        work = step(flaky(diary, 9))

    runtime.start_worker(1)
    run = run_of(runtime, Retried.run())
    found = run.wait(10)
    assert isinstance(found, Failure) and found.attempts == 3
    assert diary == ["attempt 1", "attempt 2", "attempt 3"]
    (view,) = run.steps()
    assert (view.attempts, view.recoveries) == (3, 0)
    assert kinds(run).count("run.parked") == 2


def test_a_retry_is_due_to_the_millisecond(runtime: Runtime, diary: list[str]) -> None:
    class Retried(Reactor):
        background = True
        work = step(flaky(diary, 1, Retry(max_attempts=2, base_delay=0.151, jitter=0)))

    runtime.start_worker(1)
    run = run_of(runtime, Retried.run())
    run.wait(10)
    at = {f"{entry.kind} {len(entry.data)}": entry.at for entry in run.trace}
    failed = next(entry.at for entry in run.trace if entry.kind == "step.retrying")
    again = [entry.at for entry in run.trace if entry.kind == "step.started"][1]
    # never early, which a due time rounded to seconds or tenths would be
    assert (again - failed).total_seconds() >= 0.151, at


def test_a_retry_pending_at_the_hand_off_is_made_in_the_worker(
    runtime: Runtime, diary: list[str]
) -> None:
    from calandria import after

    class Retried(Reactor):
        concurrency = 2
        work = step(flaky(diary, 1, Retry(max_attempts=2, base_delay=0.3, jitter=0)))

        @step
        def trigger() -> None:
            diary.append("trigger")

        @step
        def last(*, work: str, trigger: None) -> str:
            return work

        background = after(trigger)

    runtime.start_worker(1)
    run = run_of(runtime, Retried.run())
    assert run.wait(10) == Success("done")
    found = kinds(run)
    assert found.index("step.retrying work") < found.index("run.handed_over")
    assert found.count("step.started work") == 2
    assert found.index("run.handed_over") < len(found) - found[::-1].index("step.started work")


@pytest.mark.parametrize("place", ["map", "compose", "element"])
def test_nested_retries_park_too(runtime: Runtime, diary: list[str], place: str) -> None:
    class Inner(Reactor):
        work = step(flaky(diary, 1))

    class Mapped(Reactor):
        background = True
        works = map_each(flaky(diary, 1), over=[0, 1]).collect(list)

    class Composed(Reactor):
        background = True
        inner = compose(Inner)

    class Elements(Reactor):
        background = True
        works = map_each(Inner, over=[0, 1]).collect(list)

    reactor: type[Reactor] = {"map": Mapped, "compose": Composed, "element": Elements}[place]
    waits = {
        "map": "retry works[0]",
        "compose": "retry inner/work",
        "element": "retry works[0]/work",
    }
    runtime.start_worker(1)
    run = run_of(runtime, reactor.run())
    eventually(lambda: run.waiting_on)
    assert run.waiting_on == [waits[place]]
    expected: Any = "done" if place == "compose" else ["done", "done"]
    assert run.wait(10) == Success(expected)
    assert len(diary) == (2 if place == "compose" else 3)


def test_retries_of_a_rollback_park_too(runtime: Runtime, diary: list[str]) -> None:
    class Careful(Step):
        rollback_retry = Retry(max_attempts=3, base_delay=0.15, jitter=0)

        def run(self) -> str:
            return "done"

        def undo(self, result: str) -> None:
            diary.append("undo")
            if diary.count("undo") < 3:
                raise ValueError("not yet")

    class Rolled(Reactor):
        background = True
        first = step(Careful)

        @step
        def falls(*, first: str) -> None:
            raise ValueError("no")

    runtime.start_worker(1)
    run = run_of(runtime, Rolled.run())
    eventually(lambda: run.waiting_on)
    assert run.waiting_on == ["retry of a rollback"]
    assert run.status is RunStatus.ROLLING_BACK
    found = run.wait(10)
    assert isinstance(found, Failure) and (found.error, found.rollback_failures) == ("no", [])
    assert diary == ["undo"] * 3


def test_a_parked_run_can_be_cancelled(worker: Worker, runtime: Runtime, diary: list[str]) -> None:
    class Retried(Reactor):
        background = True
        work = step(flaky(diary, 1, Retry(max_attempts=2, base_delay=60)))

    run = run_of(runtime, Retried.run())
    eventually(lambda: run.waiting_on)
    run.cancel("no more")
    assert (run.status, run.waiting_on) == (RunStatus.CANCELLED, [])
    assert diary == ["attempt 1"]


def test_a_parked_run_can_be_recovered_here(
    worker: Worker, runtime: Runtime, diary: list[str]
) -> None:
    class Retried(Reactor):
        background = True
        work = step(flaky(diary, 1))

    run = run_of(runtime, Retried.run())
    eventually(lambda: run.waiting_on)
    assert next(run.steps()).status is StepStatus.RETRYING
    assert run.recover() == Success("done")


def test_retries_of_a_spawned_unit_park(worker: Worker, runtime: Runtime, diary: list[str]) -> None:
    from calandria import spawn

    class Parent(Reactor):
        background = True
        unit = spawn(flaky(diary, 1))

        @step
        def read(*, unit: str) -> str:
            return unit

    assert result_of(runtime, Parent.run()) == Success("done")
    assert diary == ["attempt 1", "attempt 2"]


def test_a_parked_rollback_counts_attempts_and_no_crashes(storage: str, diary: list[str]) -> None:
    class Hopeless(Step):
        rollback_retry = Retry(max_attempts=4, backoff="fixed", base_delay=0.1, jitter=0)

        def run(self) -> str:
            return "done"

        def undo(self, result: str) -> None:
            diary.append("undo")
            raise ValueError("never")

    class Rolled(Reactor):
        background = True
        first = step(Hopeless)

        @step
        def falls(*, first: str) -> None:
            raise ValueError("no")

    with Runtime(storage, settings=Settings(max_recoveries=1)) as runtime:
        runtime.start_worker(1)
        found = run_of(runtime, Rolled.run()).wait(10)
    assert isinstance(found, Failure)
    assert diary == ["undo"] * 4
    assert [failure.reason for failure in found.rollback_failures] == ["raised"]
