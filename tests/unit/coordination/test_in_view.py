"""What operators and middleware see of coordination [FR-021, FR-028, FR-029, SC-010]."""

from __future__ import annotations

from typing import Any

from calandria import (
    Lock,
    Middleware,
    OrderedLock,
    Period,
    RateLimit,
    Reactor,
    Retry,
    Runtime,
    Semaphore,
    Step,
    StepInfo,
    step,
)
from calandria.statuses import RunStatus
from tests.unit.coordination.helping import (
    Aside,
    Gate,
    failure,
    let_go,
    locked,
    parked,
    result_of,
    run_of,
    store_of,
    stranger,
    take,
)

TOLD: list[str] = []


class Listening(Middleware):
    def hold_acquired(self, step: StepInfo, key: str, primitive: str) -> None:
        TOLD.append(f"acquired {step.path} {primitive} {key}")

    def hold_refused(self, step: StepInfo, key: str, primitive: str) -> None:
        TOLD.append(f"refused {step.path} {primitive} {key}")

    def hold_released(self, step: StepInfo, key: str, primitive: str) -> None:
        TOLD.append(f"released {step.path} {primitive} {key}")


def test_fr_028_acquired_refused_and_released_are_told_with_step_and_key(
    runtime: Runtime,
) -> None:
    TOLD.clear()

    class All(Step):
        coordination = [
            Lock("l"),
            Semaphore("s", limit=2),
            RateLimit("r", limit=9, per="day"),
            Period("p", every="year"),
            OrderedLock("o"),
        ]

        def run(self) -> None: ...

    class Wired(Reactor):
        middleware = [Listening]
        coordination = [Lock("outer")]
        only = step(All)

    class Refused(Reactor):
        middleware = [Listening]
        only = step(locked([], "l"))

    assert Wired.run().ok
    assert TOLD == [
        "acquired  lock outer",
        "acquired only ordered_lock o",
        "acquired only period p",
        "acquired only rate_limit r",
        "acquired only lock l",
        "acquired only semaphore s",
        "released only semaphore s",
        "released only lock l",
        "released only ordered_lock o",
        "released  lock outer",
    ]
    TOLD.clear()
    with stranger(runtime, "l"):
        assert not Refused.run().ok
    assert TOLD == ["refused only lock l"]


def test_fr_021_and_sc_010_a_live_hold_shows_key_step_and_holder(
    runtime: Runtime, diary: list[str]
) -> None:
    gate = Gate()

    class Wired(Reactor):
        coordination = [Lock("outer")]
        only = step(locked(diary, "k", gate))

    running = Aside(Wired.run)
    gate.await_entry()
    holds = store_of(runtime).holds()
    shown = {(hold.key, hold.path, hold.label) for hold in holds}
    assert shown == {("outer", "", "Wired"), ("k", "only", "Wired.only")}
    (execution,) = {hold.execution for hold in holds}
    run = runtime.find(execution)
    assert {hold.key for hold in run.holds} == {"outer", "k"}
    assert all(0 < hold.expires_in <= 60 for hold in run.holds)
    gate.open()
    assert running.result().ok
    assert run.holds == ()


def test_fr_029_and_us7_4_a_parked_run_is_told_from_a_failed_one(
    runtime: Runtime, diary: list[str]
) -> None:
    class Wired(Reactor):
        background = True
        first = step(locked(diary, "a"))
        only = step(locked(diary, "k")).after(first)

    take(runtime, "k")
    runtime.start_worker(1)
    dispatched = Wired.run()
    run = parked(runtime, dispatched)
    assert run.status is RunStatus.RUNNING and run.result is None and not run.needs_attention
    assert run.waiting_on == ["lock k (Wired.only)"]
    (waiter,) = store_of(runtime).waiters()
    assert (waiter.run_id, waiter.key, waiter.label) == (run.id, "k", "Wired.only")
    let_go(runtime)
    assert result_of(runtime, dispatched).ok
    assert run.waiting_on == [] and store_of(runtime).waiters() == []


def test_us7_2_a_failure_names_reactor_step_and_key(runtime: Runtime) -> None:
    class Wired(Reactor):
        only = step(locked([], "k"))

    with stranger(runtime, "k"):
        found = failure(Wired.run())
    assert (found.reactor, found.step) == ("Wired", "only")
    assert "Wired.only" in found.error and "'k'" in found.error and "stranger" in found.error


def test_what_coordinates_nothing_leaves_nothing(runtime: Runtime) -> None:
    class Plain(Reactor):
        @step(retry=Retry(max_attempts=2, base_delay=0))
        def only(*, context: Any) -> int:
            if context.attempt == 1:
                raise ValueError("once more")
            return 2

    result = Plain.run()
    assert [e.kind for e in run_of(runtime, result).trace if "hold" in e.kind] == []
