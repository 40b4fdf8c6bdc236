"""A forked child has no part in its parent's runs, and can have runs of its own."""

from __future__ import annotations

import multiprocessing
import os
import threading
from pathlib import Path
from typing import Any

from calandria import RunStatus, Runtime, StaleLease, Success, runs
from tests.crash.acting import Around, Chain, Deeds, Site, patiently
from tests.crash.children import Child, alone, until

LEASE = 0.3


def _fork_in_a_step(folder: Path) -> None:
    """The parent dies; its child lives on and runs on, and must not keep the parent's lease."""
    site = Site(folder)
    at, gate = folder / "at", folder / "gate"

    def in_child() -> None:
        Deeds.by_path = {}
        Deeds.who = "child"
        assert Chain.run() == Success("child")
        at.touch()
        until(gate.exists, "the gate was not opened")
        assert Chain.run() == Success("child")

    grandchild: list[Child] = []

    def fork(context: Any) -> None:
        grandchild.append(Child(in_child))
        (folder / "pid").write_text(str(grandchild[0].pid))
        until(at.exists, "the child did not run")
        os._exit(9)

    def own() -> None:
        Deeds.by_path = {("run", "b"): fork}
        with site.runtime(lease=LEASE):
            Chain.run()

    assert Child(own).wait() == 9
    with site.runtime() as runtime:
        (run,) = runs(runtime=runtime, status=RunStatus.RUNNING)
        assert patiently(run.recover) == Success("first")
        gate.touch()
        done = [RunStatus.COMPLETED] * 3
        until(lambda: [r.status for r in runs(runtime=runtime)] == done, "the child's second run")
        assert [entry.sequence for entry in run.trace] == [*range(1, len(list(run.trace)) + 1)]


def _child_returns_from_the_step(folder: Path) -> None:
    """A child that comes back from the step in the parent's stead records nothing."""
    site = Site(folder)

    def fork(context: Any) -> None:
        child = os.fork()
        (folder / f"{'child' if child == 0 else 'parent'}").touch()
        if child:
            _, status = os.waitpid(child, 0)
            (folder / "code").write_text(str(os.waitstatus_to_exitcode(status)))

    Deeds.by_path = {("run", "b"): fork}
    runtime = site.runtime()
    parent = os.getpid()
    try:
        result = Chain.options(runtime=runtime).run()
    except StaleLease:
        os._exit(0 if os.getpid() != parent else 1)
    assert os.getpid() == parent
    assert (folder / "code").read_text() == "0"
    assert result == Success("first")
    assert site.begun("run") == ["a", "b", "c"]
    runtime.close()


def _between_runs(folder: Path) -> None:
    site = Site(folder)
    with site.runtime():
        assert Around.run().ok
        children = [Child(lambda: _run_some(3)) for _ in range(4)]
        assert Around.run().ok
        for child in children:
            child.join()
        assert {run.status for run in runs()} == {RunStatus.COMPLETED}
        assert len(list(runs())) == 2 + 4 * 3


def _run_some(count: int) -> None:
    for _ in range(count):
        assert Around.run().ok


def _in_child(runtime: Runtime) -> None:
    assert Chain.options(runtime=runtime).run().ok


def _from_threads(folder: Path) -> None:
    """Forks amid threads that run without a pause: no child may wait for a lock held elsewhere."""
    site = Site(folder)
    over = threading.Event()
    with site.runtime() as runtime:

        def keep_running() -> None:
            while not over.is_set():
                assert Chain.options(runtime=runtime).run().ok

        threads = [threading.Thread(target=keep_running) for _ in range(3)]
        for thread in threads:
            thread.start()
        context = multiprocessing.get_context("fork")
        for _ in range(6):
            children = [context.Process(target=_in_child, args=(runtime,)) for _ in range(2)]
            for child in children:
                child.start()
            for child in children:
                child.join(30)
                assert child.exitcode == 0, f"exit code {child.exitcode} (None: it hangs)"
        over.set()
        for thread in threads:
            thread.join()
        assert {run.status for run in runs()} == {RunStatus.COMPLETED}


def test_a_fork_in_a_step_does_not_keep_the_lease_of_its_parent(tmp_path: Path) -> None:
    alone(_fork_in_a_step, tmp_path)


def test_a_child_that_returns_from_a_step_records_nothing(tmp_path: Path) -> None:
    alone(_child_returns_from_the_step, tmp_path)


def test_children_forked_between_runs_run_their_own(tmp_path: Path) -> None:
    alone(_between_runs, tmp_path)


def test_forks_amid_running_threads_do_not_hang(tmp_path: Path) -> None:
    alone(_from_threads, tmp_path)
