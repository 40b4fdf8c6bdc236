"""Ordered sequences: who comes after whom, what a failure means for the rest, who is passed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from calandria import (
    Halt,
    Lock,
    OrderedLock,
    OutOfTurn,
    Reactor,
    Retry,
    Runtime,
    Settings,
    Step,
    Success,
    step,
)
from calandria.statuses import RunStatus
from tests.unit.coordination.crashing import Host
from tests.unit.coordination.helping import (
    Gate,
    eventually,
    failure,
    kinds,
    let_go,
    parked,
    result_of,
    run_of,
    store_of,
    take,
)

GATES: dict[int, Gate] = {}
DONE: list[int] = []


@pytest.fixture(autouse=True)
def _fresh() -> None:
    GATES.clear()
    DONE.clear()


def work(number: int) -> int:
    if number in GATES:
        GATES[number]()
    if number < 0:
        raise ValueError("no")
    DONE.append(number)
    return number


class Strict(Step):
    number: int
    coordination = [OrderedLock("o")]

    def run(self) -> int:
        return work(self.number)


class Lenient(Step):
    number: int
    coordination = [OrderedLock("o", strict=False)]

    def run(self) -> int:
        return work(self.number)


class OnStep(Reactor):
    number: int
    background = True

    @step
    def before(*, number: int) -> int:
        return number

    only = step(Strict).after(before)

    @step
    def after(*, only: Any) -> Any:
        return [only]


class LenientOnStep(Reactor):
    number: int
    background = True
    only = step(Lenient)


class OnReactor(Reactor):
    number: int
    background = True
    coordination = [OrderedLock("o")]

    @step
    def only(*, number: int) -> int:
        return work(number)


class Here(Reactor):
    coordination = [OrderedLock("o", poison_timeout=1)]

    @step
    def only() -> str:
        return "done"


class Scheduled(Here):
    background = True


def test_us5_4_on_a_step_each_waits_for_its_turn(runtime: Runtime) -> None:
    """US5.4: in the order of arrival at the step; the steps around it are not held up."""
    GATES[1] = Gate()
    runtime.start_worker(3)
    first = OnStep.run(number=1)
    GATES[1].await_entry()
    second = parked(runtime, OnStep.run(number=2))
    assert second.results["before"] == 2
    third = parked(runtime, OnStep.run(number=3))
    assert [one.position for one in store_of(runtime).sequence("o")] == [1, 2, 3]
    GATES[1].open()
    assert result_of(runtime, first) == Success([1])
    assert second.wait(20) == Success([2]) and third.wait(20) == Success([3])
    assert DONE == [1, 2, 3]
    assert store_of(runtime).sequence("o") == []


def test_fr_004_and_us5_5_after_a_failure_later_positions_skip_that_step(
    runtime: Runtime,
) -> None:
    """FR-004, US5.5: the step is skipped, the run goes on; a drained sequence begins anew."""
    GATES[-1] = Gate()
    runtime.start_worker(3)
    first = OnStep.run(number=-1)
    GATES[-1].await_entry()
    second = parked(runtime, OnStep.run(number=2))
    third = parked(runtime, OnStep.run(number=3))
    GATES[-1].open()
    assert not result_of(runtime, first).ok
    assert second.wait(20) == Success([None]) and third.wait(20) == Success([None])
    assert any(line.startswith("step.ordered_lock_chain_failed only") for line in kinds(second))
    assert DONE == []
    assert store_of(runtime).sequence("o") == []
    assert result_of(runtime, OnStep.run(number=4)) == Success([4])


def test_on_a_reactor_later_positions_halt(runtime: Runtime) -> None:
    dispatched = [OnReactor.run(number=number) for number in (-1, 2, 3)]
    runtime.start_worker(3)
    results = [result_of(runtime, one) for one in dispatched]
    assert not results[0].ok
    assert results[1:] == [Halt("ordered_lock_chain_failed")] * 2
    assert run_of(runtime, dispatched[1]).status is RunStatus.HALTED
    assert DONE == [] and store_of(runtime).sequence("o") == []
    assert result_of(runtime, OnReactor.run(number=4)) == Success(4)


def test_the_end_of_a_turn_wakes_the_next_at_once() -> None:
    settings = Settings(snooze_base_delay=3600, snooze_jitter=0)
    with Runtime("memory://", settings=settings) as runtime:
        dispatched = [OnReactor.run(number=number) for number in (-1, 2, 3, 4)]
        runtime.start_worker(3)
        results = [result_of(runtime, one) for one in dispatched]
        assert results[1:] == [Halt("ordered_lock_chain_failed")] * 3
        dispatched = [OnReactor.run(number=number) for number in range(5, 9)]
        assert [result_of(runtime, one) for one in dispatched] == [
            Success(number) for number in range(5, 9)
        ]


def test_a_lenient_sequence_goes_on_after_a_failure(runtime: Runtime) -> None:
    GATES[-1] = Gate()
    runtime.start_worker(2)
    first = LenientOnStep.run(number=-1)
    GATES[-1].await_entry()
    second = LenientOnStep.run(number=2)
    parked(runtime, second)
    GATES[-1].open()
    assert not result_of(runtime, first).ok
    assert result_of(runtime, second) == Success(2)


def test_a_position_is_over_only_when_its_rollback_is(runtime: Runtime) -> None:
    gate = Gate()

    class Cleans(Step):
        number: int
        coordination = [OrderedLock("o", strict=False)]

        def run(self) -> int:
            return work(self.number)

        def compensate(self, reason: object) -> None:
            gate()

    class Wired(Reactor):
        number: int
        background = True
        only = step(Cleans)

    runtime.start_worker(2)
    first = Wired.run(number=-1)
    gate.await_entry()
    second = parked(runtime, Wired.run(number=2))
    assert DONE == []
    gate.open()
    assert not result_of(runtime, first).ok
    assert second.wait(20) == Success(2)


def test_a_retried_step_keeps_its_position(runtime: Runtime) -> None:
    class Fickle(Step):
        number: int
        coordination = [OrderedLock("o")]
        retry = Retry(max_attempts=2, base_delay=0.1)

        def run(self) -> int:
            if self.number == 1 and self.context.attempt == 1:
                GATES[1].entered.set()
                raise ValueError("once more")
            return work(self.number)

    class Wired(Reactor):
        number: int
        background = True
        only = step(Fickle)

    GATES[1] = Gate()
    GATES[1].open()
    runtime.start_worker(2)
    first = Wired.run(number=1)
    GATES[1].await_entry()
    second = Wired.run(number=2)
    assert result_of(runtime, second) == Success(2)
    assert result_of(runtime, first) == Success(1)
    assert DONE == [1, 2]


def test_a_scheduled_and_a_waiting_position_are_not_passed(tmp_path: Path) -> None:
    """semantics 4: a living one, a paused or a scheduled one included, never is."""
    host = Host(tmp_path)
    with host.open() as runtime:
        scheduled = Scheduled.run()
        host.pass_time()
        with pytest.raises(OutOfTurn):
            Here.run()
        runtime.start_worker(1)
        assert result_of(runtime, scheduled) == Success("done")
        assert Here.run() == Success("done")


def test_the_dead_are_passed_and_skip_when_they_wake(tmp_path: Path) -> None:
    """On a step: skipped with reason `ordered_lock_stale`, never out of order."""
    host = Host(tmp_path)
    death: list[Any] = []

    class Next(Step):
        coordination = [OrderedLock("o", poison_timeout=5)]

        def run(self) -> str:
            if death:
                death.pop()()
            return "done"

    class Wired(Reactor):
        only = step(Next)

    run_id = host.die_in(Wired, death.append)
    with host.open() as runtime:
        host.pass_time(32)
        assert failure(Wired.run()).exception_class == "OutOfTurn"
        host.pass_time(10)
        assert Wired.run() == Success("done")
        assert Wired.recover(run_id) == Success(None)
        lines = kinds(runtime.find(run_id))
        assert any(line.startswith("step.ordered_lock_stale only") for line in lines)
        assert store_of(runtime).sequence("o") == []


def test_a_finished_position_that_comes_again_is_harmless(runtime: Runtime) -> None:
    GATES[2] = Gate()
    runtime.start_worker(2)
    first = OnReactor.run(number=1)
    second = OnReactor.run(number=2)
    GATES[2].await_entry()
    assert result_of(runtime, first) == Success(1)
    # its job is delivered once more
    runtime.runner.recover(None, run_of(runtime, first).id)
    GATES[2].open()
    assert result_of(runtime, second) == Success(2)
    assert DONE == [1, 2] and store_of(runtime).sequence("o") == []


def test_an_operator_passes_a_position(runtime: Runtime) -> None:
    GATES[1] = Gate()
    runtime.start_worker(2)
    first = OnReactor.run(number=1)
    GATES[1].await_entry()
    second = OnReactor.run(number=2)
    parked(runtime, second)
    assert [one.position for one in OrderedLock.peek("o")] == [1, 2]
    assert OrderedLock.skip("o", 1)
    assert result_of(runtime, second) == Success(2)
    GATES[1].open()
    eventually(lambda: run_of(runtime, first).status.value != "running")


def test_a_turn_is_taken_before_a_lock_and_kept_while_waiting_for_it(runtime: Runtime) -> None:
    class Both(Step):
        number: int
        coordination = [Lock("k", wait=20), OrderedLock("o")]

        def run(self) -> int:
            return work(self.number)

    class Wired(Reactor):
        number: int
        background = True
        only = step(Both)

    take(runtime, "k")
    runtime.start_worker(2)
    first = parked(runtime, Wired.run(number=1))
    second = parked(runtime, Wired.run(number=2))
    assert first.waiting_on == ["lock k (Wired.only)"]
    assert second.waiting_on == ["turn o (Wired.only)"]
    let_go(runtime)
    assert first.wait(20) == Success(1) and second.wait(20) == Success(2)
    assert DONE == [1, 2]
