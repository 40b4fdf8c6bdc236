from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest

from calandria import Halt, OrderedLock, Runtime, Settings, Success
from calandria.runtime.run import Run
from calandria.runtime.worker import Worker
from tests.unit.cli import harbour
from tests.unit.cli.conftest import Invoke
from tests.unit.cli.harbour import Pilot, Visit

HARBOUR = "tests.unit.cli.harbour"
HOLD_KEYS = {"key", "kind", "run", "path", "step", "token", "since", "until"}


@pytest.fixture
def runtime() -> Iterator[Runtime]:
    """The storage of the commands, with a worker in this process."""
    harbour.docked.__init__(0)  # type: ignore[misc]
    harbour.sail.clear()
    settings = Settings(snooze_base_delay=60, snooze_jitter=0)
    with Runtime("sqlite:///runs.db", settings=settings) as runtime:
        yield runtime
        harbour.sail.set()


@pytest.fixture
def worker(runtime: Runtime) -> Worker:
    return runtime.start_worker(threads=2)


def arrive(runtime: Runtime, berth: str) -> Run:
    dispatched = Visit.options(runtime=runtime).run(berth=berth)
    assert dispatched.run_id is not None
    return runtime.find(dispatched.run_id)


def ask_for_pilot(runtime: Runtime, ship: str) -> Run:
    dispatched = Pilot.options(runtime=runtime).run(ship=ship)
    assert dispatched.run_id is not None
    return runtime.find(dispatched.run_id)


def until_parked(runtime: Runtime, run: Run) -> None:
    while not run.waiting_on:
        runtime.pause(0.005)


@pytest.fixture
def queue(runtime: Runtime, worker: Worker) -> tuple[Run, Run]:
    """A run whose step holds a berth, and one that is parked for it."""
    first = arrive(runtime, "north")
    assert harbour.docked.acquire(timeout=20)
    second = arrive(runtime, "north")
    until_parked(runtime, second)
    return first, second


def test_keys_tells_who_holds_what_and_who_waits(
    calandria: Invoke, queue: tuple[Run, Run], runtime: Runtime
) -> None:
    """FR-029, SC-010: step, key, holder and waiter of a live hold."""
    first, second = queue
    berth, whole = calandria("keys", "--json").data

    assert (berth["key"], whole["key"]) == ("berth:north", "harbour")
    (hold,) = berth["holders"]
    assert set(hold) == HOLD_KEYS
    assert (hold["run"], hold["step"], hold["kind"]) == (first.id, "Visit.dock", "lock")
    assert hold["path"] == "dock" and hold["token"] == first.holds[1].token
    left = datetime.fromisoformat(hold["until"]) - datetime.fromisoformat(hold["since"])
    assert timedelta(0) < left <= timedelta(seconds=90)
    (waiter,) = berth["waiters"]
    assert (waiter["run"], waiter["step"], waiter["for_turn"]) == (second.id, "Visit.dock", False)
    assert [hold["run"] for hold in whole["holders"]] == [first.id, second.id]
    assert {hold["kind"] for hold in whole["holders"]} == {"semaphore"}
    assert {hold["path"] for hold in whole["holders"]} == {""}

    lines = calandria("keys").out.splitlines()
    assert lines[0].split() == ["key", "state", "run", "step", "since", "until"]
    assert lines[1].split()[:5] == ["berth:north", "holds", "lock", first.id, "Visit.dock"]
    assert lines[2].split()[:4] == ["berth:north", "waits", second.id, "Visit.dock"]
    assert len(lines) == 5

    harbour.sail.set()
    assert first.wait(20) == second.wait(20) == Success("was at north")
    assert calandria("keys").err == "No keys are held or waited for.\n"
    assert calandria("keys", "--json").data == []


def test_keys_can_be_narrowed_down(
    calandria: Invoke, queue: tuple[Run, Run], runtime: Runtime
) -> None:
    def found(*options: str) -> list[str]:
        return [view["key"] for view in calandria("keys", "--json", *options).data]

    assert found("--prefix", "berth:") == ["berth:north"]
    assert found("--prefix", "berth:south") == []
    assert found("--run", queue[1].id) == ["berth:north", "harbour"]
    assert found("--run", "nobody") == []


def test_a_parked_run_is_no_failed_one(calandria: Invoke, queue: tuple[Run, Run]) -> None:
    """FR-029, US7: what it waits for and what it holds, in `show` and in `runs`."""
    first, second = queue
    shown = calandria("show", second.id, "--json").data

    assert (shown["status"], shown["failure"], shown["needs_attention"]) == ("running", None, False)
    assert shown["waiting_on"] == ["lock berth:north (Visit.dock)"]
    assert [(hold["key"], hold["path"]) for hold in shown["holds"]] == [("harbour", "")]
    text = calandria("show", second.id).out
    assert "failed" not in text
    assert "waits for lock berth:north (Visit.dock)" in " ".join(text.split())
    assert "holds semaphore harbour for the whole run, since " in " ".join(text.split())
    assert "lock berth:north for dock, since " in calandria("show", first.id).out
    listed = {run["id"]: run for run in calandria("runs", "--json").data}
    assert listed[second.id]["waiting_on"] == shown["waiting_on"]
    assert listed[second.id]["status"] == "running"
    assert calandria("runs", "--json", "--status", "failed").data == []


def test_a_cancelled_run_waits_no_more(
    calandria: Invoke, queue: tuple[Run, Run], runtime: Runtime
) -> None:
    queue[1].cancel()

    berth, _ = calandria("keys", "--json").data
    assert berth["waiters"] == []


@pytest.fixture
def convoy(runtime: Runtime, worker: Worker) -> tuple[Run, Run]:
    """A run whose turn it is, and one that is parked for its own."""
    first = ask_for_pilot(runtime, "first")
    assert harbour.docked.acquire(timeout=20)
    second = ask_for_pilot(runtime, "second")
    until_parked(runtime, second)
    return first, second


def test_keys_shows_sequences(calandria: Invoke, convoy: tuple[Run, Run], runtime: Runtime) -> None:
    first, second = convoy
    (view,) = calandria("keys", "--json").data

    assert (view["key"], view["holders"]) == ("pilot", [])
    assert view["sequence"] == [
        {"position": 1, "state": "active", "run": first.id, "path": "", "step": "Pilot"},
        {"position": 2, "state": "waiting", "run": second.id, "path": "", "step": "Pilot"},
    ]
    assert [(waiter["run"], waiter["for_turn"]) for waiter in view["waiters"]] == [
        (second.id, True)
    ]
    lines = calandria("keys").out.splitlines()
    assert lines[1].split() == ["pilot", "position", "1", "active", first.id, "Pilot"]
    assert lines[2].split()[:6] == ["pilot", "position", "2", "waiting", second.id, "Pilot"]
    assert len(lines) == 3
    assert "waits for turn pilot (Pilot)" in " ".join(calandria("show", second.id).out.split())


def test_peek_is_what_keys_shows(convoy: tuple[Run, Run], runtime: Runtime) -> None:
    explicit = OrderedLock.peek("pilot", runtime=runtime)

    assert [(one.position, one.execution, one.state) for one in explicit] == [
        (1, convoy[0].id, "active"),
        (2, convoy[1].id, "waiting"),
    ]
    assert OrderedLock.peek("pilot") == explicit, "the default runtime is meant by default"
    assert list(OrderedLock.peek("nobody's")) == []


def test_a_position_that_is_passed_ends_without_running(
    calandria: Invoke, convoy: tuple[Run, Run], runtime: Runtime
) -> None:
    first, second = convoy
    third = ask_for_pilot(runtime, "third")
    until_parked(runtime, third)
    passed = calandria("keys", "skip", "pilot", "2")
    assert (passed.code, passed.out) == (0, "Passed position 2 of pilot.\n")

    harbour.sail.set()
    assert third.wait(20) == Success("third")
    assert first.wait(20) == Success("first")
    assert second.wait(20) == Halt("ordered_lock_stale")
    assert calandria("keys", "--json").data == []


def test_a_chain_that_failed_leaves_no_sequence(
    calandria: Invoke, runtime: Runtime, worker: Worker
) -> None:
    first = ask_for_pilot(runtime, "wreck")
    assert harbour.docked.acquire(timeout=20)
    second = ask_for_pilot(runtime, "second")
    until_parked(runtime, second)

    harbour.sail.set()
    assert not first.wait(20).ok
    assert second.wait(20) == Halt("ordered_lock_chain_failed")
    assert calandria("keys", "--json").data == []


def test_skipping_who_is_stuck_wakes_the_next(
    calandria: Invoke, convoy: tuple[Run, Run], runtime: Runtime
) -> None:
    second = convoy[1]
    assert calandria("keys", "skip", "pilot", "1", "--json").data == {
        "key": "pilot", "position": 1, "skipped": True,
    }  # fmt: skip

    # the first is still in its step: only the skip can have let the second in
    assert harbour.docked.acquire(timeout=20)
    harbour.sail.set()
    assert second.wait(20) == Success("second")


def test_a_reset_forgets_the_sequence_and_wakes_who_waits(
    calandria: Invoke, convoy: tuple[Run, Run], runtime: Runtime
) -> None:
    assert calandria("keys", "reset", "pilot", "--json").data == {"key": "pilot", "positions": 2}

    assert harbour.docked.acquire(timeout=20)
    assert [one.execution for one in OrderedLock.peek("pilot")] == [convoy[1].id]
    harbour.sail.set()
    assert convoy[1].wait(20) == Success("second")


def test_nothing_to_pass_or_to_forget_is_said(
    calandria: Invoke, convoy: tuple[Run, Run], runtime: Runtime
) -> None:
    missing = calandria("keys", "skip", "pilot", "9")
    assert missing.code == 3 and "There is no position 9 to pass under 'pilot'" in missing.err
    assert not OrderedLock.skip("pilot", 9)
    unknown = calandria("keys", "reset", "nobody's")
    assert unknown.code == 3 and "There is no sequence under" in unknown.err
    assert OrderedLock.reset("nobody's") == 0
    assert [one.state for one in OrderedLock.peek("pilot")] == ["active", "waiting"]
