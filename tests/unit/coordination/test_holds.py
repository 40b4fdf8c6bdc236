"""Holds last as long as the work, no longer, and never less without the work being told."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest

from calandria import (
    Lock,
    Reactor,
    Retry,
    Runtime,
    Settings,
    Step,
    StorageError,
    Success,
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
    holds_told,
    let_go,
    locked,
    run_of,
    store_of,
    stranger,
    take,
)


def steal(runtime: Runtime, key: str) -> None:
    """Have a stranger hold a key that another had, as after a pause longer than its ttl."""
    store = store_of(runtime)
    for hold in store.holds():
        if hold.key == key:
            store.release(hold.execution, hold.path)
    take(runtime, key)


def test_fr_013_a_hold_is_kept_alive_past_its_ttl(runtime: Runtime, diary: list[str]) -> None:
    gate = Gate()

    class Slow(Reactor):
        coordination = [Lock("outer", ttl=0.2)]
        only = step(locked(diary, "k", gate, on=Lock("k", ttl=0.2)))

    slow = Aside(Slow.run)
    gate.await_entry()
    pause = threading.Event()
    for _ in range(12):
        pause.wait(0.05)
        assert held_keys(runtime) == ["k", "outer"]
    gate.open()
    assert slow.result() == Success(None)
    assert held_keys(runtime) == []


def test_sc_008_a_dead_process_frees_its_keys(tmp_path: Path) -> None:
    """FR-013, SC-008: the hold expires by itself, without an operator."""
    host = Host(tmp_path)
    death: list[Any] = []

    class Dying(Reactor):
        only = step(locked([], "k", lambda: death.pop()(), on=Lock("k", ttl=40)))

    class Next(Reactor):
        only = step(locked([], "k"))

    host.die_in(Dying, death.append)
    with host.open():
        host.pass_time(39)
        assert failure(Next.run()).exception_class == "LockNotAcquired"
        host.pass_time(2)
        assert Next.run() == Success("k")


def test_a_lost_hold_tells_the_step_and_fails_the_attempt(runtime: Runtime) -> None:
    """semantics 4: `HoldLost`, retryable; the next attempt competes again."""

    class Slow(Step):
        coordination = [Lock("k", ttl=0.2, wait=20)]
        retry = Retry(max_attempts=2, base_delay=0)

        def run(self) -> int:
            if self.context.attempt == 1:
                steal(runtime, "k")
                pause = threading.Event()
                while not self.context.cancelled:
                    pause.wait(0.005)
                threading.Timer(0.1, let_go, [runtime]).start()
            return self.context.attempt

    class Wired(Reactor):
        only = step(Slow)

    result = Wired.run()
    assert result == Success(2)
    entries = [e for e in run_of(runtime, result).trace if e.kind == "step.retrying"]
    assert "lapsed" in entries[0].data["error"]


def test_an_async_step_that_lost_its_hold_is_cancelled(runtime: Runtime) -> None:
    import asyncio

    class Slow(Step):
        coordination = [Lock("k", ttl=0.2)]

        async def run(self) -> None:
            steal(runtime, "k")
            await asyncio.Event().wait()

    class Wired(Reactor):
        only = step(Slow)

    assert failure(Wired.run()).exception_class == "HoldLost"


@pytest.mark.parametrize("declares", [False, True])
def test_a_lost_reactor_hold_is_taken_again_before_the_next_step(
    runtime: Runtime, diary: list[str], declares: bool
) -> None:
    """Never on unprotected, whether the next step declares anything or not."""

    class Loses(Step):
        retry = Retry(max_attempts=2, base_delay=0)
        coordination = [Lock("k")] if declares else []

        def run(self) -> str:
            if self.context.attempt == 1:
                steal(runtime, "outer")
                session = runtime.keeper.session(self.context.run_id or "")
                assert session is not None
                eventually(session.holds.lost_paths)
            holders = [hold.execution for hold in store_of(runtime).holds() if hold.key == "outer"]
            diary.append("mine" if holders == [self.context.run_id] else "another's")
            return "done"

    class Wired(Reactor):
        coordination = [Lock("outer", ttl=0.2, wait=20)]
        loses = step(Loses)

    waiting = Aside(Wired.run)
    eventually(lambda: diary)
    assert not waiting.over
    let_go(runtime)
    assert waiting.result() == Success("done")
    assert diary == ["another's", "mine"]
    assert held_keys(runtime) == []


def test_a_lost_reactor_hold_that_is_not_to_be_had_fails_the_next_step(
    runtime: Runtime, diary: list[str]
) -> None:
    class Loses(Step):
        def run(self) -> str:
            steal(runtime, "outer")
            session = runtime.keeper.session(self.context.run_id or "")
            assert session is not None
            eventually(session.holds.lost_paths)
            return "done"

        retry = Retry(max_attempts=2, base_delay=0)

    class Wired(Reactor):
        coordination = [Lock("outer", ttl=0.2, rollback_wait=0)]
        first = step(locked(diary, "a"))
        loses = step(Loses).after(first)

    found = failure(Wired.run())
    assert found.exception_class == "LockNotAcquired" and "'outer'" in found.error
    # nor does the rollback go on unprotected: it is reported
    assert [one.reason for one in found.rollback_failures] == ["coordination_unavailable"]
    assert diary == ["+a"]


def test_fencing_tokens_rise_and_the_step_sees_its_holds(runtime: Runtime) -> None:
    tokens: list[int] = []

    class Fenced(Step):
        coordination = [Lock("k")]

        def run(self) -> None:
            (hold,) = self.context.holds
            assert (hold.key, hold.path, hold.execution) == ("k", "only", self.context.run_id)
            tokens.append(hold.token)

    class Wired(Reactor):
        only = step(Fenced)

    for _ in range(3):
        assert Wired.run().ok
    tokens.append(take(runtime, "k"))
    assert tokens == sorted(set(tokens))


def test_fr_018_a_run_taken_up_adopts_its_live_holds(tmp_path: Path, diary: list[str]) -> None:
    """US4.6: no duplicate acquisition; the new process has a new token."""
    host = Host(tmp_path)
    death: list[Any] = []
    tokens: list[int] = []

    class Cut(Step):
        coordination = [Lock("k", ttl=1e6)]

        def run(self) -> str:
            tokens.append(self.context.holds[-1].token)
            if death:
                death.pop()()
            diary.append(f"{[hold.key for hold in self.context.holds]}")
            return "done"

    class Wired(Reactor):
        coordination = [Lock("outer", ttl=1e6)]
        only = step(Cut)

    run_id = host.die_in(Wired, death.append)
    host.pass_time()
    with host.open() as runtime:
        assert held_keys(runtime) == ["k", "outer"]
        assert Wired.recover(run_id) == Success("done")
        assert diary == ["['outer', 'k']"]
        assert tokens[1] > tokens[0]
        told = holds_told(runtime.find(run_id))
        assert told == [
            "hold.acquired lock outer",
            "hold.acquired only lock k",
            "hold.released only lock k",
            "hold.released lock outer",
        ]
        assert held_keys(runtime) == []


def test_a_hold_that_lapsed_with_its_process_is_competed_for_again(tmp_path: Path) -> None:
    host = Host(tmp_path)
    death: list[Any] = []

    class Wired(Reactor):
        only = step(
            locked(
                [],
                "k",
                lambda: death.pop()() if death else "done",
                on=Lock("k", rollback_wait=0),
            )
        )

    run_id = host.die_in(Wired, death.append)
    host.pass_time()
    with host.open() as runtime:
        with stranger(runtime, "k"):
            found = failure(Wired.recover(run_id))
            assert found.exception_class == "LockNotAcquired"
            # the attempt that was cut off may have begun its work: it is to be compensated
            assert [one.reason for one in found.rollback_failures] == ["coordination_unavailable"]
        assert runtime.find(run_id).status is RunStatus.FAILED


def test_reconcile_is_asked_under_the_hold_and_lets_it_go(tmp_path: Path) -> None:
    host = Host(tmp_path)
    death: list[Any] = []
    seen: list[Any] = []

    class Asked(Step):
        coordination = [Lock("k", ttl=1e6)]

        def run(self) -> str:
            death.pop()()
            return "run"

        def reconcile(self) -> Any:
            seen.append([hold.key for hold in self.context.holds])
            return Success("landed")

    class Wired(Reactor):
        only = step(Asked)

        @step
        def after(*, only: str) -> Any:
            return [only, *held]

    held: list[str] = []
    run_id = host.die_in(Wired, death.append)
    host.pass_time()
    with host.open() as runtime:
        assert Wired.recover(run_id) == Success(["landed"])
        assert seen == [["k"]]
        assert held_keys(runtime) == []
        assert "hold.released only lock k" in holds_told(runtime.find(run_id))


def test_holds_of_what_no_longer_works_are_dropped_when_a_run_is_taken_up(
    tmp_path: Path,
) -> None:
    host = Host(tmp_path)
    death: list[Any] = []

    class Wired(Reactor):
        first = step(locked([], "a"))

        @step
        def only(*, first: str) -> str:
            if death:
                death.pop()()
            return "done"

    run_id = host.die_in(Wired, death.append)
    host.pass_time()
    with host.open() as runtime:
        take(runtime, "leaked", run_id, ttl=1e6)
        store_of(runtime)
        assert Wired.recover(run_id) == Success("done")
        assert held_keys(runtime) == []


@pytest.mark.parametrize("when", ["before", "while"])
def test_a_storage_whose_coordination_vanishes_is_a_clear_failure(
    tmp_path: Path, when: str
) -> None:
    """Edge case: never unprotected; the caller is told, and nothing is taken as done."""
    path = tmp_path / "runs.db"
    ran: list[str] = []

    def vanish() -> None:
        with sqlite3.connect(path) as database:
            database.execute("DROP TABLE calandria_holds")
        database.close()

    class Slow(Step):
        coordination = [Lock("k", ttl=0.2)]

        def run(self) -> str:
            ran.append("ran")
            if when == "while":
                vanish()
            return "done"

    @step
    def first() -> str:
        if when == "before":
            vanish()
        return "done"

    class Wired(Reactor):
        before = first
        only = step(Slow).after(before)

    with Runtime(f"sqlite:///{path}", settings=Settings(lease_ttl=0.3)):
        with pytest.raises(StorageError, match="schema"):
            Wired.run()
        assert ran == (["ran"] if when == "while" else [])
