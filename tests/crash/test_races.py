"""Many processes want the same run: one has it, the others are told, and nothing is done twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from calandria import Dispatched, Failure, RunBusy, RunStatus, Success, runs
from tests.crash.acting import Chain, Deeds, Site, die, patiently
from tests.crash.children import Child, alone, until
from tests.crash.steplog import StepLog, read_log

UNDOERS = 8
CALLERS = 30


def _all_at_once(folder: Path, count: int, work: Callable[[], str]) -> Counter[str]:
    """Let `count` processes do `work` from the same moment on; return what it came to."""
    gate, told = folder / "gate", StepLog(folder / "told")

    def wait_and_work() -> None:
        until(gate.exists, "the gate was not opened")
        told.write("told", work(), "")

    children = [Child(wait_and_work) for _ in range(count)]
    gate.touch()
    for child in children:
        child.join()
    gate.unlink()
    return Counter(line.action for line in read_log(folder / "told"))


def _undoing(folder: Path) -> None:
    site = Site(folder)
    with site.runtime():
        assert Chain.run().ok

    def undo() -> str:
        with site.runtime(undo_wait=0):
            (run,) = runs()
            try:
                result = run.undo()
            except RunBusy:
                return "busy"
            assert isinstance(result, Failure) and result.error == "Undo triggered", result
            return "undone"

    came_to = _all_at_once(folder, UNDOERS, undo)
    assert came_to["undone"] >= 1
    assert came_to.total() == UNDOERS
    assert site.begun("undo") == site.ended("undo") == ["c", "b", "a"]
    print(dict(came_to))


def _undoing_with_patience(folder: Path) -> None:
    site = Site(folder)
    with site.runtime():
        assert Chain.run().ok

    def undo() -> str:
        with site.runtime(undo_wait=20):
            (run,) = runs()
            assert run.undo() == Failure(
                "Undo triggered", exception_class="Cancelled", retryable=False
            )
            return "undone"

    assert _all_at_once(folder, UNDOERS, undo) == {"undone": UNDOERS}
    assert site.begun("undo") == ["c", "b", "a"]


def _recovering(folder: Path) -> None:
    site = Site(folder)

    def crash() -> None:
        Deeds.by_path = {("run", "b"): die}
        with site.runtime(lease=0.05):
            Chain.run()

    assert Child(crash).wait() == 9

    def recover() -> str:
        with site.runtime():
            (run,) = runs()
            try:
                return "done" if patiently_once(run) == Success("first") else "wrong"
            except RunBusy:
                return "busy"

    def patiently_once(run: Any) -> Any:
        until(lambda: run.lease_owner is None or run.epoch > 1, "the lease does not lapse")
        return run.recover()

    came_to = _all_at_once(folder, UNDOERS, recover)
    assert came_to["done"] >= 1 and came_to["wrong"] == 0
    assert site.begun("run") == ["a", "b", "b", "c"]
    with site.runtime() as runtime:
        (run,) = runs(runtime=runtime)
        assert run.status is RunStatus.COMPLETED
        # one executed it; each of the others may have claimed it once more after its end
        assert 2 <= run.epoch <= 1 + UNDOERS and run.lease_owner is None


def _one_key(folder: Path) -> None:
    """The file is new as well: nobody is told that the database is locked."""
    site = Site(folder)

    def call() -> str:
        with site.runtime():
            match Chain.options(idempotency_key="the same").run():
                case Success("first"):
                    return "result"
                case Dispatched():
                    return "dispatched"
                case other:
                    return repr(other)

    came_to = _all_at_once(folder, CALLERS, call)
    assert came_to["result"] >= 1
    assert came_to["result"] + came_to["dispatched"] == CALLERS, came_to
    assert site.begun("run") == ["a", "b", "c"]
    with site.runtime() as runtime:
        assert len(list(runs(runtime=runtime))) == 1


def _one_key_after_a_crash(folder: Path) -> None:
    site = Site(folder)

    def crash() -> None:
        Deeds.by_path = {("run", "b"): die}
        with site.runtime(lease=0.05):
            Chain.options(idempotency_key="the same").run()

    assert Child(crash).wait() == 9

    def call() -> str:
        with site.runtime() as runtime:
            (run,) = runs()
            until(lambda: run.lease_owner is None or run.epoch > 1, "the lease does not lapse")
            result: Any = Chain.options(idempotency_key="the same", runtime=runtime).run()
            return type(result).__name__

    came_to = _all_at_once(folder, UNDOERS, call)
    assert came_to["Success"] >= 1
    assert came_to["Success"] + came_to["Dispatched"] == UNDOERS, came_to
    assert site.begun("run") == ["a", "b", "b", "c"]


def _one_new_file(folder: Path) -> None:
    site = Site(folder)

    def call() -> str:
        with site.runtime():
            return str(patiently(Chain.run).ok)

    assert _all_at_once(folder, 20, call) == {"True": 20}
    with site.runtime() as runtime:
        assert {run.status for run in runs(runtime=runtime)} == {RunStatus.COMPLETED}
        assert len(list(runs(runtime=runtime))) == 20


def test_processes_undoing_one_run(tmp_path: Path) -> None:
    alone(_undoing, tmp_path)


def test_processes_undoing_one_run_that_wait_for_each_other(tmp_path: Path) -> None:
    alone(_undoing_with_patience, tmp_path)


def test_processes_recovering_one_run(tmp_path: Path) -> None:
    alone(_recovering, tmp_path)


def test_processes_calling_under_one_key(tmp_path: Path) -> None:
    alone(_one_key, tmp_path)


def test_processes_calling_under_the_key_of_a_dead_one(tmp_path: Path) -> None:
    alone(_one_key_after_a_crash, tmp_path)


def test_processes_running_on_one_new_file(tmp_path: Path) -> None:
    alone(_one_new_file, tmp_path)
