"""A process that is forked while it has a worker: the child is a process of its own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from calandria import Runtime, Success
from calandria.ports.run_store import RunFilter
from tests.crash.background.deeds import Acting
from tests.crash.background.reactors import Chain
from tests.crash.background.test_wakeups import NEVER, listening, poll_never
from tests.crash.background.workshop import Workshop
from tests.crash.children import Child, alone, until


def _dispatched(runtime: Runtime) -> str:
    dispatched = Chain.options(runtime=runtime).run()
    return dispatched.run_id


def _with_worker(folder: Path, close: str) -> None:
    """The child's run wakes the parent's worker; what the child closes is not its parent's."""
    shop = Workshop(folder, lease=30, sweep=NEVER)
    poll_never()
    runtime = shop.runtime()
    worker = runtime.start_worker(3)
    listening(shop, 1)

    def in_child() -> None:
        run = runtime.find(_dispatched(runtime))
        assert run.wait(20) == Success("did c")
        assert worker.running == () and not worker.alive
        if close == "closes":
            runtime.close()
        (folder / "by").write_text(str(run.id))

    for _ in range(3):
        Child(in_child).join()
        # a process without part in any of this still wakes the parent's worker
        Child(lambda: _from_outside(shop)).join()
    assert {deed.pid for deed in shop.deeds()} == {os.getpid()}
    assert runtime.find(_dispatched(runtime)).wait(20) == Success("did c")
    assert worker.stop(10)
    runtime.close()


def _from_outside(shop: Workshop) -> None:
    with shop.runtime() as runtime:
        assert runtime.find(_dispatched(runtime)).wait(20) == Success("did c")


def _worker_in_child(folder: Path) -> None:
    """A child starts a worker of its own on the runtime it inherited, beside its parent's."""
    shop = Workshop(folder, lease=30, sweep=NEVER)
    poll_never()

    def meet(context: Any) -> None:
        until(lambda: shop.begun().count("b") >= 2, "the two workers do not work side by side")

    Acting.by_path = {("run", "b"): meet}
    runtime = shop.runtime()
    worker = runtime.start_worker(1)

    def in_child() -> None:
        own = runtime.start_worker(1)
        (folder / "ready").touch()
        until((folder / "done").exists, "the parent is not done")
        assert own.stop(10)
        runtime.close()

    child = Child(in_child)
    until((folder / "ready").exists, "the child's worker did not start")
    found = [runtime.find(_dispatched(runtime)) for _ in range(2)]
    for run in found:
        assert run.wait(20) == Success("did c")
    (folder / "done").touch()
    child.join()
    assert len({deed.pid for deed in shop.deeds()}) == 2
    assert worker.alive
    assert runtime.find(_dispatched(runtime)) in list(runtime.list_runs(RunFilter()))
    assert worker.stop(10)
    runtime.close()


def _in_a_step(folder: Path) -> None:
    """A worker's step forks; the child dispatches a run, and ends without a trace of the step."""
    shop = Workshop(folder, lease=30, sweep=NEVER)
    poll_never()
    runtime = shop.runtime()

    def in_child() -> None:
        Acting.by_path = {}
        (folder / "inner").write_text(_dispatched(runtime))

    def fork(context: Any) -> None:
        if not (folder / "inner").exists():
            Child(in_child).join()

    Acting.by_path = {("run", "b"): fork}
    worker = runtime.start_worker(2)
    run = runtime.find(_dispatched(runtime))
    assert run.wait(20) == Success("did c")
    assert runtime.find((folder / "inner").read_text()).wait(20) == Success("did c")
    assert run.epoch == 1
    assert worker.stop(10)
    runtime.close()


def test_a_child_enqueues_for_its_parents_worker(tmp_path: Path) -> None:
    alone(_with_worker, tmp_path, "leaves")


def test_a_child_that_closes_its_runtime_leaves_its_parents_worker_alone(tmp_path: Path) -> None:
    alone(_with_worker, tmp_path, "closes")


def test_a_child_has_a_worker_of_its_own(tmp_path: Path) -> None:
    alone(_worker_in_child, tmp_path)


def test_a_step_of_a_worker_forks(tmp_path: Path) -> None:
    alone(_in_a_step, tmp_path)
