"""Writers of one file stand in line; those in the background let urgent ones pass."""

from __future__ import annotations

import fcntl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from calandria.storage.sql import turnstile
from calandria.storage.sql.turnstile import LONGEST_PAUSE, Turnstile

WAIT = 30.0


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "runs.db-lock")


@pytest.fixture
def worker(path: str) -> Iterator[Turnstile]:
    turnstile = Turnstile(path)
    yield turnstile
    turnstile.close()


@pytest.fixture
def caller(path: str) -> Iterator[Turnstile]:
    """Another process's: a lock belongs to the file as it was opened."""
    turnstile = Turnstile(path)
    yield turnstile
    turnstile.close()


class Passing:
    """A thread that passes a turnstile once."""

    def __init__(self, turnstile: Turnstile, *, urgent: bool) -> None:
        self._turnstile = turnstile
        self._urgent = urgent
        self.started = threading.Event()
        self.passed = threading.Event()
        self._thread = threading.Thread(target=self._pass)
        self._thread.start()

    def _pass(self) -> None:
        self.started.set()
        with self._turnstile.urgently if self._urgent else self._turnstile:
            self.passed.set()

    def join(self) -> None:
        self._thread.join(WAIT)
        assert self.passed.is_set()


def until_wanted(turnstile: Turnstile) -> None:
    while not turnstile.wanted:
        threading.Event().wait(0.001)


def test_an_urgent_writer_is_seen_while_it_waits(worker: Turnstile, caller: Turnstile) -> None:
    assert not worker.wanted
    with worker:
        passing = Passing(caller, urgent=True)
        until_wanted(worker)
        assert not passing.passed.is_set()
    passing.join()
    assert not worker.wanted


def test_one_that_is_not_urgent_is_not_seen(worker: Turnstile, caller: Turnstile) -> None:
    with worker:
        passing = Passing(caller, urgent=False)
        assert passing.started.wait(WAIT)
        assert not worker.wanted
        assert not passing.passed.is_set()
    passing.join()


def test_only_who_kept_an_urgent_writer_waiting_pauses(
    worker: Turnstile, caller: Turnstile
) -> None:
    with worker:
        pass
    assert worker._not_before == 0
    with worker:
        entered = worker._entered
        passing = Passing(caller, urgent=True)
        until_wanted(worker)
    passing.join()
    assert worker._not_before > entered
    assert caller._not_before == 0
    before = worker._not_before
    with worker:
        # Then it has waited, and that once
        assert worker._entered >= before
    assert worker._not_before == before


def test_an_urgent_writer_does_not_pause(worker: Turnstile, caller: Turnstile) -> None:
    worker._not_before = float("inf")
    passing = Passing(worker, urgent=True)
    passing.join()
    assert not caller.wanted


def test_a_pause_is_bounded(worker: Turnstile, caller: Turnstile) -> None:
    with worker:
        passing = Passing(caller, urgent=True)
        until_wanted(worker)
        worker._entered -= 3600
    left = worker._not_before
    passing.join()
    with worker:
        assert worker._entered >= left
        assert left - worker._entered <= LONGEST_PAUSE


def test_a_closed_turnstile_lets_go_of_its_turn(worker: Turnstile, caller: Turnstile) -> None:
    worker.enter()
    passing = Passing(caller, urgent=True)
    until_wanted(worker)
    worker.close()
    passing.join()
    assert not worker.wanted


@pytest.mark.parametrize("call", range(6))
@pytest.mark.parametrize("urgent", [True, False])
def test_an_interruption_keeps_nobody_out(
    worker: Turnstile, caller: Turnstile, call: int, urgent: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C right after the nth lock or unlock: what was taken is let go of."""
    calls = iter(range(100))

    class Interrupted:
        def __getattr__(self, name: str) -> object:
            return getattr(fcntl, name)

        @staticmethod
        def flock(file: int, operation: int) -> None:
            fcntl.flock(file, operation)
            if next(calls) == call:
                raise KeyboardInterrupt

    monkeypatch.setattr(turnstile, "fcntl", Interrupted())
    try:
        with worker.urgently if urgent else worker:
            pass
    except KeyboardInterrupt:
        pass
    monkeypatch.undo()
    assert not caller.wanted
    Passing(caller, urgent=True).join()
    assert not worker.wanted
