"""A worker that is stopped past its leases and continued is fenced out, and goes on working."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

from calandria import Reactor, RunStatus, Runtime, Success, runs
from tests.crash.background.checks import tree_of
from tests.crash.background.deeds import Acting
from tests.crash.background.reactors import Chain, Fails
from tests.crash.background.workshop import Workshop, all_over, end, log_to
from tests.crash.children import alone, until

REACTORS: dict[str, type[Reactor]] = {"run": Chain, "undo": Fails}


def _stopped_worker(folder: Path, action: str, notices: str) -> None:
    """`notices`: whether the step waits to be told of the lost lease, or returns at once."""
    shop = Workshop(folder, lease=0.4, sweep=0.2)
    gate, library, told = folder / "gate", folder / "library.log", folder / "told"

    def stay(context: Any) -> None:
        if told.exists():
            return
        until(gate.exists, "the gate was not opened")
        if notices == "notices":
            until(lambda: context.cancelled, "the step was not told that its lease is lost")
        told.write_text(str(context.cancelled))

    def as_first() -> None:
        Acting.by_path = {(action, "b"): stay}
        log_to(library)

    def as_second() -> None:
        Acting.who = " again"

    first = shop.worker(1, first=as_first)
    with shop.runtime() as runtime:
        REACTORS[action].options(runtime=runtime).run()  # type: ignore[attr-defined]
        until(lambda: "b" in shop.begun(action), "the action did not begin")
        first.signal(signal.SIGSTOP)
        second = shop.worker(1, first=as_second)
        all_over(runtime)
        (run,) = runs(runtime=runtime)
        before = _journal(runtime)
        end(second)
        gate.touch()
        first.signal(signal.SIGCONT)
        until(told.exists, "the stopped action did not end")
        # the one worker there is now is the one that was stopped
        again = Chain.options(runtime=runtime).run()
        assert runtime.find(again.run_id).wait(20) == Success("did c")
        end(first)
        assert [*_journal(runtime, run.id)] == before
        tree_of(run, runtime, [deed for deed in shop.deeds() if deed.run == run.id], None)
        if action == "run":
            assert run.results["b"] == "did b again"
        assert run.status is (RunStatus.COMPLETED if action == "run" else RunStatus.FAILED)
    if notices == "notices":
        assert told.read_text() == "True"
    lines = library.read_text().splitlines()
    lost = [line for line in lines if "event=lease.lost" in line]
    assert len(lost) == 1 and run.id in lost[0], lines
    assert not [line for line in lines if "worker.failed" in line], lines
    twice = [
        d
        for d in shop.deeds()
        if (d.what, d.action, d.path, d.run) == ("begin", action, "b", run.id)
    ]
    assert len(twice) == 2 and len({deed.key for deed in twice}) == 1


def _journal(runtime: Runtime, run_id: str | None = None) -> list[object]:
    run = runtime.find(run_id) if run_id else next(iter(runs(runtime=runtime)))
    return [*run.trace, *run.steps(), run.updated_at, run.epoch]


def test_a_stopped_worker_is_told_and_refused_and_works_on(tmp_path: Path) -> None:
    alone(_stopped_worker, tmp_path, "run", "notices")


def test_a_stopped_worker_that_commits_at_once_is_refused(tmp_path: Path) -> None:
    alone(_stopped_worker, tmp_path, "run", "commits")


def test_a_worker_stopped_in_an_undo_is_refused(tmp_path: Path) -> None:
    alone(_stopped_worker, tmp_path, "undo", "commits")
