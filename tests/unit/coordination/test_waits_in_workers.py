"""In a worker a step waits for its key for `wait`, at most a second, and then parks the run."""

from __future__ import annotations

import threading

from calandria import Dispatched, Lock, Middleware, Reactor, RunInfo, Runtime, Settings, Step, step
from calandria.results import Success

inside = threading.Event()
go_on = threading.Event()
parked = threading.Semaphore(0)


class Parks(Middleware):
    def run_parked(self, run: RunInfo, waits_for: str) -> None:
        parked.release()


class Waits(Step):
    coordination = [Lock("narrow", wait=0.3)]

    def run(self) -> str:
        inside.set()
        go_on.wait(20)
        return "through"


class Narrow(Reactor):
    waits = step(Waits)
    background = True


def test_fr_015_a_wait_is_no_park_and_its_end_is_one_of_a_whole_snooze() -> None:
    # Given a key that is held, and a wait longer than the polls in it
    settings = Settings(snooze_base_delay=60, snooze_jitter=0, snooze_max_attempts=1)
    with Runtime("memory://", middleware=[Parks], settings=settings) as runtime:
        runtime.start_worker(2)
        first = Narrow.run()
        assert inside.wait(20)
        # When another run waits for it in a worker until it is parked
        second = Narrow.run()
        assert parked.acquire(timeout=20)
        # Then it was tried for once, and stays parked: the second park would have failed it
        assert isinstance(first, Dispatched) and isinstance(second, Dispatched)
        assert not parked.acquire(timeout=0.5)
        run = runtime.find(second.run_id)
        assert run.waiting_on == ["lock narrow (Narrow.waits)"]
        go_on.set()
        assert runtime.find(first.run_id).wait(20) == run.wait(20) == Success("through")


def test_fr_015_what_is_let_go_of_within_the_wait_costs_no_park() -> None:
    inside.clear()
    go_on.clear()
    with Runtime("memory://", middleware=[Parks]) as runtime:
        runtime.start_worker(2)
        first, refused = Narrow.run(), threading.Event()
        assert inside.wait(20)

        class Listens(Middleware):
            def hold_refused(self, step: object, key: str, primitive: str) -> None:
                refused.set()

        class Second(Narrow):
            middleware = [Listens]

        second = Second.run()
        assert isinstance(first, Dispatched) and isinstance(second, Dispatched)
        assert refused.wait(20)
        go_on.set()
        assert runtime.find(second.run_id).wait(20) == Success("through")
        assert not parked.acquire(blocking=False)
