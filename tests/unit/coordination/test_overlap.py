"""Work under one key never overlaps; all other work does [FR-011, SC-001, SC-002, SC-005]."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from calandria import Lock, Reactor, Runtime, Semaphore, Settings, Step, Success, step
from tests.unit.coordination.helping import Aside, Gate, held_keys, result_of, store_of

INSIDE: dict[str, int] = {}
MOST: dict[str, int] = {}
_count = threading.Lock()
_moment = threading.Event()


@pytest.fixture(autouse=True)
def _fresh() -> None:
    INSIDE.clear()
    MOST.clear()


def enter_and_leave(key: str) -> None:
    with _count:
        INSIDE[key] = INSIDE.get(key, 0) + 1
        MOST[key] = max(MOST.get(key, 0), INSIDE[key])
    _moment.wait(0.001)
    with _count:
        INSIDE[key] -= 1


class Alone(Step):
    key: str
    coordination = [Lock("{key}", wait=20)]

    def run(self) -> None:
        enter_and_leave(self.key)


class Few(Step):
    key: str
    coordination = [Semaphore("{key}", limit=2, wait=20)]

    def run(self) -> None:
        enter_and_leave(self.key)


class LocksHere(Reactor):
    key: str
    alone = step(Alone)


class LocksInWorker(LocksHere):
    background = True


class FewHere(Reactor):
    key: str
    few = step(Few)


class FewInWorker(FewHere):
    background = True


@pytest.mark.parametrize("worker", [False, True])
@pytest.mark.parametrize("limit", [1, 2])
def test_sc_001_and_sc_005_never_more_inside_than_allowed(worker: bool, limit: int) -> None:
    """SC-001, SC-005, US5.1: the same on both paths; a small dose of what runs with processes."""
    settings = Settings(snooze_base_delay=0.06, snooze_jitter=0.05, snooze_max_attempts=1000)
    with Runtime("memory://", settings=settings) as runtime:
        if worker:
            reactor: Any = LocksInWorker if limit == 1 else FewInWorker
            runtime.start_worker(4)
            dispatched = [reactor.run(key="k") for _ in range(24)]
            assert all(result_of(runtime, one).ok for one in dispatched)
        else:
            reactor = LocksHere if limit == 1 else FewHere
            callers = [Aside(lambda: [reactor.run(key="k") for _ in range(6)]) for _ in range(4)]
            assert all(one.ok for caller in callers for one in caller.result())
        assert MOST["k"] <= limit
        assert held_keys(runtime) == [] and store_of(runtime).waiters() == []


def test_fr_011_and_sc_002_only_the_step_with_the_key_is_serialised(runtime: Runtime) -> None:
    """FR-011, SC-002, US1.2, US2: other keys, and the steps around, overlap freely."""
    meet = threading.Barrier(2, timeout=20)
    gate = Gate()

    class Held(Step):
        key: str
        slow: bool
        coordination = [Lock("{key}", wait=20)]

        def run(self) -> None:
            if self.slow:
                gate()

    class Wired(Reactor):
        key: str
        slow: bool = False

        @step
        def before() -> None:
            meet.wait()

        held = step(Held).after(before)

        @step
        def after(*, held: Any, slow: bool) -> str:
            return "done"

    first = Aside(lambda: Wired.run(key="k", slow=True))
    second = Aside(lambda: Wired.run(key="k", slow=True))
    # both were at the step before at the same time
    gate.await_entry()
    # and a run with another key passes them, but for the meeting
    third = Aside(lambda: Wired.run(key="l"))
    fourth = Aside(lambda: Wired.run(key="m"))
    assert third.result() == fourth.result() == Success("done")
    assert not first.over and not second.over
    gate.open()
    assert first.result() == second.result() == Success("done")
