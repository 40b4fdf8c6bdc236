"""FR-028: what is taken, refused, parked and let go of is told with its step, key and primitive."""

from __future__ import annotations

import threading
from typing import Any

from calandria import (
    Dispatched,
    Halt,
    Lock,
    Middleware,
    OrderedLock,
    Period,
    RateLimit,
    Reactor,
    RunInfo,
    Runtime,
    Semaphore,
    Settings,
    Skipped,
    Step,
    StepInfo,
    Success,
    fail,
    step,
)

Told = tuple[str, ...]

told: list[Told] = []
inside = threading.Event()
go_on = threading.Event()


class Teller(Middleware):
    """Notes what it is told: hook, run, step, key, primitive."""

    def hold_acquired(self, step: StepInfo, key: str, primitive: str) -> None:
        told.append(("acquired", step.path, key, primitive))

    def hold_refused(self, step: StepInfo, key: str, primitive: str) -> None:
        told.append(("refused", step.path, key, primitive))

    def hold_released(self, step: StepInfo, key: str, primitive: str) -> None:
        told.append(("released", step.path, key, primitive))

    def run_parked(self, run: RunInfo, waits_for: str) -> None:
        told.append(("parked", waits_for))


class Everything(Step):
    coordination = [
        Semaphore("s", limit=2),
        Lock("b"),
        Lock("a"),
        RateLimit("r", limit=100),
        Period("p", every="year"),
        OrderedLock("o"),
    ]

    def run(self) -> str:
        told.append(("ran",))
        return "done"

    def undo(self, result: str) -> None:
        told.append(("undone",))


class Full(Reactor):
    everything = step(Everything)


class Whole(Reactor):
    coordination = [Lock("whole"), OrderedLock("line"), RateLimit("pace", limit=100)]

    @step
    def work() -> str:
        told.append(("ran",))
        return "done"


class RollsBack(Reactor):
    everything = step(Everything)

    @step
    def refuse(*, everything: str) -> str:
        fail("no")


class Waits(Step):
    coordination = [Lock("narrow")]

    def run(self) -> str:
        inside.set()
        go_on.wait(20)
        return "through"


class Narrow(Reactor):
    waits = step(Waits)
    background = True


class Gated(Reactor):
    coordination = [Lock("gate")]
    background = True

    @step
    def wait() -> str:
        inside.set()
        go_on.wait(20)
        return "through"


def memory(**settings: Any) -> Runtime:
    told.clear()
    return Runtime("memory://", middleware=[Teller], settings=Settings(**settings))


def test_all_is_told_in_the_order_of_taking_and_back() -> None:
    with memory():
        assert Full.run() == Success("done")

    assert told == [
        ("acquired", "everything", "o", "ordered_lock"),
        ("acquired", "everything", "p", "period"),
        ("acquired", "everything", "r", "rate_limit"),
        ("acquired", "everything", "a", "lock"),
        ("acquired", "everything", "b", "lock"),
        ("acquired", "everything", "s", "semaphore"),
        ("ran",),
        ("released", "everything", "s", "semaphore"),
        ("released", "everything", "b", "lock"),
        ("released", "everything", "a", "lock"),
        ("released", "everything", "o", "ordered_lock"),
    ]


def test_the_trace_has_it_too() -> None:
    with memory():
        run = Full.find(str(Full.run().run_id))
        lines = [entry for entry in run.trace if entry.kind.startswith("hold.")]

    assert [entry.data["key"] for entry in lines] == list("oprabs") + list("sbao")
    assert {entry.path for entry in lines} == {"everything"}
    assert [entry.data.get("token") for entry in lines[3:6]] == [1, 1, 1]


def test_a_whole_reactors_are_told_without_a_step() -> None:
    with memory():
        run_id = str(Whole.run().run_id)
        lines = [entry for entry in Whole.find(run_id).trace if entry.kind.startswith("hold.")]

    assert told == [
        ("acquired", "", "line", "ordered_lock"),
        ("acquired", "", "pace", "rate_limit"),
        ("acquired", "", "whole", "lock"),
        ("ran",),
        ("released", "", "whole", "lock"),
        ("released", "", "line", "ordered_lock"),
    ]
    assert [entry.path for entry in lines] == [None] * 5


def test_rollback_tells_only_of_what_it_takes_again() -> None:
    with memory():
        assert not RollsBack.run().ok
    back = told[told.index(("undone",)) - 3 :]

    assert [one[0] for one in back] == ["acquired"] * 3 + ["undone"] + ["released"] * 3
    assert {one[3] for one in back if len(one) > 1} == {"lock", "semaphore"}


def test_a_period_that_is_taken_is_told_as_refused() -> None:
    with memory():
        Full.run()
        told.clear()
        assert Full.run() in (Success(None), Skipped(None))

    assert ("refused", "everything", "p", "period") in told
    assert ("ran",) not in told


def test_a_worker_tells_that_it_parked_a_run_for_a_step() -> None:
    inside.clear()
    go_on.clear()
    with memory(snooze_base_delay=60, snooze_jitter=0) as runtime:
        runtime.start_worker(2)
        first = Narrow.run()
        assert inside.wait(20) and isinstance(first, Dispatched)
        second = Narrow.run()
        assert isinstance(second, Dispatched)
        while ("parked", "lock narrow (Narrow.waits)") not in told:
            runtime.pause(0.005)
        go_on.set()
        assert Narrow.find(second.run_id).wait(20) == Success("through")

    assert told.count(("refused", "waits", "narrow", "lock")) == 1
    assert told.count(("parked", "lock narrow (Narrow.waits)")) == 1
    assert told.count(("acquired", "waits", "narrow", "lock")) == 2
    assert told.count(("released", "waits", "narrow", "lock")) == 2


def test_a_worker_tells_that_it_parked_a_run_at_its_gates() -> None:
    inside.clear()
    go_on.clear()
    with memory(snooze_base_delay=0.05, snooze_jitter=0, snooze_max_attempts=1000) as runtime:
        runtime.start_worker(2)
        first = Gated.run()
        assert inside.wait(20) and isinstance(first, Dispatched)
        second = Gated.run()
        assert isinstance(second, Dispatched)
        while ("parked", "lock gate (Gated)") not in told:
            runtime.pause(0.005)
        go_on.set()
        assert Gated.find(second.run_id).wait(20) == Success("through")

    gates = [one for one in told if "gate" in one or "lock gate (Gated)" in one]
    assert sorted(gates) == [
        ("acquired", "", "gate", "lock"),
        ("acquired", "", "gate", "lock"),
        ("parked", "lock gate (Gated)"),
        ("refused", "", "gate", "lock"),
        ("released", "", "gate", "lock"),
        ("released", "", "gate", "lock"),
    ]


def test_a_refused_call_tells_nothing_because_nothing_ran() -> None:
    class Once(Reactor):
        coordination = [Period("once", every="year")]

        @step
        def work() -> str:
            return "done"

    with memory():
        assert Once.run() == Success("done")
        told.clear()
        assert Once.run() == Halt("period")

    assert told == []
