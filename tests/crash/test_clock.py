"""A wall clock that is set back or forward an hour: leases hold, and no retry waits an hour."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from calandria import Reactor, Retry, RunBusy, Runtime, Success, runs, step
from tests.crash.acting import Chain, Deeds, Plain, Site, patiently
from tests.crash.children import Child, alone

HOUR = 3600.0
LEASE = 0.3


class SettableClock:
    """The host's clocks, with a wall clock that can be set."""

    def __init__(self, ahead: float = 0.0) -> None:
        self.ahead = ahead

    def now(self) -> float:
        return time.time() + self.ahead

    def monotonic(self) -> float:
        return time.monotonic()


class Stubborn(Plain):
    """Is tried again in a moment."""

    retry = Retry(max_attempts=3, base_delay=0.02, max_delay=7200, jitter=0)


class Retried(Reactor):
    a = step(Plain, name="")
    b = step(Stubborn, name="").after(a)


def _runtime(site: Site, clock: SettableClock) -> Runtime:
    return Runtime(site.url, settings=site.runtime(lease=LEASE).settings, clock=clock)


def _set_while_it_runs(folder: Path, ahead: str) -> None:
    """In a step, and before a retry: the run goes on at once, and its lease stays its own."""
    site = Site(folder)
    clock = SettableClock()
    refused: list[bool] = []

    def set_the_clock(context: Any) -> None:
        clock.ahead += float(ahead)
        with _runtime(site, clock) as other:
            (run,) = runs(runtime=other)
            try:
                run.recover()
            except RunBusy:
                refused.append(True)
        if context.attempt < 3:
            raise RuntimeError("again")

    Deeds.by_path = {("run", "b"): set_the_clock}
    with _runtime(site, clock):
        began = time.monotonic()
        assert Retried.run() == Success("first")
        assert time.monotonic() - began < 20
    assert refused == [True] * 3
    assert site.begun("run") == ["a", "b", "b", "b"]


def _set_between_a_crash_and_its_recovery(folder: Path, ahead: str) -> None:
    """Killed while a retry was due: it is due no later than it would have been at first."""
    site = Site(folder)

    def crash_while_waiting() -> None:
        def fail_once(context: Any) -> None:
            Deeds.by_path = {}
            raise RuntimeError("again")

        Deeds.by_path = {("run", "b"): fail_once}

        class DyingClock(SettableClock):
            def monotonic(self) -> float:
                run = next(iter(runs(runtime=reader)), None)
                if run is not None and any(e.kind == "step.retrying" for e in run.trace):
                    os._exit(9)
                return super().monotonic()

        reader = site.runtime()
        with _runtime(site, DyingClock()):
            Retried.run()

    assert Child(crash_while_waiting).wait() == 9
    with _runtime(site, SettableClock(float(ahead))):
        (run,) = runs()
        assert [s.status.value for s in run.steps()][-1] == "retrying"
        began = time.monotonic()
        assert patiently(run.recover) == Success("first")
        assert time.monotonic() - began < 20
    assert site.begun("run") == ["a", "b", "b"]


HOURS: list[float] = [-HOUR, HOUR]


@pytest.mark.parametrize("ahead", HOURS)
@pytest.mark.parametrize("work", [_set_while_it_runs, _set_between_a_crash_and_its_recovery])
def test_the_clock_is_set_an_hour(tmp_path: Path, work: Callable[..., None], ahead: float) -> None:
    alone(work, tmp_path, str(ahead))


def test_a_listing_survives_a_clock_set_back(tmp_path: Path) -> None:
    """Runs are listed once each, although their ids and instants are out of order."""
    site = Site(tmp_path)
    clock = SettableClock()
    Deeds.by_path = {}
    with _runtime(site, clock):
        for _ in range(6):
            clock.ahead -= HOUR
            assert Chain.run().ok
        assert len({run.id for run in runs()}) == 6
