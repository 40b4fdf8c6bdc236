"""Rollback runs under the same locks and semaphores [FR-024..026], and quotas never gate it."""

from __future__ import annotations

from typing import Any

import pytest

from calandria import (
    Failure,
    Lock,
    OrderedLock,
    Period,
    RateLimit,
    Reactor,
    Retry,
    Runtime,
    Semaphore,
    Step,
    Success,
    UndoIncomplete,
    compose,
    element,
    map_each,
    step,
)
from tests.unit.coordination.helping import (
    Aside,
    Gate,
    eventually,
    failure,
    held_keys,
    holds_told,
    let_go,
    locked,
    run_of,
    store_of,
    stranger,
    take,
)


class Keeps(Step):
    """Notes the keys it holds in each of its actions."""

    account: str = "1"
    diary: Any = None
    coordination = [Lock("acct:{account}"), Semaphore("few", limit=2)]
    fails: bool = False

    def run(self) -> Any:
        NOTES.append(("run", keys(self)))
        return Failure("no", retryable=False) if self.fails else "done"

    def compensate(self, reason: object) -> None:
        NOTES.append(("compensate", keys(self)))

    def undo(self, result: object) -> None:
        NOTES.append(("undo", keys(self)))


NOTES: list[Any] = []


@pytest.fixture(autouse=True)
def _no_notes() -> None:
    NOTES.clear()


def keys(of: Step) -> list[str]:
    return sorted({hold.key for hold in of.context.holds})


def fail_now() -> None:
    raise ValueError("no")


def test_fr_024_undo_and_compensate_run_under_the_same_key(runtime: Runtime) -> None:
    class Wired(Reactor):
        first = step(Keeps, account="a")
        last = step(Keeps, account="b", fails=True).after(first)

    assert not Wired.run().ok
    assert NOTES == [
        ("run", ["acct:a", "few"]),
        ("run", ["acct:b", "few"]),
        ("compensate", ["acct:b", "few"]),
        ("undo", ["acct:a", "few"]),
    ]
    assert held_keys(runtime) == []


def test_fr_024_nested_and_mapped_work_is_undone_under_its_keys(runtime: Runtime) -> None:
    class Inner(Reactor):
        coordination = [Lock("inner")]
        deep = step(Keeps, account="deep")

    class Calls(Step):
        def run(self) -> Any:
            return self.context.call(Keeps, account="nested")

    class Wired(Reactor):
        whole = compose(Inner)
        each = map_each(Keeps, over=["x", "y"], account=element).after(whole)
        calls = step(Calls).after(each)
        last = step(fail_now).after(calls)

    result = Wired.run()
    assert not result.ok and failure(result).rollback_failures == []
    assert [keys for action, keys in NOTES if action == "undo"] == [
        ["acct:nested", "few"],
        ["acct:y", "few"],
        ["acct:x", "few"],
        ["acct:deep", "few", "inner"],
    ]
    assert held_keys(runtime) == []


def test_sc_009_nobody_enters_while_it_is_compensated(runtime: Runtime) -> None:
    gate = Gate()
    diary: list[str] = []

    class Wired(Reactor):
        first = step(locked(diary, "k", undo=gate))
        last = step(fail_now).after(first)

    class Other(Reactor):
        only = step(locked(diary, "other", on=Lock("k")))

    rolling = Aside(Wired.run)
    gate.await_entry()
    assert failure(Other.run()).exception_class == "LockNotAcquired"
    gate.open()
    assert not rolling.result().ok
    assert Other.run() == Success("other")
    assert diary == ["+k", "-k", "+other"]


def test_rollback_waits_for_its_key(runtime: Runtime) -> None:
    diary: list[str] = []
    told = Gate()

    class Wired(Reactor):
        first = step(locked(diary, "k", on=Lock("k", rollback_wait=20)))

        @step
        def last(*, first: str) -> None:
            take(runtime, "k")
            told.entered.set()
            raise ValueError("no")

    rolling = Aside(Wired.run)
    told.await_entry()
    assert not rolling.over and diary == ["+k"]
    let_go(runtime)
    assert failure(rolling.result()).rollback_failures == []
    assert diary == ["+k", "-k"]


def test_fr_026_what_could_not_be_had_in_time_is_reported(runtime: Runtime) -> None:
    """FR-026: reported, never skipped in silence; the rest goes on; undo by hand tries again."""
    diary: list[str] = []

    class Wired(Reactor):
        zero = step(locked(diary, "a"))
        first = step(locked(diary, "k", on=Lock("k", rollback_wait=0.05))).after(zero)

        @step
        def last(*, first: str) -> None:
            take(runtime, "k")
            raise ValueError("no")

    result = Wired.run()
    (left,) = failure(result).rollback_failures
    assert (left.step, left.kind, left.reason, left.key) == (
        "first",
        "undo",
        "coordination_unavailable",
        "k",
    )
    assert "stranger" in left.message and "0.05 s" in left.message
    assert diary == ["+a", "+k", "-a"]
    run = run_of(runtime, result)
    assert run.rollback.value == "incomplete" and run.needs_attention
    with pytest.raises(UndoIncomplete):
        run.undo()
    let_go(runtime)
    run.undo()
    assert diary == ["+a", "+k", "-a", "-k"]


def test_fr_025_quotas_never_gate_cleanup(runtime: Runtime) -> None:
    diary: list[str] = []

    class Quotas(Step):
        fails: bool = False
        coordination = [
            RateLimit("r", limit=1, per="day"),
            Period("p", every="year"),
            OrderedLock("o"),
        ]

        def run(self) -> Any:
            return Failure("no", retryable=False) if self.fails else "done"

        def compensate(self, reason: object) -> None:
            diary.append("!")

        def undo(self, result: object) -> None:
            diary.append("-")

    class Wired(Reactor):
        fails: bool
        first = step(Quotas)
        last = step(fail_now).after(first)

    assert not Wired.run(fails=True).ok
    assert diary == ["!"]

    class Fails(Reactor):
        first = step(Quotas, fails=False)
        last = step(fail_now).after(first)

    # the rate is used up, so that only another day lets it in
    assert failure(Fails.run()).exception_class == "RateLimited"


def test_an_undo_by_hand_takes_keys_for_as_long_as_each_action(runtime: Runtime) -> None:
    """Let go of with the end of each undo, also of a run loaded from the storage."""

    class Wired(Reactor):
        first = step(Keeps, account="a")
        last = step(Keeps, account="b").after(first)

    result = Wired.run()
    run = run_of(runtime, result)
    with stranger(runtime, "acct:a"):
        undoing = Aside(run.undo)
        eventually(lambda: ("undo", ["acct:b", "few"]) in NOTES)
        # it waits for the next key, and has let go of the last one
        eventually(lambda: "acct:b" not in held_keys(runtime))
    undoing.result()
    assert NOTES[-2:] == [("undo", ["acct:b", "few"]), ("undo", ["acct:a", "few"])]
    assert held_keys(runtime) == []
    released = [line for line in holds_told(run) if line.startswith("hold.released")]
    assert len(released) == 8


def test_a_rollback_retry_takes_its_key_again(runtime: Runtime) -> None:
    tries: list[Any] = []

    class Stubborn(Step):
        coordination = [Lock("k")]
        rollback_retry = Retry(max_attempts=3, base_delay=0.01)

        def run(self) -> str:
            return "done"

        def undo(self, result: object) -> None:
            tries.append(keys(self))
            if len(tries) < 3:
                raise ValueError("not yet")

    class Wired(Reactor):
        first = step(Stubborn)
        last = step(fail_now).after(first)

    assert failure(Wired.run()).rollback_failures == []
    assert tries == [["k"]] * 3
    assert held_keys(runtime) == [] and store_of(runtime).waiters() == []


def test_an_interruption_of_a_rollback_that_waits_leaves_it_to_be_undone_by_hand(
    runtime: Runtime,
) -> None:
    diary: list[str] = []

    class Wired(Reactor):
        background = True
        first = step(locked(diary, "k", on=Lock("k", rollback_wait=3600)))

        @step
        def last(*, first: str) -> None:
            take(runtime, "k")
            raise ValueError("no")

    worker = runtime.start_worker(1)
    run = run_of(runtime, Wired.run())
    eventually(lambda: run.status.value == "rolling_back")
    worker.stop(0.05)
    eventually(lambda: run.lease_owner is None)
    assert run.status.value == "rolling_back"
    let_go(runtime)
    runtime.start_worker(1)
    assert failure(run.wait(20)).rollback_failures == []
    assert diary == ["+k", "-k"]
