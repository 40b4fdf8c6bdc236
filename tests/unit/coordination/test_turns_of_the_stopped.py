"""A run that was cancelled before its turn does not hold up those after it."""

from __future__ import annotations

from calandria import OrderedLock, Reactor, RunStatus, Runtime, Settings, Success, step
from calandria.results import Dispatched

done: list[int] = []


class Numbered(Reactor):
    key: str
    number: int

    coordination = [OrderedLock("sequence:{key}")]
    background = True

    @step
    def work(*, number: int) -> int:
        done.append(number)
        return number


def dispatched(number: int) -> str:
    result = Numbered.run(key="a", number=number)
    assert isinstance(result, Dispatched)
    return result.run_id


def test_a_cancelled_position_is_over() -> None:
    done.clear()
    with Runtime(
        "memory://", settings=Settings(snooze_base_delay=0.05, snooze_jitter=0.05)
    ) as runtime:
        # Given three runs in one sequence, the second cancelled before any of them began
        first, second, third = (dispatched(number) for number in (1, 2, 3))
        runtime.find(second).cancel("not wanted")
        # When a worker goes on with them
        runtime.start_worker(2)
        # Then the third follows the first, and the sequence drains
        assert runtime.find(first).wait(10) == Success(1)
        assert runtime.find(third).wait(10) == Success(3)
        assert runtime.find(second).status is RunStatus.CANCELLED
        assert done == [1, 3]
        assert runtime.gates.store.sequence("sequence:a") == []
