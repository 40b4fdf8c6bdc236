"""Sweeps put to work what lost its process, soon; and never touch what lives, however slow."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Any

import pytest

from calandria import RunStatus, Success, runs
from tests.crash.background.deeds import Acting
from tests.crash.background.reactors import Here, Unread
from tests.crash.background.workshop import Workshop, all_over, end
from tests.crash.children import Child, alone, until


def _sweeps_amid_runs(folder: Path, count: str) -> None:
    """Every fourth run has a step that outlasts its lease two times over."""
    total = int(count)
    shop = Workshop(folder, lease=0.2, sweep=0.05)
    sweeper = shop.worker(2)

    def slow(context: Any) -> None:
        began = time.monotonic()
        until(lambda: time.monotonic() > began + 2.2 * shop.lease, "time stood still")

    def run_some(number: int) -> None:
        with shop.runtime():
            for one in range(total // 4):
                Acting.by_path = {("run", "c"): slow} if (one + number) % 4 == 0 else {}
                assert Here.run() == Success("did c")

    callers = [Child(lambda number=number: run_some(number)) for number in range(4)]
    for caller in callers:
        caller.join()
    with shop.runtime() as runtime:
        found = list(runs(runtime=runtime))
        assert [run.status for run in found] == [RunStatus.COMPLETED] * (total // 4 * 4)
        assert {run.epoch for run in found} == {1}, "a living run was taken over"
    begun = shop.begun()
    assert [begun.count(path) for path in "abc"] == [len(found), 3 * len(found), len(found)]
    end(sweeper)
    print(f"{len(found)} runs beside sweeps each {shop.sweep} s, none touched")


def _killed_callers(folder: Path, count: str) -> None:
    """Each caller is killed in a step; a worker that does nothing but sweep takes the run up."""
    shop = Workshop(folder, lease=0.8, sweep=0.6)
    worker = shop.worker(4)
    killed: list[float] = []
    with shop.runtime() as runtime:
        for number in range(int(count)):
            at = folder / f"at-{number}"

            def call(at: Path = at) -> None:
                def stay(context: Any) -> None:
                    at.touch()
                    signal.pause()

                Acting.by_path = {("run", "b"): stay}
                with shop.runtime():
                    Here.run()

            caller = Child(call)
            until(at.exists, "the step did not begin")
            caller.kill()
            killed.append(time.time())
        all_over(runtime)
        found = list(runs(runtime=runtime))[::-1]
        bound = shop.lease + shop.sweep
        ratios = [
            (taken.at.timestamp() - at) / bound
            for run, at in zip(found, killed, strict=True)
            for taken in run.trace
            if taken.kind == "run.taken_up" and taken.data["epoch"] == 2
        ]
        assert len(ratios) == int(count)
        assert {run.result for run in found} == {Success("did c")}
    end(worker)
    shown = f"{min(ratios):.2f} to {max(ratios):.2f}"
    print(f"{len(ratios)} callers killed; recovered within {shown} of one lease plus one sweep")
    # what is over 1 is the time that the machine took to notice, not to wait
    assert max(ratios) < 1.25, shown


def _killed_with_a_job(folder: Path) -> None:
    """The unit that it dispatched has settled, so that the run has a job when its owner dies."""
    shop = Workshop(folder, lease=0.4, sweep=0.3)
    worker = shop.worker(1)

    def call() -> None:
        Acting.by_path = {("run", "b"): lambda context: signal.pause()}
        with shop.runtime():
            Unread.run()

    caller = Child(call)
    with shop.runtime() as runtime:
        until(lambda: "b" in shop.begun(), "the step did not begin")
        (run,) = runs(runtime=runtime)
        (unit,) = run.children
        assert unit.wait(20) == Success("did unit")
        caller.kill()
        at_kill = time.time()
        assert run.wait(20) == Success("did b")
        (taken,) = [entry for entry in run.trace if entry.kind == "run.taken_up"]
    ratio = (taken.at.timestamp() - at_kill) / (shop.lease + shop.sweep)
    print(f"taken up after {ratio:.2f} of one lease plus one sweep")
    assert ratio < 1.5
    end(worker)


def test_sweeps_never_touch_a_living_run(tmp_path: Path) -> None:
    alone(_sweeps_amid_runs, tmp_path, "20")


@pytest.mark.slow
def test_sweeps_never_touch_a_hundred_living_runs(tmp_path: Path) -> None:
    alone(_sweeps_amid_runs, tmp_path, "100")


def test_a_killed_callers_run_is_recovered_within_a_lease_and_a_sweep(tmp_path: Path) -> None:
    alone(_killed_callers, tmp_path, "6")


@pytest.mark.slow
def test_many_killed_callers_runs_are_recovered_in_time(tmp_path: Path) -> None:
    alone(_killed_callers, tmp_path, "60")


def test_a_killed_owner_with_a_job_at_hand_is_followed_in_time(tmp_path: Path) -> None:
    alone(_killed_with_a_job, tmp_path)
