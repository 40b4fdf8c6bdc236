"""A process that is stopped past its lease: another takes the run over, and it records nothing."""

from __future__ import annotations

import logging
import os
import signal
import time
from pathlib import Path
from typing import Any

from calandria import (
    Reactor,
    Run,
    RunBusy,
    RunStatus,
    Runtime,
    StaleLease,
    Step,
    Success,
    runs,
    step,
)
from tests.crash.acting import Chain, Deeds, Plain, Site, patiently
from tests.crash.children import Child, alone, until
from tests.crash.steplog import logged

LEASE = 0.4


class Lines(logging.Handler):
    """Keeps what was logged about leases."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        logging.getLogger("calandria.lease").addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


class Inner(Reactor):
    only = step(Plain, name="")


class NestedBehind(Step):
    """Is stopped inside its body, and then does nested work."""

    def run(self) -> str:
        with logged(self.context, "run"):
            Deeds.perform("run", self.context)
            self.context.run(Inner)
            return Deeds.who


class WithNested(Reactor):
    a = step(Plain, name="")
    b = step(NestedBehind).after(a)
    c = step(Plain, name="").after(b)


def _stopped_owner(folder: Path, reactor_name: str, notices: str) -> None:
    site = Site(folder)
    reactor: Any = {"chain": Chain, "nested": WithNested}[reactor_name]
    at, gate, told = folder / "at", folder / "gate", folder / "told"

    def wait_in_step(context: Any) -> None:
        at.touch()
        until(gate.exists, "the gate was not opened")
        if notices == "notices":
            until(lambda: context.cancelled, "the step was not told that its lease is lost")
        told.write_text(str(context.cancelled))

    def own() -> None:
        Deeds.by_path = {("run", "b"): wait_in_step}
        lines = Lines()
        with site.runtime(lease=LEASE):
            try:
                reactor.run()
                raise AssertionError("a stale process was not refused")
            except StaleLease as error:
                assert "took it over" in str(error)
        lost = [line for line in lines.lines if "event=lease.lost" in line]
        assert len(lost) == 1, lines.lines

    owner = Child(own)
    until(at.exists, "the step did not begin")
    owner.signal(signal.SIGSTOP)

    def take_over() -> None:
        Deeds.who = "second"
        with site.runtime(lease=LEASE):
            (run,) = runs()
            assert patiently(run.recover) == Success("second")

    Child(take_over).join()
    with site.runtime() as runtime:
        before = _journal(runtime)
    gate.touch()
    owner.signal(signal.SIGCONT)
    owner.join()
    if notices == "notices":
        assert told.read_text() == "True"
    with site.runtime() as runtime:
        assert _journal(runtime) == before
        (run,) = runs(runtime=runtime)
        assert run.status is RunStatus.COMPLETED
        assert run.epoch == 2
        assert run.results["b"] == "second"
    assert site.begun("run").count("b") == 2
    keys = {line.key for line in site.log() if line.path == "b"}
    assert len(keys) == 1


def _journal(runtime: Runtime) -> list[object]:
    (run,) = runs(runtime=runtime)
    return [*run.trace, *run.steps(), *run.steps("b"), run.updated_at]


def _long_step(folder: Path) -> None:
    """A step of three leases, in a process that lives, is never taken over."""
    site = Site(folder)
    at, gate = folder / "at", folder / "gate"

    def wait_in_step(context: Any) -> None:
        at.touch()
        until(gate.exists, "the gate was not opened")

    def own() -> None:
        Deeds.by_path = {("run", "b"): wait_in_step}
        with site.runtime(lease=LEASE):
            assert Chain.run() == Success("first")

    owner = Child(own)
    until(at.exists, "the step did not begin")
    refused = 0
    with site.runtime(lease=LEASE) as runtime:
        (run,) = runs(runtime=runtime)
        began = time.monotonic()
        while time.monotonic() < began + 3 * LEASE:
            refused += _is_refused(run)
    gate.touch()
    owner.join()
    assert refused > 3
    assert site.begun("run") == ["a", "b", "c"]


def _is_refused(run: Run) -> bool:
    try:
        run.recover()
    except RunBusy as error:
        assert str(os.getpid()) not in str(error)
        return True
    raise AssertionError("a living run was taken over")


def test_a_stopped_owner_is_told_and_refused(tmp_path: Path) -> None:
    alone(_stopped_owner, tmp_path, "chain", "notices")


def test_a_stopped_owner_that_commits_at_once_is_refused(tmp_path: Path) -> None:
    alone(_stopped_owner, tmp_path, "chain", "commits")


def test_a_stopped_owner_cannot_begin_nested_work(tmp_path: Path) -> None:
    alone(_stopped_owner, tmp_path, "nested", "commits")


def test_a_step_longer_than_the_lease_is_never_taken_over(tmp_path: Path) -> None:
    alone(_long_step, tmp_path)
