"""Workers' runs that lose a contention are parked, woken and completed: none is compensated.

SC-004. Parked runs sleep for ever unless they are woken: one lost wake-up, and a test never ends.
"""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest

from calandria import Reactor, RunStatus, runs
from calandria.jobs.wakeups import wake_directory
from calandria.runtime import worker as worker_module
from tests.crash.background.workshop import all_over, end
from tests.crash.children import Child, alone, until
from tests.crash.coordination.arena import (
    SNOOZE_NEVER,
    Arena,
    InBackground,
    InOrder,
    Place,
    PlacesInBackground,
    WholeRun,
    hold_for,
    most_at_once,
)

WORKERS = 3


def _poll_never() -> None:
    worker_module.SLOW_POLL = SNOOZE_NEVER


def sleeping_arena(folder: Path) -> Arena:
    arena = Arena(folder, snooze_base_delay=SNOOZE_NEVER, snooze_jitter=0)
    with arena.runtime() as runtime:
        runtime.prepare()
    return arena


def started(arena: Arena, workers: int = WORKERS, threads: int = 3) -> list[Child]:
    """Start workers and wait until they listen."""
    found = [arena.worker(threads, first=_poll_never) for _ in range(workers)]
    folder = Path(wake_directory(str(arena.folder / "runs.db")))
    until(lambda: folder.exists() and len(list(folder.iterdir())) >= workers, "nobody listens")
    return found


def _losers(folder: Path, dose: str, patience: str) -> None:
    arena = sleeping_arena(folder)
    Place.deeds = hold_for(0.003)
    workers = started(arena)
    kinds: list[tuple[type[Reactor], str]] = [
        (InBackground, "step"),
        (WholeRun, "run"),
        (PlacesInBackground, "places"),
    ]
    with arena.runtime() as runtime:
        ids = []
        for number in range(int(dose)):
            reactor, key = kinds[number % len(kinds)]
            ids.append(reactor.run(key=key).run_id)  # type: ignore[call-arg]
        all_over(runtime, float(patience))
        found = [runtime.find(str(run_id)) for run_id in ids]
        assert {run.status for run in found} == {RunStatus.COMPLETED}
        parked = sum(any(event.kind == "run.parked" for event in run.trace) for run in found)
        attempts = {step.attempts for run in found for step in run.steps()}
        assert attempts == {1}, "a park must not spend a retry"
        assert not list(runtime.gates.store.waiters())
        assert not list(runtime.gates.store.holds())
    end(*workers)
    most = most_at_once(arena.witness.lines())
    assert (most["step"], most["run"]) == (1, 1)
    assert most["places"] <= 3
    assert parked, "there was nothing to lose"
    print(f"{dose} runs, {parked} of them parked, all completed")


def test_sc_004_every_loser_completes(tmp_path: Path) -> None:
    printed = alone(_losers, tmp_path, "90", "30")
    # a run that was put down and taken by another worker is not lost
    assert "lease.lost" not in printed


@pytest.mark.slow
def test_sc_004_every_loser_completes_of_three_thousand(tmp_path: Path) -> None:
    alone(_losers, tmp_path, "3000", "1000", patience=1200)


def _fairness(folder: Path) -> None:
    """Twenty runs wait for one key; each is let in once before the key is free."""
    arena = sleeping_arena(folder)
    Place.deeds = hold_for(0.01)
    workers = started(arena)
    with arena.runtime() as runtime:
        ids = [WholeRun.run(key="k").run_id for _ in range(20)]
        all_over(runtime)
        waits = []
        for run_id in ids:
            run = runtime.find(str(run_id))
            (step,) = run.steps()
            assert step.started_at is not None
            waits.append((step.started_at - run.created_at).total_seconds())
    end(*workers)
    ratio = max(waits) / statistics.median(waits)
    # with all there from the start and each let in once, the last waits about twice the median
    assert ratio < 6, f"the longest wait is {ratio:.1f} times the median one"
    print(f"20 contenders: the longest wait is {ratio:.1f} times the median one")


def test_nobody_starves_among_twenty(tmp_path: Path) -> None:
    alone(_fairness, tmp_path)


def _in_order(folder: Path, dose: str, patience: str) -> None:
    arena = sleeping_arena(folder)
    Place.deeds = hold_for(0.003)
    workers = started(arena)
    with arena.runtime() as runtime:
        for number in range(int(dose)):
            InOrder.run(key=f"k{number % 2}", number=number)
        all_over(runtime, float(patience))
        assert {run.status for run in runs(runtime=runtime)} == {RunStatus.COMPLETED}
        assert not list(runtime.gates.store.sequence_keys())
    end(*workers)
    lines = arena.witness.lines()
    assert most_at_once(lines) == {"k0": 1, "k1": 1}
    for key in ("k0", "k1"):
        order = [int(each.who) for each in lines if each.what == "number" and each.key == key]
        assert order == sorted(order)
    assert sum(each.what == "number" for each in lines) == int(dose)


def test_ordered_locks_keep_the_order_over_workers(tmp_path: Path) -> None:
    alone(_in_order, tmp_path, "40", "30")


@pytest.mark.slow
def test_ordered_locks_keep_the_order_of_a_thousand_over_workers(tmp_path: Path) -> None:
    alone(_in_order, tmp_path, "1000", "600", patience=900)
