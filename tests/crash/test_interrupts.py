"""Ctrl-C at random moments: the run is aborted or done, nobody holds it, and undo cleans up."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from calandria import Reactor, RunStatus, Runtime, UndoIncomplete, runs
from calandria.storage import open_store
from tests.crash import victims
from tests.crash.acting import Around, Chain, Deeds, Site, fail_here, patiently
from tests.crash.checks import check_log
from tests.crash.children import Child, alone, until
from tests.crash.steplog import Line, StepLog, use

VICTIMS: dict[str, tuple[type[Reactor], dict[str, Any]]] = {
    "back": (victims.Back, {}),
    "compose": (victims.Composed, {"late": "fail"}),
    "map": (victims.Mapped, {"scripts": ["", "flaky", ""]}),
    "nested": (victims.Nesting, {}),
    "parallel": (victims.Parallel, {"late": "fail"}),
    "async": (victims.Async, {}),
}

INTERRUPTED = 17


def _interrupted(folder: Path, seed: str, rounds: str) -> None:
    chance = random.Random(seed)
    counts = {"aborted": 0, "ended": 0, "not begun": 0}
    enough = int(rounds) // 3
    number = 0
    # a slow machine hits fewer runs: then it interrupts more of them
    while number < int(rounds) or (counts["aborted"] <= enough and number < 4 * int(rounds)):
        number += 1
        name = chance.choice(sorted(VICTIMS))
        site = Site(_new_folder(folder, number))
        try:
            counts[_interrupt_once(site, name, chance)] += 1
        except AssertionError as error:
            log = "\n".join(str(line) for line in site.log()[-30:])
            raise AssertionError(f"seed {seed}, round {number}, {name}: {error}\n{log}") from error
    print(counts)
    assert counts["aborted"] > enough, counts


def _new_folder(folder: Path, number: int) -> Path:
    new = folder / str(number)
    new.mkdir()
    return new


def _interrupt_once(site: Site, name: str, chance: random.Random) -> str:
    reactor, inputs = VICTIMS[name]
    ready = site.folder / "ready"
    with site.runtime() as runtime:
        runtime.prepare()

    def run_until_interrupted() -> None:
        with site.runtime(), contextlib.suppress(KeyboardInterrupt):
            ready.touch()
            while True:
                reactor.run(**inputs)  # type: ignore[attr-defined]

    child = Child(run_until_interrupted)
    until(ready.exists, "the child did not begin")
    time.sleep(chance.uniform(0, 0.05))
    child.signal(signal.SIGINT)
    assert child.wait(again=signal.SIGINT) == 0, "its traceback is above"
    with site.runtime() as runtime:
        found = list(runs(runtime=runtime))
        for run in found:
            assert run.lease_owner is None, f"{run.status.value}, and its lease is live"
            assert run.status in (RunStatus.ABORTED, RunStatus.COMPLETED, RunStatus.FAILED)
        if not found:
            return "not begun"
        last, aborted = found[0], found[0].status is RunStatus.ABORTED
        assert aborted is last.needs_attention or reactor is victims.Back
        use(StepLog(site.folder / "steps.log"))
        _undo(runtime, last.id)
        lines = [line for line in site.log() if line.run == last.id]
        check_log(lines)
        _everything_is_undone(lines)
        return "aborted" if aborted else "ended"


def _undo(runtime: Runtime, run_id: str) -> None:
    (run,) = [run for run in runs(runtime=runtime) if run.id == run_id]
    try:
        run.undo()
    except UndoIncomplete as error:
        assert all("undo broken" in left.message for left in error.rollback_failures)
    assert run.status in (RunStatus.CANCELLED, RunStatus.FAILED)
    assert run.lease_owner is None


def _everything_is_undone(log: list[Line]) -> None:
    """Each step that began was undone, or compensated, after it last ended."""
    landed: set[str] = set()
    cleaned: set[str] = set()
    for line in log:
        if line.what == "begin" and line.action == "run":
            landed.add(line.path)
        if line.what == "end" and line.action in ("undo", "compensate"):
            # what fails for good was tried all the same
            cleaned.add(line.path)
    skipped = {path for path in landed if path.rpartition("/")[2] == "c" and "/" not in path}
    left = landed - cleaned - skipped
    assert not left, f"begun, and neither undone nor compensated: {sorted(left)}"


def _interrupted_in_a_commit(folder: Path, when: str) -> None:
    """The interruption comes right before or right after each commit in turn."""
    number = 0
    statuses: list[str] = []
    while True:
        number += 1
        site = Site(_new_folder(folder, number))
        interrupted = Child(lambda s=site, n=number: _interrupt_at_commit(s, n, when)).wait()
        if interrupted == 0:
            break
        assert interrupted == INTERRUPTED
        with site.runtime() as runtime:
            found = list(runs(runtime=runtime))
            if not found:
                assert (number, when) == (1, "before")
                statuses.append("none")
                continue
            (run,) = found
            statuses.append(run.status.value)
            assert run.lease_owner is None, f"commit {number}: its lease is left"
            assert run.status in (RunStatus.ABORTED, RunStatus.FAILED)
            ending = [entry.kind for entry in run.trace][-1]
            assert ending == f"run.{run.status.value}"
            _undo(runtime, run.id)
            check_log(site.log())
            assert set(site.begun("run")) <= {*site.ended("undo"), *site.ended("compensate")}
    assert statuses.count("aborted") >= 5, statuses
    assert statuses[-1] == ("failed" if when == "after" else "aborted")
    print(when, statuses)


def _interrupt_at_commit(site: Site, number: int, when: str) -> None:
    Deeds.by_path = {("run", "c"): fail_here}
    try:
        with site.runtime(storage=_Interrupting(site, number, when)):
            Chain.run()
    except KeyboardInterrupt:
        os._exit(INTERRUPTED)


class _Interrupting:
    """Interrupts this process at its n-th commit, as a signal would that came just then."""

    def __init__(self, site: Site, number: int, when: str) -> None:
        self._store = open_store(site.url, sqlite_synchronous="OFF")
        self._number = number
        self._when = when
        self._count = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def create_run(self, *arguments: Any, **named: Any) -> Any:
        return self._write(self._store.create_run, *arguments, **named)

    def commit(self, *arguments: Any) -> Any:
        return self._write(self._store.commit, *arguments)

    def _write(self, write: Any, *arguments: Any, **named: Any) -> Any:
        self._count += 1
        if (self._count, self._when) == (self._number, "before"):
            raise KeyboardInterrupt
        written = write(*arguments, **named)
        if (self._count, self._when) == (self._number, "after"):
            raise KeyboardInterrupt
        return written


class InterruptingCalls:
    """Interrupts the main thread at its n-th call: as a function begins, or a built-in returns."""

    def __init__(self, number: int) -> None:
        self._left = number
        self.happened = False

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        # where the interpreter looks for signals: as a function begins, and after a call into C
        if event in ("call", "c_return"):
            self._left -= 1
            if self._left == 0:
                self.happened = True
                sys.setprofile(None)
                raise KeyboardInterrupt


def _at_each_call(folder: Path, reactor_name: str, start: str, stride: str) -> None:
    """Whatever function it comes at, the run is over or aborted, and the process can go on."""
    reactor: Any = {"chain": Chain, "around": Around}[reactor_name]
    site = Site(folder)
    number, counts = int(start), Counter[str]()
    faulthandler.dump_traceback_later(40, exit=True)
    while True:
        with site.runtime() as runtime:
            assert Chain.run().ok  # the threads are there
            Deeds.by_path = {("run", "c"): fail_here, ("run", "after"): fail_here}
            known = {run.id for run in runs()}
            calls = InterruptingCalls(number)
            sys.setprofile(calls)
            try:
                reactor.run()
            except KeyboardInterrupt:
                pass
            finally:
                sys.setprofile(None)
            if not calls.happened:
                break
            assert not runtime.busy, f"call {number}: a lease is still renewed"
            Deeds.by_path = {}
            new = [run for run in runs() if run.id not in known]
            counts[_check_interrupted(runtime, new, number)] += 1
        number += int(stride)
    faulthandler.cancel_dump_traceback_later()
    print(f"interrupted at {counts.total()} of {number} calls and returns: {dict(counts)}")
    assert counts["aborted"] > counts.total() // 2


def _check_interrupted(runtime: Runtime, new: list[Any], number: int) -> str:
    if not new:
        return "not begun"
    (run,) = new
    assert run.lease_owner is None, f"call {number}: {run.status.value}, and its lease is left"
    status = run.status
    assert status in (RunStatus.ABORTED, RunStatus.FAILED), (number, status)
    _undo(runtime, run.id)
    return status.value


def _beside_a_body(folder: Path) -> None:
    """An interruption right before a body begins, outside of it, does not hang the run."""
    site = Site(folder)
    interrupted = threading.Event()

    class InterruptingClock:
        """Its `monotonic` is the last the library calls before a body, and the first after."""

        def __init__(self) -> None:
            self.countdown = -1

        def now(self) -> float:
            return time.time()

        def monotonic(self) -> float:
            self.countdown -= 1
            if self.countdown == 0:
                interrupted.set()
                raise KeyboardInterrupt
            return time.monotonic()

    for countdown in range(1, 12):
        clock = InterruptingClock()
        runtime = Runtime(site.url, settings=site.runtime().settings, clock=clock)
        clock.countdown = countdown
        with contextlib.suppress(KeyboardInterrupt):
            Chain.options(runtime=runtime).run()
        clock.countdown = -1
        runtime.close()
    with site.runtime() as runtime:
        found = {run.status for run in runs(runtime=runtime)}
        assert found <= {RunStatus.ABORTED, RunStatus.COMPLETED}
        assert all(run.lease_owner is None for run in runs(runtime=runtime))
    assert interrupted.is_set()


def _terminated(folder: Path) -> None:
    site = Site(folder)
    at = folder / "at"

    def wait(context: Any) -> None:
        at.touch()
        until((folder / "never").exists, "")

    def work() -> None:
        Deeds.by_path = {("run", "b"): wait}
        with site.runtime(lease=0.1):
            Chain.run()

    child = Child(work)
    until(at.exists, "the step did not begin")
    os.kill(child.pid, signal.SIGTERM)
    assert child.wait() == -signal.SIGTERM
    with site.runtime() as runtime:
        (run,) = runs(runtime=runtime)
        assert patiently(run.recover).ok
    assert site.begun("run") == ["a", "b", "b", "c"]


def test_interruptions_at_random_moments(tmp_path: Path) -> None:
    alone(_interrupted, tmp_path, "1", "24")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_many_interruptions_at_random_moments(tmp_path: Path, seed: int) -> None:
    alone(_interrupted, tmp_path, f"slow {seed}", "100")


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_interruption_at_each_commit(tmp_path: Path, when: str) -> None:
    alone(_interrupted_in_a_commit, tmp_path, when)


@pytest.mark.parametrize("reactor", ["chain", "around"])
def test_an_interruption_at_any_function(tmp_path: Path, reactor: str) -> None:
    alone(_at_each_call, tmp_path, reactor, "2", "37")


def test_an_interruption_just_beside_a_body(tmp_path: Path) -> None:
    alone(_beside_a_body, tmp_path)


def test_a_terminated_process(tmp_path: Path) -> None:
    alone(_terminated, tmp_path)
