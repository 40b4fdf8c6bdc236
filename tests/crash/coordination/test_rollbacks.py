"""A rollback runs under the exclusion of its step, in every process: SC-009."""

from __future__ import annotations

from pathlib import Path

import pytest

from calandria import Failure, Lock, LockNotAcquired, Reactor, Step, fail, step
from tests.crash.children import Child, alone, until
from tests.crash.coordination.arena import Arena, Place, hold_for, most_at_once

PROCESSES = 3


class Withdrawn(Step):
    """Is inside its key, and again when it is undone or compensated."""

    key: str
    fails: bool = False

    coordination = [Lock("{key}", ttl=20, wait=60, rollback_wait=60)]

    def run(self) -> str:
        with Place.witness.seeing(self.key, "run"):
            if Place.deeds is not None:
                Place.deeds(self.context)
        if self.fails:
            fail("on purpose")
        return self.key

    def compensate(self, reason: object) -> None:
        self._be_inside("compensate")

    def undo(self, result: object) -> None:
        self._be_inside("undo")

    def _be_inside(self, action: str) -> None:
        with Place.witness.seeing(self.key, action):
            if Place.deeds is not None:
                Place.deeds(self.context)


class RolledBack(Reactor):
    """Its second step fails, and is compensated; its first one is undone."""

    key: str

    first = step(Withdrawn)
    second = step(Withdrawn, fails=True).after(first)


def _exclusion(folder: Path, dose: str) -> None:
    arena = Arena(folder)
    with arena.runtime() as runtime:
        runtime.prepare()

    def roll_back() -> None:
        Place.deeds = hold_for(0.002)
        with arena.runtime():
            for _ in range(int(dose)):
                result = RolledBack.run(key="k")
                assert isinstance(result, Failure)
                assert result.error == "on purpose"
                assert not result.rollback_failures

    children = [Child(roll_back) for _ in range(PROCESSES)]
    for child in children:
        child.join()
    lines = arena.witness.lines()
    assert most_at_once(lines) == {"k": 1}
    for action, times in (("run", 2), ("compensate", 1), ("undo", 1)):
        entries = [line for line in lines if (line.what, line.who) == ("enter", action)]
        assert len(entries) == times * int(dose) * PROCESSES


def test_sc_009_rollbacks_exclude_each_other(tmp_path: Path) -> None:
    alone(_exclusion, tmp_path, "8")


@pytest.mark.slow
def test_sc_009_a_thousand_rollbacks_exclude_each_other(tmp_path: Path) -> None:
    alone(_exclusion, tmp_path, "350", patience=900)


class Impatient(Withdrawn):
    coordination = [Lock("{key}", ttl=20)]


def _seen_from_outside(folder: Path) -> None:
    """While a step is undone in one process, another cannot have its key."""
    arena = Arena(folder)
    gate = folder / "gate"

    def roll_back() -> None:
        def wait_in_undo(context: object) -> None:
            if Place.witness.lines()[-1].who == "undo":
                until(gate.exists, "the gate was not opened")

        Place.deeds = wait_in_undo
        with arena.runtime():
            assert isinstance(RolledBack.run(key="k"), Failure)

    child = Child(roll_back)
    until(lambda: any(line.who == "undo" for line in arena.witness.lines()), "nothing was undone")
    with arena.runtime() as runtime:
        with pytest.raises(LockNotAcquired, match="'k'"):
            Impatient.call(key="k")
        (hold,) = runtime.gates.store.holds()
        assert hold.label == "RolledBack.first"
        gate.touch()
        child.join()
        assert Impatient.call(key="k").ok


def test_sc_009_an_undo_holds_its_key_for_all_to_see(tmp_path: Path) -> None:
    alone(_seen_from_outside, tmp_path)
