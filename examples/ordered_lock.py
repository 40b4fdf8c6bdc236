"""Ordered locks: runs pass in the order in which they were started, whichever worker has them."""

from __future__ import annotations

from collections.abc import Sequence

from calandria import (
    Dispatched,
    Failure,
    Halt,
    OrderedLock,
    Reactor,
    Result,
    Runtime,
    Settings,
    Success,
    fail,
    step,
)

applied: list[int] = []


class ApplyChange(Reactor):
    document: str
    number: int

    # The position is assigned when `run` is called, together with the run.
    coordination = [OrderedLock("document:{document}")]
    background = True

    @step
    def apply(*, number: int) -> int:
        if number < 0:
            fail("cannot be applied")
        applied.append(number)
        return number


class ApplyAnyway(ApplyChange):
    """Lenient: after a failure the next ones run all the same."""

    coordination = [OrderedLock("document:{document}", strict=False)]


def work_off(started: Sequence[Result[int]], runtime: Runtime) -> list[Result[int]]:
    """Start four workers' threads, and return what the runs came to."""
    worker = runtime.start_worker(threads=4)
    results: list[Result[int]] = []
    for one in started:
        assert isinstance(one, Dispatched)
        results.append(runtime.find(one.run_id).wait(timeout=10))
    assert worker.stop(timeout=10)
    return results


def main(runtime: Runtime) -> None:
    work_off([ApplyChange.run(document="a", number=number) for number in range(10)], runtime)
    print("in order:", applied)
    assert applied == list(range(10))

    # Strict, the default: what comes after a failure does not run.
    applied.clear()
    started = [ApplyChange.run(document="b", number=number) for number in (1, -2, 3)]
    results = work_off(started, runtime)
    print("strict:", applied, results[2])
    assert applied == [1]
    assert isinstance(results[1], Failure)
    assert results[2] == Halt("ordered_lock_chain_failed")

    applied.clear()
    started = [ApplyAnyway.run(document="c", number=number) for number in (1, -2, 3)]
    results = work_off(started, runtime)
    print("lenient:", applied)
    assert applied == [1, 3] and results[2] == Success(3)

    # What is stuck can be passed by hand: here nobody works on it.
    stuck = ApplyChange.run(document="d", number=1)
    behind = ApplyChange.run(document="d", number=2)
    assert isinstance(stuck, Dispatched) and isinstance(behind, Dispatched)
    positions = OrderedLock.peek("document:d")
    print("waiting:", [(one.position, one.state) for one in positions])
    assert [one.execution for one in positions] == [stuck.run_id, behind.run_id]
    assert OrderedLock.skip("document:d", 1)
    worker = runtime.start_worker(threads=1)
    assert ApplyChange.find(behind.run_id).wait(timeout=10) == Success(2)
    assert ApplyChange.find(stuck.run_id).wait(timeout=10) == Halt("ordered_lock_stale")
    assert list(OrderedLock.peek("document:d")) == []
    assert worker.stop(timeout=10)


if __name__ == "__main__":
    settings = Settings(snooze_base_delay=0.2, snooze_jitter=0.2)
    with Runtime(storage="memory://", settings=settings) as runtime:
        main(runtime)
