"""What happens on Ctrl-C, each scenario in a process of its own: `python -m ... SCENARIO`."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading

import pytest

from calandria import Reactor, RunStatus, Runtime, Step, step
from tests.unit.runtime.saga import logged, only_run


def press_ctrl_c() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def press_while_the_run_is_waited_for() -> None:
    """Press Ctrl-C once the main thread waits for steps that run in others."""
    main = threading.main_thread().ident
    assert main is not None
    place, looks = None, 0
    while looks < 5:
        threading.Event().wait(0.002)
        frame = sys._current_frames()[main]
        now = (frame.f_code.co_filename, frame.f_lasti)
        looks = looks + 1 if now == place and now[0].endswith("drivers.py") else 0
        place = now
    press_ctrl_c()


def status() -> RunStatus:
    return only_run().status


def in_a_step_in_the_callers_thread(diary: list[str]) -> None:
    class Saga(Reactor):
        first = step(logged(diary, "first"))

        @step
        def second(*, first: str) -> None:
            press_ctrl_c()
            threading.Event().wait(10)

    with pytest.raises(KeyboardInterrupt):
        Saga.run()

    assert status() is RunStatus.ABORTED
    only_run().undo()
    assert diary == ["+first", "-first"]


def while_steps_run_in_other_threads_which_settle_first(diary: list[str]) -> None:
    class Look(Step):
        def run(self) -> str:
            press_while_the_run_is_waited_for()
            while not self.context.cancelled:
                threading.Event().wait(0.001)
            return "settled"

        def undo(self, result: str) -> None:
            diary.append(f"-{result}")

    class Saga(Reactor):
        concurrency = 2
        look = step(Look)
        never = step(logged(diary, "never")).after(look)

    with pytest.raises(KeyboardInterrupt):
        Saga.run()

    run = only_run()
    assert status() is RunStatus.ABORTED
    assert dict(run.results) == {"look": "settled"}
    run.undo()
    assert diary == ["-settled"]


def a_second_one_leaves_at_once_and_the_lease_lapses(diary: list[str]) -> None:
    leave = threading.Event()

    class Stubborn(Step):
        def run(self) -> None:
            press_while_the_run_is_waited_for()
            while not self.context.cancelled:
                threading.Event().wait(0.001)
            press_while_the_run_is_waited_for()
            leave.wait(20)

    class Saga(Reactor):
        concurrency = 2
        stubborn = step(Stubborn)

    with pytest.raises(KeyboardInterrupt):
        Saga.run()

    assert status() is RunStatus.RUNNING
    assert only_run().lease_owner is not None
    leave.set()


def while_an_async_body_runs_which_is_cancelled_and_ends_first(diary: list[str]) -> None:
    class Slow(Step):
        async def run(self) -> None:
            asyncio.get_running_loop().call_soon(press_ctrl_c)
            try:
                await asyncio.sleep(60)
            finally:
                await asyncio.sleep(0)
                diary.append("finally")

        async def compensate(self, reason: object) -> None:
            diary.append("!slow")

    class Saga(Reactor):
        slow = step(Slow)

    with pytest.raises(KeyboardInterrupt):
        Saga.run()

    assert diary == ["finally"]
    assert status() is RunStatus.ABORTED
    only_run().undo()
    assert diary == ["finally", "!slow"]


def while_a_retry_is_waited_for(diary: list[str]) -> None:
    def body() -> None:
        threading.Timer(0.02, press_ctrl_c).start()
        raise ValueError("once")

    class Saga(Reactor):
        work = step(logged(diary, "work", body)).retry(max_attempts=2, base_delay=3600)

    with pytest.raises(KeyboardInterrupt):
        Saga.run()

    assert status() is RunStatus.ABORTED
    assert only_run().pending_compensation == "work"
    only_run().undo()
    assert diary == ["+work", "!work"]


def under_asyncio_run(diary: list[str]) -> None:
    class Slow(Step):
        async def run(self) -> None:
            asyncio.get_running_loop().call_soon(press_ctrl_c)
            await asyncio.sleep(60)

    class Saga(Reactor):
        first = step(logged(diary, "first"))
        slow = step(Slow).after(first)

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(Saga.arun())

    assert status() is RunStatus.ABORTED
    only_run().undo()
    assert diary == ["+first", "-first"]


SCENARIOS = {
    scenario.__name__: scenario
    for scenario in (
        in_a_step_in_the_callers_thread,
        while_steps_run_in_other_threads_which_settle_first,
        a_second_one_leaves_at_once_and_the_lease_lapses,
        while_an_async_body_runs_which_is_cancelled_and_ends_first,
        while_a_retry_is_waited_for,
        under_asyncio_run,
    )
}


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with Runtime("memory://"):
        SCENARIOS[sys.argv[1]]([])
        print("as expected", flush=True)
        # a body that was left behind keeps the runtime busy and its thread alive
        os._exit(0)
