"""What contention does: in the caller's process it waits, then fails; in a worker the run parks."""

from __future__ import annotations

import threading

import pytest

from calandria import (
    Dispatched,
    Lock,
    LockNotAcquired,
    OrderedLock,
    RateLimit,
    RateLimited,
    Reactor,
    Retry,
    Runtime,
    Semaphore,
    SemaphoreFull,
    Settings,
    Step,
    Success,
    inputs,
    step,
)
from calandria.statuses import RollbackState, RunStatus
from tests.unit.coordination.helping import (
    Aside,
    Gate,
    eventually,
    failure,
    held_keys,
    holds_told,
    kinds,
    let_go,
    locked,
    parked,
    result_of,
    run_of,
    store_of,
    stranger,
    take,
)


def test_fr_016_a_synchronous_step_waits_then_fails_and_rolls_back(
    runtime: Runtime, diary: list[str]
) -> None:
    """FR-016, US3.4: naming reactor, step and key; prior steps are rolled back, it is not."""

    class Wired(Reactor):
        before = step(locked(diary, "a"))
        only = step(locked(diary, "k", on=Lock("k", wait=0.05))).after(before)

    with stranger(runtime, "k"):
        found = failure(Wired.run())
    error = found.exception
    assert isinstance(error, LockNotAcquired)
    assert (error.reactor, error.step, error.key) == ("Wired", "only", "k")
    assert "Wired.only" in found.error and "'k'" in found.error and "0.05 s" in found.error
    assert found.attempts == 0 and found.rollback_failures == []
    assert diary == ["+a", "-a"]


def test_a_synchronous_step_gets_a_key_that_comes_free_in_time(
    runtime: Runtime, diary: list[str]
) -> None:
    class Wired(Reactor):
        only = step(locked(diary, "k", on=Lock("k", wait=20)))

    take(runtime, "k")
    waiting = Aside(Wired.run)
    assert not waiting.over
    let_go(runtime)
    assert waiting.result() == Success("k")


def test_each_primitive_has_an_error_of_its_own(runtime: Runtime) -> None:
    class Few(Step):
        coordination = [Semaphore("s", limit=1)]

        def run(self) -> None: ...

    class Rare(Step):
        coordination = [RateLimit("r", limits={"day": 1, "minute": 5})]

        def run(self) -> None: ...

    class Both(Reactor):
        which: str
        few = step(Few).when(lambda i: True)
        rare = step(Rare).after(few)

    take(runtime, "s", limit=1)
    full = failure(Both.run(which="few")).exception
    assert isinstance(full, SemaphoreFull) and full.step == "few"
    let_go(runtime)
    assert Both.run(which="rare").ok
    limited = failure(Both.run(which="rare")).exception
    assert isinstance(limited, RateLimited) and limited.step == "rare"
    assert limited.retry_after is not None and 60 < limited.retry_after <= 86400
    assert "86400" in str(limited)


def test_fr_015_and_sc_004_a_worker_parks_and_compensates_nothing(
    runtime: Runtime, diary: list[str]
) -> None:
    """FR-015, SC-004, US3.1, US3.2: it completes later; no retry spent, nothing rolled back."""

    class Wired(Reactor):
        background = True
        first = step(locked(diary, "a"))
        only = step(locked(diary, "k")).after(first)

    take(runtime, "k")
    runtime.start_worker(1)
    dispatched = Wired.run()
    run = parked(runtime, dispatched)
    assert run.waiting_on == ["lock k (Wired.only)"]
    assert (run.status, run.rollback, run.failure) == (RunStatus.RUNNING, RollbackState.NONE, None)
    assert not run.needs_attention
    assert diary == ["+a"]
    let_go(runtime)
    assert result_of(runtime, dispatched) == Success("k")
    assert diary == ["+a", "+k"]
    (view,) = [view for view in run.steps() if view.path == "only"]
    assert view.attempts == 1


def test_a_parked_run_is_woken_by_the_release_at_once(diary: list[str]) -> None:
    settings = Settings(snooze_base_delay=3600, snooze_jitter=0)
    with Runtime("memory://", settings=settings) as runtime:

        class Wired(Reactor):
            background = True
            only = step(locked(diary, "k"))

        gate = Gate()

        class Holder(Reactor):
            only = step(locked(diary, "k", gate))

        holder = Aside(Holder.run)
        gate.await_entry()
        runtime.start_worker(1)
        dispatched = Wired.run()
        parked(runtime, dispatched)
        gate.open()
        assert holder.result().ok
        assert result_of(runtime, dispatched) == Success("k")


def test_other_ready_steps_go_first(runtime: Runtime, diary: list[str]) -> None:
    class Wired(Reactor):
        background = True
        blocked = step(locked(diary, "k"))
        free = step(locked(diary, "a"))
        later = step(locked(diary, "b")).after(free)
        last = step(locked(diary, "c")).after(blocked, later)

    take(runtime, "k")
    runtime.start_worker(1)
    dispatched = Wired.run()
    parked(runtime, dispatched)
    assert diary == ["+a", "+b"]
    let_go(runtime)
    assert result_of(runtime, dispatched) == Success("c")
    assert diary == ["+a", "+b", "+k", "+c"]


@pytest.mark.parametrize("outer", [False, True], ids=["alone", "under its reactor's own lock"])
def test_fr_017_contention_is_bounded_and_names_the_tries(diary: list[str], outer: bool) -> None:
    settings = Settings(snooze_base_delay=0.06, snooze_jitter=0, snooze_max_attempts=3)
    with Runtime("memory://", settings=settings) as runtime:

        class Wired(Reactor):
            background = True
            coordination = [Lock("outer")] if outer else []
            before = step(locked(diary, "a"))
            only = step(locked(diary, "k")).after(before)

        take(runtime, "k")
        runtime.start_worker(1)
        dispatched = Wired.run()
        found = failure(result_of(runtime, dispatched))
        assert found.exception_class == "LockNotAcquired" and "3 tries" in found.error
        assert found.step == "only"
        assert diary == ["+a", "-a"]
        lines = kinds(run_of(runtime, dispatched))
        # parks of one wait are one line of the trace
        assert lines.count("run.parked") == 1


def test_a_turn_is_waited_for_without_limit(diary: list[str]) -> None:
    settings = Settings(snooze_base_delay=0.06, snooze_jitter=0, snooze_max_attempts=1)
    with Runtime("memory://", settings=settings) as runtime:
        gate = Gate()

        class Next(Step):
            slow: bool
            coordination = [OrderedLock("o")]

            def run(self) -> str:
                if self.slow:
                    gate()
                return "done"

        class Wired(Reactor):
            slow: bool
            background = True
            only = step(Next)

        runtime.start_worker(2)
        first = Wired.run(slow=True)
        gate.await_entry()
        second = Wired.run(slow=False)
        run = parked(runtime, second)
        assert run.waiting_on == ["turn o (Wired.only)"]
        epoch = run.epoch
        eventually(lambda: run.epoch > epoch + 4)
        gate.open()
        assert result_of(runtime, second) == result_of(runtime, first) == Success("done")


def test_a_rate_limit_is_waited_out(runtime: Runtime, diary: list[str]) -> None:
    """The delay of the park is the time until the window has room."""

    class Rare(Step):
        coordination = [RateLimit("r", limit=1, per="second")]

        def run(self) -> None:
            diary.append("ran")

    class Wired(Reactor):
        background = True
        only = step(Rare)

    runtime.start_worker(1)
    dispatched = [Wired.run() for _ in range(3)]
    assert all(result_of(runtime, one).ok for one in dispatched)
    assert diary == ["ran"] * 3
    told = [holds_told(run_of(runtime, one)) for one in dispatched]
    # a park charges nothing: each was counted once
    assert all(lines.count("hold.acquired only rate_limit r") == 1 for lines in told)


def test_fr_018_outer_holds_are_kept_while_parked_and_not_acquired_again(
    runtime: Runtime, diary: list[str]
) -> None:
    """FR-018, US3.3, US4.6: ownership is kept across the gap, no duplicate acquisition."""

    class Wired(Reactor):
        background = True
        coordination = [Lock("outer", ttl=0.2)]
        only = step(locked(diary, "k"))

    take(runtime, "k")
    runtime.start_worker(1)
    dispatched = Wired.run()
    run = parked(runtime, dispatched)
    assert [hold.key for hold in run.holds] == ["outer"]
    (before,) = run.holds
    epoch = run.epoch
    eventually(lambda: run.epoch > epoch + 6)
    assert [hold.key for hold in eventually(lambda: run.holds)] == ["outer"]
    let_go(runtime)
    assert result_of(runtime, dispatched) == Success("k")
    lines = holds_told(run)
    assert lines.count("hold.acquired lock outer") == 1
    assert before.acquired_at <= run.created_at.timestamp() + 60
    assert held_keys(runtime) == []


def test_a_hold_that_lapsed_while_parked_is_competed_for_again(
    runtime: Runtime, diary: list[str]
) -> None:
    class Wired(Reactor):
        background = True
        coordination = [Lock("outer")]
        only = step(locked(diary, "k"))

    take(runtime, "k")
    worker = runtime.start_worker(1)
    dispatched = Wired.run()
    run = parked(runtime, dispatched)
    worker.stop()
    # it lapses, and a stranger takes the key
    store_of(runtime).release(run.id, "")
    take(runtime, "outer", "other")
    let_go(runtime)
    runtime.start_worker(1)
    eventually(lambda: run.waiting_on == ["lock outer (Wired)"])
    assert diary == []
    let_go(runtime, "other")
    assert result_of(runtime, dispatched) == Success("k")


def test_deadlock_is_found_at_the_park_and_names_the_circle(runtime: Runtime) -> None:
    """semantics 4: a park that would close a circle is refused; here of two runs."""
    both = threading.Barrier(2, timeout=20)

    class Second(Step):
        key: str
        coordination = [Lock("{key}")]

        def run(self) -> str:
            return "done"

    class Wired(Reactor):
        first: str
        second: str
        background = True
        coordination = [Lock("{first}")]

        @step
        def meet() -> None:
            both.wait()

        only = step(Second, key=inputs.second).after(meet)

    runtime.start_worker(2)
    dispatched = [Wired.run(first="a", second="b"), Wired.run(first="b", second="a")]
    results = [result_of(runtime, one) for one in dispatched]
    (failed,) = [one for one in results if not one.ok]
    found = failure(failed)
    assert found.exception_class == "Deadlock" and found.step == "only"
    for one in dispatched:
        assert isinstance(one, Dispatched) and one.run_id in found.error
    assert [one for one in results if one.ok] == [Success("done")]


def test_a_circle_of_three_with_a_turn_in_it_is_found(runtime: Runtime) -> None:
    """Two wait for each other's locks, one of them by way of an ordered turn."""
    all_three = threading.Barrier(3, timeout=20)

    class Second(Step):
        key: str
        coordination = [Lock("{key}")]

        def run(self) -> str:
            return "done"

    class Turn(Step):
        coordination = [OrderedLock("o")]

        def run(self) -> str:
            return "done"

    class Meeting(Reactor):
        background = True

        @step
        def meet() -> None:
            all_three.wait()

    class A(Meeting):
        coordination = [OrderedLock("o")]
        only = step(Second, key="b").after(Meeting.meet)

    class B(Meeting):
        coordination = [Lock("b")]
        only = step(Second, key="c").after(Meeting.meet)

    class C(Meeting):
        coordination = [Lock("c")]
        only = step(Turn).after(Meeting.meet)

    runtime.start_worker(3)
    results = [result_of(runtime, one) for one in [reactor.run() for reactor in (A, B, C)]]
    deadlocks = [one for one in results if not one.ok]
    assert len(deadlocks) == 1 and failure(deadlocks[0]).exception_class == "Deadlock"
    assert failure(deadlocks[0]).error.count(" -> ") == 2


def test_a_semaphore_with_a_place_to_come_is_no_deadlock(
    runtime: Runtime, diary: list[str]
) -> None:
    """One of its holders waits for this run, but another will let go."""

    class Wired(Reactor):
        background = True
        coordination = [Lock("mine")]
        only = step(locked(diary, "s", on=Semaphore("s", limit=2)))

    class Waits(Reactor):
        background = True
        coordination = [Semaphore("s", limit=2)]
        only = step(locked(diary, "mine"))

    gate = Gate()

    class Meets(Reactor):
        background = True
        coordination = [Semaphore("s", limit=2)]

        @step
        def only() -> str:
            gate()
            return "done"

    class Holds(Reactor):
        background = True
        coordination = [Lock("mine")]
        first = step(locked(diary, "gate"))
        only = step(locked(diary, "s", on=Semaphore("s", limit=2))).after(first)

    runtime.start_worker(2)
    free = Meets.run()
    gate.await_entry()
    take(runtime, "gate")
    holds = Holds.run()
    parked(runtime, holds)
    waits = Waits.run()
    assert parked(runtime, waits).waiting_on == ["lock mine (Waits.only)"]
    let_go(runtime)
    run = run_of(runtime, holds)
    eventually(lambda: run.waiting_on == ["semaphore s (Holds.only)"])
    gate.open()
    for one in (free, holds, waits):
        assert result_of(runtime, one).ok, result_of(runtime, one)
    assert Wired.check() is None


def test_siblings_contend_like_strangers(runtime: Runtime) -> None:
    """semantics 4: siblings running at the same time contend; here each waits for the other."""
    inside: list[int] = []
    most: list[int] = []
    lock = threading.Lock()

    class Alone(Step):
        coordination = [Lock("k", wait=20)]

        def run(self) -> None:
            with lock:
                inside.append(1)
                most.append(len(inside))
            threading.Event().wait(0.02)
            with lock:
                inside.pop()

    class Wired(Reactor):
        concurrency = 4
        a = step(Alone)
        b = step(Alone)
        c = step(Alone)

    assert Wired.run().ok
    assert most == [1, 1, 1]


def test_a_retried_step_competes_again(runtime: Runtime, diary: list[str]) -> None:
    class Fickle(Step):
        coordination = [Lock("k", wait=20)]
        retry = Retry(max_attempts=2, base_delay=0.05)

        def run(self) -> int:
            if self.context.attempt == 1:
                raise ValueError("once more")
            return self.context.attempt

    class Wired(Reactor):
        background = True
        only = step(Fickle)

    runtime.start_worker(1)
    assert result_of(runtime, Wired.run()) == Success(2)


def test_cancelling_a_parked_run_leaves_nothing_behind(runtime: Runtime, diary: list[str]) -> None:
    class Wired(Reactor):
        background = True
        coordination = [Lock("outer"), OrderedLock("oo")]
        only = step(locked(diary, "k"))

    take(runtime, "k")
    runtime.start_worker(1)
    run = parked(runtime, Wired.run())
    run.cancel("not wanted")
    eventually(lambda: run.status is RunStatus.CANCELLED)
    assert held_keys(runtime) == ["k"] and store_of(runtime).waiters() == []
    assert store_of(runtime).sequence("oo") == []
