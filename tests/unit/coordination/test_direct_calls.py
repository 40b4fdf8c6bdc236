"""A step called on its own is an execution of its own: it contends, waits, then raises [FR-023]."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from calandria import (
    CalandriaError,
    Failure,
    Halt,
    HoldLost,
    Lock,
    LockNotAcquired,
    OrderedLock,
    OutOfTurn,
    Period,
    RateLimit,
    RateLimited,
    Reactor,
    Runtime,
    Semaphore,
    SemaphoreFull,
    Skipped,
    Step,
    Success,
    fail,
    step,
)
from tests.unit.coordination.helping import Aside, Gate, failure, held_keys, stranger, take


class Charge(Step):
    account: str
    coordination = [Lock("acct:{account}", ttl=30)]

    def run(self) -> Any:
        return [hold.key for hold in self.context.holds]

    def undo(self, result: object) -> Any:
        return [hold.key for hold in self.context.holds]

    def compensate(self, reason: object) -> Any:
        return [hold.key for hold in self.context.holds]


def test_fr_023_a_direct_call_holds_its_key_while_it_works(runtime: Runtime) -> None:
    assert Charge.call(account="1") == Success(["acct:1"])
    assert held_keys(runtime) == []


def test_fr_023_a_direct_call_contends_and_raises(runtime: Runtime) -> None:
    with stranger(runtime, "acct:1"):
        with pytest.raises(LockNotAcquired) as raised:
            Charge.call(account="1")
        assert Charge.call(account="2") == Success(["acct:2"])
    assert raised.value.key == "acct:1"
    assert "Charge" in str(raised.value)


def test_a_direct_call_waits_as_long_as_declared(runtime: Runtime) -> None:
    gate = Gate()

    class Slow(Step):
        coordination = [Lock("k", wait=20)]
        slow: bool

        def run(self) -> str:
            if self.slow:
                gate()
            return "done"

    first = Aside(lambda: Slow.call(slow=True))
    gate.await_entry()
    second = Aside(lambda: Slow.call(slow=False))
    assert not second.over
    gate.open()
    assert first.result() == second.result() == Success("done")


def test_call_undo_and_call_compensate_take_locks(runtime: Runtime) -> None:
    assert Charge.call_undo(None, account="1") == Success(["acct:1"])
    assert Charge.call_compensate("because", account="1") == Success(["acct:1"])

    class Impatient(Charge):
        coordination = [Lock("acct:{account}", rollback_wait=0)]

    with stranger(runtime, "acct:1"):
        with pytest.raises(LockNotAcquired):
            Impatient.call_undo(None, account="1")
        with pytest.raises(LockNotAcquired):
            Impatient.call_compensate("because", account="1")


def test_quotas_do_not_gate_a_direct_undo(runtime: Runtime) -> None:
    class Once(Step):
        coordination = [Period("p", every="year"), RateLimit("r", limit=1, per="day")]

        def run(self) -> str:
            return "done"

        def undo(self, result: object) -> str:
            return "undone"

    assert Once.call() == Success("done")
    assert Once.call_undo("done") == Success("undone")


def test_an_awaited_call_is_protected_like_any(runtime: Runtime) -> None:
    class Async(Step):
        coordination = [Lock("k")]

        async def run(self) -> Any:
            await asyncio.sleep(0)
            return held_keys(runtime)

    assert asyncio.run(_await(Async)) == Success(["k"])
    assert held_keys(runtime) == []
    with stranger(runtime, "k"), pytest.raises(LockNotAcquired):
        asyncio.run(_await(Async))


async def _await(target: type[Step]) -> Any:
    return await target.acall()


def test_an_awaited_call_lets_go_when_it_is_cancelled(runtime: Runtime) -> None:
    entered = asyncio.Event()

    class Endless(Step):
        coordination = [Lock("k"), Period("p")]

        async def run(self) -> None:
            entered.set()
            await asyncio.Event().wait()

    async def cancel_it() -> None:
        task = asyncio.create_task(Endless.acall())
        await entered.wait()
        assert held_keys(runtime) == ["k"]
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel_it())
    assert held_keys(runtime) == []


@pytest.mark.parametrize("how", ["returned", "raised", "fail", "halted", "skipped"])
def test_only_success_leaves_a_mark(runtime: Runtime, how: str) -> None:
    class Maybe(Step):
        coordination = [Period("p", every="year")]
        how: str

        def run(self) -> Any:
            match self.how:
                case "returned":
                    return Failure("no")
                case "raised":
                    raise ValueError("no")
                case "fail":
                    fail("no")
                case "halted":
                    return Halt("stop")
                case "skipped":
                    return Skipped(None)
            return "done"

    assert Maybe.call(how=how) != Success("done")
    assert Maybe.call(how="well") == Success("done")
    assert Maybe.call(how="well") == Skipped(None)


def test_a_failed_call_fails_the_chain_only_while_others_wait(runtime: Runtime) -> None:
    class Next(Step):
        coordination = [OrderedLock("o")]
        well: bool

        def run(self) -> str:
            return "done" if self.well else fail("no")

    assert not Next.call(well=False).ok
    # the sequence drained, so that a new batch begins
    assert Next.call(well=True) == Success("done")


def test_a_direct_call_out_of_turn_raises_and_hands_its_position_back(runtime: Runtime) -> None:
    gate = Gate()

    class Next(Step):
        coordination = [OrderedLock("o")]
        slow: bool = False

        def run(self) -> str:
            if self.slow:
                gate()
            return "done"

    first = Aside(lambda: Next.call(slow=True))
    gate.await_entry()
    with pytest.raises(OutOfTurn) as raised:
        Next.call()
    assert raised.value.key == "o"
    assert len(runtime.gates.store.sequence("o")) == 1
    gate.open()
    first.result()
    assert Next.call() == Success("done")


def test_a_refused_lock_spends_no_position(runtime: Runtime) -> None:
    class Both(Step):
        coordination = [OrderedLock("o"), Lock("k")]

        def run(self) -> str:
            return "done"

    with stranger(runtime, "k"), pytest.raises(LockNotAcquired):
        Both.call()
    assert runtime.gates.store.sequence("o") == []
    assert Both.call() == Success("done")


def test_a_full_semaphore_and_a_used_up_rate_raise(runtime: Runtime) -> None:
    class Few(Step):
        coordination = [Semaphore("s", limit=2)]

        def run(self) -> str:
            return "done"

    class Rare(Step):
        coordination = [RateLimit("r", limit=1, per="day")]

        def run(self) -> str:
            return "done"

    take(runtime, "s", "a", limit=2)
    take(runtime, "s", "b", limit=2)
    with pytest.raises(SemaphoreFull) as full:
        Few.call()
    assert full.value.key == "s"
    assert Rare.call() == Success("done")
    with pytest.raises(RateLimited) as limited:
        Rare.call()
    assert limited.value.retry_after is not None
    assert 0 < limited.value.retry_after <= 86400


def test_a_call_inside_a_holder_is_an_error_that_names_the_way_in(runtime: Runtime) -> None:
    class Inside(Step):
        coordination = [Lock("k", wait=60)]

        def run(self) -> str:
            return "inside"

    class Within(Reactor):
        coordination = [Lock("k", wait=60)]
        work = step(Inside)

    class Outer(Step):
        coordination = [Lock("k")]
        way: str

        def run(self) -> Any:
            match self.way:
                case "call":
                    return Inside.call()
                case "run":
                    return Within.run()
                case "context.call":
                    return self.context.call(Inside)
                case _:
                    return self.context.run(Within)

    class Holder(Reactor):
        way: str
        outer = step(Outer)

    for way in ("call", "run"):
        found = failure(Holder.run(way=way))
        assert found.exception_class == "CalandriaError"
        assert "self.context.call" in found.error and "self.context.run" in found.error
        assert "'k'" in found.error
    for way in ("context.call", "context.run"):
        assert Holder.run(way=way) == Success("inside")
    with pytest.raises(CalandriaError, match="wait for itself"):
        _raise(Outer.call(way="call"))


def _raise(result: Any) -> None:
    assert isinstance(result, Failure) and result.exception is not None
    raise result.exception


def test_a_call_two_executions_down_is_an_error_too(runtime: Runtime) -> None:
    class Inside(Step):
        coordination = [Lock("k", wait=60)]

        def run(self) -> str:
            return "inside"

    class Between(Step):
        coordination = [Lock("other")]

        def run(self) -> Any:
            return Inside.call()

    class Outer(Step):
        coordination = [Lock("k")]

        def run(self) -> Any:
            return Between.call()

    class Holder(Reactor):
        outer = step(Outer)

    found = failure(Holder.run())
    assert "wait for itself" in found.error


def test_a_call_that_lost_its_hold_fails_and_is_told(runtime: Runtime) -> None:
    class Slow(Step):
        coordination = [Lock("k", ttl=0.2)]

        def run(self) -> str:
            coordination = runtime.gates.store
            # somebody breaks the lock, and another takes it
            for hold in coordination.holds():
                coordination.release(hold.execution, hold.path)
            take(runtime, "k")
            pause = threading.Event()
            while not self.context.cancelled:
                pause.wait(0.005)
            return "done"

    found = failure(Slow.call())
    assert found.exception_class == "HoldLost"
    assert isinstance(found.exception, HoldLost)


def test_a_living_call_is_never_passed(runtime: Runtime) -> None:
    """semantics 4: a living holder never is, though it holds nothing but its turn."""
    gate = Gate()

    class Next(Step):
        coordination = [OrderedLock("o", poison_timeout=0.2)]
        slow: bool = False

        def run(self) -> str:
            if self.slow:
                gate()
            return "done"

    first = Aside(lambda: Next.call(slow=True))
    gate.await_entry()
    pause = threading.Event()
    for _ in range(10):
        pause.wait(0.05)
        with pytest.raises(OutOfTurn):
            Next.call()
    gate.open()
    assert first.result() == Success("done")
