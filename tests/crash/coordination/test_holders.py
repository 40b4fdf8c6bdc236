"""Holders that are killed or stopped: the key comes free by its ttl, and a stale holder is told.

SC-008, and the fencing token with which something outside can refuse the stale one.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from calandria import (
    Lock,
    LockNotAcquired,
    Reactor,
    Retry,
    RunStatus,
    Semaphore,
    Step,
    Success,
    runs,
    step,
)
from tests.crash.background.workshop import all_over, end
from tests.crash.children import PATIENCE_SECONDS, Child, alone, until
from tests.crash.coordination.arena import Arena, InOrder, Place, hold_for, most_at_once

TTL = 0.5


class ShortLived(Step):
    """Is inside its key, whose hold does not outlive its process for long."""

    key: str

    coordination = [Lock("{key}", ttl=TTL, wait=0)]

    def run(self) -> str:
        Place.inside(self.key, self.context)
        return self.key


class Patient(ShortLived):
    coordination = [Lock("{key}", ttl=TTL, wait=20)]


class PatientPlace(ShortLived):
    coordination = [Semaphore("{key}", limit=2, ttl=TTL, wait=20)]


def _killed_holder(folder: Path) -> None:
    arena = Arena(folder)

    def hold() -> None:
        Place.deeds = lambda context: time.sleep(PATIENCE_SECONDS)
        with arena.runtime():
            ShortLived.call(key="k")

    holder = Child(hold)
    until(arena.witness.lines, "the holder did not enter")
    with arena.runtime():
        # kept alive beyond its ttl for as long as the process lives
        alive_until = time.monotonic() + 3 * TTL
        refused = 0
        while time.monotonic() < alive_until:
            with pytest.raises(LockNotAcquired):
                ShortLived.call(key="k")
            refused += 1
        assert refused > 3
        holder.kill()
        with pytest.raises(LockNotAcquired):
            ShortLived.call(key="k")
        # nobody cleans up after it, and it waits no longer than the holder may be missed
        began = time.monotonic()
        assert Patient.call(key="k") == Success("k")
        waited = time.monotonic() - began
    print(f"free {waited / TTL:.2f} ttl after the kill")
    tokens = [line.token for line in arena.witness.lines() if line.what == "enter"]
    assert tokens == [1, 2]


def test_sc_008_a_killed_holder_frees_its_key_by_its_ttl(tmp_path: Path) -> None:
    alone(_killed_holder, tmp_path)


def _killed_at_random(folder: Path, kills: str) -> None:
    """Processes that go in and out are killed at any moment and replaced."""
    arena = Arena(folder)
    with arena.runtime() as runtime:
        runtime.prepare()

    def go_in_and_out() -> None:
        Place.deeds = hold_for(0.01)
        with arena.runtime():
            while True:
                Patient.call(key="lock")
                PatientPlace.call(key="places")

    killed: dict[int, float] = {}
    children = [Child(go_in_and_out) for _ in range(3)]
    for _ in range(int(kills)):
        time.sleep(random.uniform(0, 0.15))
        victim = children.pop(0)
        victim.kill()
        killed[victim.pid] = time.monotonic()
        children.append(Child(go_in_and_out))
        seen = len(arena.witness.lines())
        until(lambda seen=seen: len(arena.witness.lines()) > seen + 4, "nobody gets in any more")
    for child in children:
        child.kill()
    lines = arena.witness.lines()
    most = most_at_once(lines, killed)
    assert most["lock"] == 1
    assert most["places"] <= 2
    tokens = [line.token for line in lines if line.what == "enter" and line.key == "lock"]
    assert tokens == sorted(set(tokens))
    print(f"{kills} kills, {len(tokens)} entries, 0 overlaps")


def test_processes_killed_at_random_leave_no_overlap(tmp_path: Path) -> None:
    alone(_killed_at_random, tmp_path, "6")


@pytest.mark.slow
def test_two_hundred_processes_killed_at_random_leave_no_overlap(tmp_path: Path) -> None:
    alone(_killed_at_random, tmp_path, "200", patience=900)


class Ledger:
    """Something outside that takes writes with a fencing token, and refuses a lower one."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @contextlib.contextmanager
    def _open(self) -> Iterator[list[int]]:
        file = os.open(self._path, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            found = [int(line) for line in os.read(file, 1 << 20).split()]
            yield found
            os.lseek(file, 0, os.SEEK_SET)
            os.write(file, "\n".join(map(str, found)).encode())
        finally:
            os.close(file)

    def write(self, token: int) -> bool:
        with self._open() as tokens:
            if tokens and token < tokens[-1]:
                return False
            tokens.append(token)
            return True


class Fenced(Step):
    """Writes to the ledger after a while, under its token."""

    folder: str

    coordination = [Lock("ledger", ttl=TTL, wait=20)]
    retry = Retry(max_attempts=2, base_delay=0)

    def run(self) -> int:
        (hold,) = self.context.holds
        folder = Path(self.folder)
        first = not (folder / "inside").exists()
        (folder / "inside").touch()
        if first:
            until((folder / "gate").exists, "the gate was not opened")
            until(lambda: self.context.cancelled, "the step was not told that its hold is lost")
            taken = Ledger(folder / "ledger").write(hold.token)
            (folder / "stale").write_text(f"{hold.token} {taken}")
            return hold.token
        assert Ledger(folder / "ledger").write(hold.token)
        return hold.token


class FencedRun(Reactor):
    folder: str

    work = step(Fenced)


def _stopped_holder(folder: Path) -> None:
    arena = Arena(folder)
    done = folder / "done"

    def hold() -> None:
        with arena.runtime():
            result = FencedRun.run(folder=str(folder))
            assert isinstance(result, Success)
            done.write_text(str(result.value))

    holder = Child(hold)
    until((folder / "inside").exists, "the step did not begin")
    holder.signal(signal.SIGSTOP)
    with arena.runtime():
        # the hold lapses, as nobody renews it, and another gets in
        second = FencedRun.run(folder=str(folder))
    assert isinstance(second, Success)
    (folder / "gate").touch()
    holder.signal(signal.SIGCONT)
    holder.join()
    # told, refused outside, failed with HoldLost, tried again under a new token
    stale, taken = (folder / "stale").read_text().split()
    assert (int(stale), taken) == (1, "False")
    assert second.value == 2
    assert int(done.read_text()) == 3
    assert (folder / "ledger").read_text().split() == ["2", "3"]
    with arena.runtime() as runtime:
        by_result = {run.result: run for run in runs(runtime=runtime)}
        (attempted,) = by_result[Success(3)].steps()
        assert attempted.attempts == 2
        (retried,) = [e for e in by_result[Success(3)].trace if e.kind == "step.retrying"]
        assert "'ledger' lapsed while the work ran" in str(retried.data["error"])


def test_a_stopped_holder_is_told_and_refused(tmp_path: Path) -> None:
    alone(_stopped_holder, tmp_path)


def _ordered_with_kills(folder: Path, dose: str, patience: str) -> None:
    """Workers die in the middle of turns; who takes a run up keeps its place."""
    arena = Arena(folder, lease=0.4, sweep=0.2)
    with arena.runtime() as runtime:
        runtime.prepare()
    Place.deeds = hold_for(0.02)
    workers = [arena.worker(2) for _ in range(2)]
    killed: dict[int, float] = {}
    with arena.runtime() as runtime:
        for number in range(int(dose)):
            InOrder.run(key="k", number=number)
        for _ in range(int(dose) // 10):
            seen = len(arena.witness.lines())
            until(
                lambda seen=seen: (
                    len(arena.witness.lines()) > seen + 3
                    or not list(runtime.gates.store.sequence("k"))
                ),
                "the sequence stands still",
            )
            victim = workers.pop(0)
            victim.kill()
            killed[victim.pid] = time.monotonic()
            workers.append(arena.worker(2))
        all_over(runtime, float(patience))
        assert {run.status for run in runs(runtime=runtime)} == {RunStatus.COMPLETED}
        assert not list(runtime.gates.store.sequence_keys())
    end(*workers)
    lines = arena.witness.lines()
    assert most_at_once(lines, killed) == {"k": 1}
    order = [int(each.who) for each in lines if each.what == "number"]
    # one whose process died may be seen twice, but never behind a later one
    assert order == sorted(order)
    assert set(order) == set(range(int(dose)))


def test_ordered_locks_keep_the_order_when_workers_die(tmp_path: Path) -> None:
    alone(_ordered_with_kills, tmp_path, "30", "30")


@pytest.mark.slow
def test_ordered_locks_keep_the_order_when_many_workers_die(tmp_path: Path) -> None:
    alone(_ordered_with_kills, tmp_path, "400", "600", patience=900)
