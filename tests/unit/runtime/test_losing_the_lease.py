"""A process that was taken for dead stops at once, and records nothing."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from calandria import (
    Middleware,
    Reactor,
    RunInfo,
    RunStatus,
    Runtime,
    Settings,
    StaleLease,
    Step,
    Success,
    runs,
    step,
)
from tests.unit.runtime.saga import logged


@pytest.mark.parametrize("how", ["run", "arun"])
def test_a_stale_process_is_refused_and_told(diary: list[str], tmp_path: Any, how: str) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    lost: list[RunInfo] = []
    taken_up: list[object] = []
    cancelled: list[bool] = []

    class Watch(Middleware):
        def lease_lost(self, run: RunInfo) -> None:
            lost.append(run)

    class Paused(Step):
        def run(self) -> str:
            if taken_up:
                return "of the successor"
            taken_up.append(None)
            self.stall()
            cancelled.append(self.context.cancelled)
            return "of the stale one"

        def stall(self) -> None:
            # Given a process that stands still until its lease has lapsed
            runtime.keeper.close()
            (run,) = runs(runtime=other)
            while run.lease_owner is not None:
                threading.Event().wait(0.01)
            # and another one that takes its run up
            taken_up.append(run.recover())

        def undo(self, result: str) -> None:
            diary.append(f"-{result}")

    class Saga(Reactor):
        middleware = [Watch]
        paused = step(Paused)
        later = step(logged(diary, "later")).after(paused)

    with Runtime(url) as other:
        runtime = Runtime(url, settings=Settings(lease_ttl=0.1))
        bound = Saga.options(runtime=runtime)

        # Then the stale one gets an error, runs nothing more and has recorded nothing
        with pytest.raises(StaleLease):
            if how == "run":
                bound.run()
            else:
                asyncio.run(bound.arun())

        assert taken_up[1] == Success("later")
        assert diary == ["+later"]
        (run,) = runs()
        assert run.status is RunStatus.COMPLETED
        assert run.results["paused"] == "of the successor"
        assert (run.epoch, [info.epoch for info in lost]) == (2, [1])
        runtime.close()
