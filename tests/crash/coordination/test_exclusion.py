"""Nobody overlaps who shares a key, in any process; everybody does who shares none.

SC-001, SC-002, and the limits of semaphores.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from calandria import Reactor, Step, Success, step
from tests.crash.children import Child, alone, until
from tests.crash.coordination.arena import (
    Arena,
    Contended,
    InPlace,
    Locked,
    Place,
    hold_for,
    most_at_once,
)

PROCESSES = 4


def _in_processes(arena: Arena, work: Callable[[int], None]) -> float:
    """Do `work` in each of four processes at once; return how many seconds it took."""

    def begin(number: int) -> Callable[[], None]:
        def child() -> None:
            with arena.runtime():
                work(number)

        return child

    began = time.monotonic()
    children = [Child(begin(number)) for number in range(PROCESSES)]
    for child in children:
        child.join()
    return time.monotonic() - began


def _entries(folder: Path, dose: str) -> None:
    arena = Arena(folder)
    with arena.runtime() as runtime:
        runtime.prepare()
    each = int(dose) // PROCESSES

    def enter(number: int) -> None:
        for entry in range(each):
            # a step called on its own is as protected as one of a run
            if entry % 2:
                assert Locked.call(key="k") == Success("k")
            else:
                assert Contended.run(key="k") == Success("k")

    took = _in_processes(arena, enter)
    lines = arena.witness.lines()
    entries = [line for line in lines if line.what == "enter"]
    assert len(entries) == each * PROCESSES
    assert most_at_once(lines) == {"k": 1}
    tokens = [line.token for line in entries]
    assert tokens == sorted(set(tokens)), "the fencing tokens do not rise from entry to entry"
    switches = sum(a.pid != b.pid for a, b in itertools.pairwise(entries))
    print(f"{len(entries)} entries, 0 overlaps, {switches} hand-overs, {took:.1f} s")


def test_sc_001_no_two_are_inside(tmp_path: Path) -> None:
    alone(_entries, tmp_path, "200")


@pytest.mark.slow
def test_sc_001_no_two_are_inside_in_ten_thousand_entries(tmp_path: Path) -> None:
    alone(_entries, tmp_path, "10000", patience=1500)


def _places(folder: Path, dose: str) -> None:
    arena = Arena(folder)
    Place.deeds = hold_for(0.002)
    with arena.runtime() as runtime:
        runtime.prepare()

    def enter(number: int) -> None:
        for _ in range(int(dose) // PROCESSES):
            assert InPlace.call(key="k") == Success("k")

    _in_processes(arena, enter)
    lines = arena.witness.lines()
    assert len(lines) == 2 * int(dose)
    # with four contenders for three places, all three are in use at times
    assert most_at_once(lines) == {"k": 3}


def test_a_semaphore_never_has_more_than_its_limit_inside(tmp_path: Path) -> None:
    alone(_places, tmp_path, "160")


@pytest.mark.slow
def test_a_semaphore_never_has_more_than_its_limit_inside_in_ten_thousand(tmp_path: Path) -> None:
    alone(_places, tmp_path, "10000", patience=1500)


class Around(Step):
    """Takes a while, and needs no key."""

    def run(self) -> None:
        Place.inside("free", self.context)


class Sandwich(Reactor):
    """Two free steps around a short locked one."""

    key: str

    first = step(Around)
    work = step(Locked).after(first)
    last = step(Around).after(work)


FREE_SECONDS = 0.3
LOCKED_SECONDS = 0.02


def _be_inside(context: Any) -> None:
    time.sleep(LOCKED_SECONDS if context.step == "work" else FREE_SECONDS)


def _entered(arena: Arena, key: str) -> int:
    return sum(line.what == "enter" and line.key == key for line in arena.witness.lines())


def _overlap(folder: Path) -> None:
    arena = Arena(folder)
    Place.deeds = _be_inside
    with arena.runtime():
        began = time.monotonic()
        Sandwich.run(key="k")
        alone_took = time.monotonic() - began

    def meet(context: Any) -> None:
        _be_inside(context)
        if context.step == "first":
            # nobody gets on before all are inside together
            until(lambda: _entered(arena, "free") >= PROCESSES + 2, "the free steps do not overlap")

    Place.deeds = meet

    def enter(number: int) -> None:
        assert Sandwich.run(key="k") == Success(None)

    took = _in_processes(arena, enter)
    lines = arena.witness.lines()
    most = most_at_once(lines)
    assert most["k"] == 1
    assert most["free"] == PROCESSES
    free = [line for line in lines if line.key == "free" and line.what == "leave"]
    # one after another they would take four times as long
    ratio = took / alone_took
    assert ratio < PROCESSES * 0.75, f"{PROCESSES} runs took {ratio:.2f} times as long as one"
    assert len(free) == 2 * (PROCESSES + 1)
    print(f"{PROCESSES} runs took {ratio:.2f} times as long as one")


def test_sc_002_what_shares_no_key_overlaps(tmp_path: Path) -> None:
    alone(_overlap, tmp_path)
