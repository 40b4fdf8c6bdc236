"""What a reactor declares is taken before anything of a run happens, once, and held to its end."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from calandria import (
    CalandriaError,
    Dispatched,
    Halt,
    Lock,
    LockNotAcquired,
    OrderedLock,
    OutOfTurn,
    Period,
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
    UndoIncomplete,
    runs,
    step,
)
from calandria.statuses import RunStatus
from tests.unit.coordination.crashing import Host
from tests.unit.coordination.helping import (
    Aside,
    Gate,
    eventually,
    failure,
    held_keys,
    let_go,
    locked,
    parked,
    result_of,
    run_of,
    store_of,
    stranger,
    take,
)


def work() -> str:
    return "done"


class Locked(Reactor):
    account: str
    coordination = [Lock("acct:{account}")]
    only = step(work)


class Full(Reactor):
    coordination = [Semaphore("s", limit=1)]
    only = step(work)


class Rare(Reactor):
    coordination = [RateLimit("r", limit=1, per="day")]
    only = step(work)


def test_fr_027_a_reactor_contends_before_anything_ran(runtime: Runtime) -> None:
    """FR-027, semantics 4: at reactor level `run` raises, as nothing ran; nothing is recorded."""
    with stranger(runtime, "acct:1"):
        with pytest.raises(LockNotAcquired) as raised:
            Locked.run(account="1")
        assert Locked.run(account="2") == Success("done")
    assert (raised.value.reactor, raised.value.step, raised.value.key) == ("Locked", None, "acct:1")
    assert len(list(runs())) == 1
    take(runtime, "s", limit=1)
    with pytest.raises(SemaphoreFull):
        Full.run()
    assert Rare.run() == Success("done")
    with pytest.raises(RateLimited):
        Rare.run()
    assert len(list(runs())) == 2


def test_a_reactor_waits_in_the_callers_process(runtime: Runtime) -> None:
    class Patient(Reactor):
        coordination = [Lock("k", wait=20)]
        only = step(work)

    take(runtime, "k")
    waiting = Aside(Patient.run)
    assert not waiting.over
    let_go(runtime)
    assert waiting.result() == Success("done")


def test_invalid_inputs_spend_nothing(runtime: Runtime) -> None:
    class Strict(Reactor):
        number: int
        coordination = [OrderedLock("o"), RateLimit("r", limit=1, per="day"), Lock("k")]
        only = step(work)

    assert failure(Strict.run(number="x")).exception_class == "ValidationError"  # type: ignore[arg-type]
    assert store_of(runtime).sequence("o") == [] and held_keys(runtime) == []
    assert Strict.run(number=1) == Success("done")


def test_a_refused_run_spends_no_position(runtime: Runtime) -> None:
    class Both(Reactor):
        coordination = [OrderedLock("o"), Lock("k")]
        only = step(work)

    with stranger(runtime, "k"), pytest.raises(LockNotAcquired):
        Both.run()
    assert store_of(runtime).sequence("o") == []
    assert Both.run() == Success("done")


def test_a_run_halted_by_its_period_spends_no_position(runtime: Runtime) -> None:
    class Both(Reactor):
        coordination = [OrderedLock("o"), Period("p", every="year")]
        only = step(work)

    assert Both.run() == Success("done")
    assert Both.run() == Halt("period")
    assert store_of(runtime).sequence("o") == []


def test_out_of_turn_hands_the_position_back(runtime: Runtime) -> None:
    gate = Gate()

    class Next(Reactor):
        slow: bool
        coordination = [OrderedLock("o")]

        @step
        def only(*, slow: bool) -> str:
            if slow:
                gate()
            return "done"

    first = Aside(lambda: Next.run(slow=True))
    gate.await_entry()
    with pytest.raises(OutOfTurn) as raised:
        Next.run(slow=False)
    assert raised.value.key == "o" and raised.value.reactor == "Next"
    assert len(store_of(runtime).sequence("o")) == 1
    gate.open()
    assert first.result() == Success("done")


def test_a_worker_does_not_wait_where_no_wait_is_declared(runtime: Runtime) -> None:
    """semantics 4: in a worker it waits `min(wait, 1 s)`, then the run is parked."""
    waits: list[float] = []
    wait = runtime.wait_for_release

    def noted(seconds: float) -> None:
        waits.append(seconds)
        wait(seconds)

    runtime.wait_for_release = noted  # type: ignore[method-assign]

    class Behind(Reactor):
        coordination = [Lock("k")]
        background = True
        only = step(work)

    with stranger(runtime, "k"):
        runtime.start_worker(1)
        dispatched = Behind.run()
        run = parked(runtime, dispatched)
        assert waits == []
        assert run.waiting_on == ["lock k (Behind)"]
        assert run.status in (RunStatus.PENDING, RunStatus.RUNNING)
    assert result_of(runtime, dispatched) == Success("done")


class Once(Reactor):
    coordination = [RateLimit("r", limit=1, per="day"), Period("p", every="year"), Lock("k")]
    background = True
    attempts: list[int] = []

    @step(retry=Retry(max_attempts=2, base_delay=0.1))
    def only(*, context: Any) -> str:
        if context.attempt == 1:
            raise ValueError("once more")
        return "done"


def test_a_run_is_admitted_once(runtime: Runtime) -> None:
    """A reactor's rate limit is charged once per execution, however often it is taken up."""
    runtime.start_worker(1)
    dispatched = Once.run()
    assert result_of(runtime, dispatched) == Success("done")
    assert [entry.kind for entry in run_of(runtime, dispatched).trace].count("run.parked") == 1


def test_a_mark_of_another_run_does_not_stop_an_admitted_one(runtime: Runtime) -> None:
    gate = Gate()

    class Slow(Reactor):
        coordination = [Period("p", every="year")]
        background = True

        @step(retry=Retry(max_attempts=2, base_delay=0.1))
        def only(*, context: Any) -> str:
            if context.attempt == 1:
                gate()
                raise ValueError("once more")
            return "done"

    class Quick(Reactor):
        coordination = [Period("p", every="year")]
        only = step(work)

    runtime.start_worker(1)
    dispatched = Slow.run()
    gate.await_entry()
    assert Quick.run() == Success("done")
    gate.open()
    assert result_of(runtime, dispatched) == Success("done")


def test_positions_are_assigned_when_run_is_called(runtime: Runtime, diary: list[str]) -> None:
    """semantics 4: on a reactor the position is assigned when `run` is called, with the run."""

    class Next(Reactor):
        number: int
        coordination = [OrderedLock("o")]
        background = True

        @step
        def only(*, number: int) -> int:
            diary.append(str(number))
            return number

    dispatched = [Next.run(number=number) for number in range(5)]
    assert len(store_of(runtime).sequence("o")) == 5
    runtime.start_worker(3)
    assert [result_of(runtime, one) for one in dispatched] == [Success(n) for n in range(5)]
    assert diary == ["0", "1", "2", "3", "4"]
    assert store_of(runtime).sequence("o") == []


def test_an_idempotent_call_takes_no_second_position(runtime: Runtime) -> None:
    class Next(Reactor):
        coordination = [OrderedLock("o")]
        background = True
        only = step(work)

    keyed = Next.options(idempotency_key="one")
    assert isinstance(keyed.run(), Dispatched) and isinstance(keyed.run(), Dispatched)
    assert len(store_of(runtime).sequence("o")) == 1


def test_fr_017_a_run_that_is_never_let_in_fails_naming_the_tries() -> None:
    settings = Settings(snooze_base_delay=0.06, snooze_jitter=0, snooze_max_attempts=3)
    with Runtime("memory://", settings=settings) as runtime:

        class Behind(Reactor):
            coordination = [OrderedLock("o"), Lock("k")]
            background = True
            only = step(work)

        take(runtime, "k")
        runtime.start_worker(1)
        found = failure(result_of(runtime, Behind.run()))
        assert found.exception_class == "LockNotAcquired"
        assert "3 tries" in found.error and "'k'" in found.error
        assert store_of(runtime).sequence("o") == []


def test_a_run_once_admitted_is_never_failed_for_waiting(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """semantics 4 [010 R-07]: one warning `resume.waiting` at the limit, then it keeps waiting."""
    host = Host(tmp_path)
    death: list[Any] = []

    class Begun(Reactor):
        coordination = [Lock("k")]
        alive: bool = False

        @step
        def only() -> str:
            if death:
                death.pop()()
            return "done"

    with host.open():
        run_id = host.die_in(Begun, death.append)
    host.pass_time()
    settings = Settings(
        snooze_base_delay=0.06, snooze_jitter=0, snooze_max_attempts=2, sweep_interval=0.05
    )
    with host.open(settings) as runtime, caplog.at_level(logging.WARNING):
        take(runtime, "k", ttl=1e6)
        runtime.start_worker(1)
        run = runtime.find(run_id)

        def after_more_tries() -> bool:
            host.pass_time(0.1)
            return run.epoch > 8

        eventually(after_more_tries)
        warned = [r for r in caplog.records if "event=resume.waiting" in r.getMessage()]
        assert len(warned) == 1
        assert run.status is RunStatus.RUNNING
        eventually(lambda: run.waiting_on == ["lock k (Begun)"])
        let_go(runtime)

        def completed() -> bool:
            host.pass_time(0.1)
            return run.status is RunStatus.COMPLETED

        eventually(completed)


def test_reactor_holds_cover_the_rollback_and_undo_takes_them_again(
    runtime: Runtime, diary: list[str]
) -> None:
    class Worker(Step):
        fails: bool = False

        def run(self) -> str:
            if self.fails:
                raise ValueError("no")
            return "done"

        def undo(self, result: object) -> None:
            diary.append(f"undo under {held_keys(runtime)}")

    class Saga(Reactor):
        fails: bool
        coordination = [Lock("k", rollback_wait=0)]
        first = step(Worker, fails=False)
        second = step(Worker).after(first)

    assert not Saga.run(fails=True).ok
    assert diary == ["undo under ['k']"] and held_keys(runtime) == []
    result = Saga.run(fails=False)
    assert result.run_id is not None
    with stranger(runtime, "k"), pytest.raises(LockNotAcquired):
        Saga.undo(result.run_id)
    assert diary == ["undo under ['k']"]
    Saga.undo(result.run_id)
    assert diary == ["undo under ['k']"] * 3 and held_keys(runtime) == []


def test_an_undo_waits_for_the_reactors_key_as_a_rollback_does(
    runtime: Runtime, diary: list[str]
) -> None:
    class Saga(Reactor):
        coordination = [Lock("k", rollback_wait=20)]
        only = step(locked(diary, "a"))

    result = Saga.run()
    assert result.run_id is not None
    run_id = result.run_id
    take(runtime, "k")
    undoing = Aside(lambda: Saga.undo(run_id))
    eventually(lambda: run_of(runtime, result).lease_owner is not None)
    let_go(runtime)
    undoing.result()
    assert diary == ["+a", "-a"]


def test_cancelling_a_dead_run_frees_its_keys_and_positions(tmp_path: Path) -> None:
    host = Host(tmp_path)
    death: list[Any] = []

    class Dying(Step):
        coordination = [Lock("inner", ttl=1e6), OrderedLock("o", poison_timeout=1e6)]

        def run(self) -> None:
            death.pop()()

    class Begun(Reactor):
        coordination = [Lock("outer", ttl=1e6), OrderedLock("oo", poison_timeout=1e6)]
        only = step(Dying)

    run_id = host.die_in(Begun, death.append)
    host.pass_time()
    with host.open() as runtime:
        assert held_keys(runtime) == ["inner", "outer"]
        Begun.cancel(run_id, "not wanted")
        assert runtime.find(run_id).status is RunStatus.CANCELLED
        assert held_keys(runtime) == []
        assert store_of(runtime).sequence("o") == [] == store_of(runtime).sequence("oo")


def test_a_holder_that_was_passed_ends_stale_when_it_wakes(tmp_path: Path) -> None:
    """semantics 4: one that proves no life for `poison_timeout` is passed, and ends `Halt`."""
    host = Host(tmp_path)
    death: list[Any] = []

    class Next(Reactor):
        coordination = [OrderedLock("o", poison_timeout=5)]

        @step
        def only() -> str:
            if death:
                death.pop()()
            return "done"

    with host.open():
        run_id = host.die_in(Next, death.append)
    with host.open() as runtime:
        host.pass_time(32)  # its lease has lapsed, its patience not yet
        with pytest.raises(OutOfTurn):
            Next.run()
        host.pass_time(10)
        assert Next.run() == Success("done")
        assert Next.recover(run_id) == Halt("ordered_lock_stale")
        assert runtime.find(run_id).status is RunStatus.HALTED


def test_a_key_held_as_another_kind_is_a_clear_error(runtime: Runtime) -> None:
    take(runtime, "s", limit=2)

    class Mixed(Reactor):
        coordination = [Lock("s")]
        only = step(work)

    with pytest.raises(CalandriaError, match="held as a semaphore"):
        Mixed.run()


def test_period_marks_name_their_run(runtime: Runtime) -> None:
    class Yearly(Reactor):
        coordination = [Period("p", every="year")]
        only = step(locked([], "a"))

    result = Yearly.run()
    assert Yearly.run() == Halt("period")
    assert result.run_id is not None
    Yearly.undo(result.run_id)
    assert Yearly.run().ok


def test_a_mark_that_could_not_be_undone_stays(runtime: Runtime, diary: list[str]) -> None:
    def refuse() -> None:
        raise ValueError("no")

    class Yearly(Reactor):
        coordination = [Period("p", every="year")]
        only = step(locked(diary, "a", undo=refuse))

    result = Yearly.run()
    assert result.run_id is not None
    with pytest.raises(UndoIncomplete):
        Yearly.undo(result.run_id)
    # the mark of the reactor itself goes: its run is no success any more
    assert Yearly.run().ok
