"""A run whose process died is cancelled where it stood: what is pending is found at any depth."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from calandria import Failure, Reactor, RunStatus, Runtime, Settings, Step, compose, runs, step

LOG = "CANCEL_LOG"


def note(line: str) -> None:
    with open(os.environ[LOG], "a") as log:
        log.write(f"{line}\n")


class Charge(Step):
    amount: int

    def run(self) -> int:
        note("charge")
        os._exit(9)

    def compensate(self, reason: object) -> None:
        note(f"compensate {self.amount}")


class Payment(Reactor):
    amount: int

    charge = step(Charge)


class Order(Reactor):
    payment = compose(Payment, amount=5)


def die(path: str) -> None:
    with Runtime(f"sqlite:///{path}", settings=Settings(lease_ttl=0.2)):
        Order.run()


def test_a_step_cut_off_below_the_top_is_pending_and_undo_compensates_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a run whose process died in a step of a nested reactor
    log, path = tmp_path / "log", tmp_path / "runs.db"
    environment = {**os.environ, LOG: str(log)}
    code = f"from tests.unit.runtime import test_cancel_of_the_dead as t; t.die({str(path)!r})"
    died = subprocess.run([sys.executable, "-c", code], env=environment, check=False)
    assert died.returncode == 9
    monkeypatch.setenv(LOG, str(log))
    with Runtime(f"sqlite:///{path}", settings=Settings(lease_ttl=0.2)) as runtime:
        (run,) = runs(reactor=Order)
        while run.lease_owner is not None:
            runtime.pause(0.02)
        # When it is cancelled
        run.cancel("too late")
        # Then the step is pending, and undo compensates it with its inputs
        assert run.status is RunStatus.CANCELLED
        assert run.pending_compensation == "payment/charge"
        undone = run.undo()
        assert isinstance(undone, Failure) and undone.rollback_failures == []
        assert log.read_text().split("\n") == ["charge", "compensate 5", ""]
