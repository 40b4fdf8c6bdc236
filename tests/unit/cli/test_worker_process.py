from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event
from typing import IO

import pytest

from calandria import Runtime
from calandria.cli.watching import watched_files
from tests.unit.cli.conftest import Invoke
from tests.unit.cli.test_background import OFFICE, enqueue

Start = Callable[..., "WorkerProcess"]


class WorkerProcess:
    """A worker without a terminal, and the lines of its log."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-W", "error", "-m", "calandria", "worker", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stderr is not None
        self.log: IO[str] = self.process.stderr

    def read_until(self, *words: str) -> str:
        for line in self.log:
            if all(word in line for word in words):
                return line
        raise AssertionError(f"the log ended without {words}")

    def end(self) -> int:
        self.log.read()
        return self.process.wait(30)


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[WorkerProcess] = []

    def run(*arguments: str) -> WorkerProcess:
        started.append(WorkerProcess(*arguments))
        return started[-1]

    yield run
    for worker in started:
        if worker.process.poll() is None:
            worker.process.terminate()
            worker.process.send_signal(signal.SIGINT)
        worker.log.close()
        worker.process.wait(30)


@pytest.fixture
def long_run(calandria: Invoke) -> Iterator[str]:
    """A run that is under way in a worker once its file `begun` is there."""
    yield enqueue(calandria, "Long")
    Path("go-on").touch()


def until_begun(worker: WorkerProcess) -> None:
    while not Path("begun").exists():
        assert worker.process.poll() is None
        Event().wait(0.01)


def test_a_worker_drains_when_asked_to_stop(calandria: Invoke, long_run: str, start: Start) -> None:
    # Given a worker in the middle of a step
    worker = start(OFFICE, "--threads", "2")
    started = worker.read_until("event=worker.started")
    assert f"process={worker.process.pid} threads=2 storage=sqlite:///runs.db" in started
    until_begun(worker)
    # When it is asked to stop, it waits for that step
    worker.process.terminate()
    assert "signal=SIGTERM seconds=30.0 running=1" in worker.read_until("event=worker.draining")
    waiting = enqueue(calandria, "Token")
    Path("go-on").touch()
    # Then the run is done, nothing new was begun, and the exit code is 0
    worker.read_until("event=run.completed", long_run)
    assert worker.read_until("event=worker.stopped")
    assert worker.end() == 0
    assert calandria("wait", long_run).out == f"completed  {long_run}\ndone\n"
    assert calandria("show", waiting, "--json").data["status"] == "pending"
    assert calandria("workers").err == "No workers.\n"


def test_what_outlasts_the_drain_is_cut_off_and_taken_up_elsewhere(
    calandria: Invoke, long_run: str, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CALANDRIA_LEASE_TTL", "0.5")
    worker = start(OFFICE, "--drain", "0.05s")
    until_begun(worker)
    worker.process.send_signal(signal.SIGINT)
    assert long_run in worker.read_until("event=worker.cut_off")
    assert worker.end() == 7
    # Then another one goes on with it
    Path("go-on").touch()
    with Runtime("sqlite:///runs.db") as runtime:
        while runtime.find(long_run).lease_owner is not None:
            runtime.pause(0.01)
        runtime.sweep()
        runtime.start_worker(threads=1)
        assert runtime.find(long_run).wait(30).ok


def test_a_second_signal_ends_a_worker_at_once(long_run: str, start: Start) -> None:
    worker = start(OFFICE, "--drain", "1h")
    until_begun(worker)
    worker.process.terminate()
    worker.read_until("event=worker.draining")
    worker.process.send_signal(signal.SIGINT)
    assert worker.end() == 128 + signal.SIGINT


def test_a_watched_worker_starts_anew_when_a_file_changes(
    workplace: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "")
    module = workplace / "notes.py"
    module.write_text("from calandria import Reactor\n", encoding="utf-8")
    worker = start("notes", "--watch")
    first = worker.read_until("event=worker.started")
    # a module that cannot be imported does not end it
    module.write_text("this is no Python\n", encoding="utf-8")
    worker.read_until(str(module), "has changed: starting anew")
    worker.read_until("Error: Importing notes failed")
    module.write_text("from calandria import Step\n", encoding="utf-8")
    again = worker.read_until("event=worker.started")
    process = re.compile(r"process=(\d+)")
    assert process.findall(first) != process.findall(again)
    worker.process.terminate()
    worker.read_until("event=worker.stopped")
    assert worker.end() == 0


def test_the_files_watched_are_those_beside_a_module_and_below(
    workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("shop_front/__init__.py", "shop_front/tills.py", "prices.py", "x/deep.py"):
        (workplace / name).parent.mkdir(exist_ok=True)
        (workplace / name).touch()
    for name in (".git/a.py", "env/pyvenv.cfg", "env/b.py", "__pycache__/c.py", "notes.txt"):
        (workplace / name).parent.mkdir(exist_ok=True)
        (workplace / name).touch()
    monkeypatch.syspath_prepend(str(workplace))
    found = {str(path.relative_to(workplace)) for path in watched_files(["shop_front.tills"])}
    assert found == {"shop_front/__init__.py", "shop_front/tills.py", "prices.py", "x/deep.py"}
    # of an installed package: only its own
    assert {path.parts[-2] for path in watched_files(["iniconfig"])} == {"iniconfig"}
