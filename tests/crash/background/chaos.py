"""Workers and callers killed and stopped at random: `python -m tests.crash.background.chaos`.

Callers start runs of every kind, each under a key, and are started again when they were killed.
When every run is over, each is checked against the step log and an undisturbed run of its kind.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from calandria import RunStatus, Runtime, StaleLease, runs
from tests.crash.background.checks import Tree, tree_of
from tests.crash.background.deeds import Acting, Deed
from tests.crash.background.reactors import KINDS
from tests.crash.background.workshop import Workshop, active, all_over, end, log_to, poll
from tests.crash.children import Child

BATCH = 5
WORKERS = 3
CALLERS = 2


@dataclass
class Tally:
    """What a campaign did."""

    runs: int = 0
    killed: Counter[str] = field(default_factory=Counter)
    stopped: Counter[str] = field(default_factory=Counter)
    units: int = 0
    actions: int = 0
    repeated: int = 0
    refused: int = 0

    def __str__(self) -> str:
        return (
            f"{self.runs} runs and {self.units} spawned units; killed: {dict(self.killed)}; "
            f"stopped past the lease: {dict(self.stopped)}; {self.actions} actions, "
            f"{self.repeated} of them repeats; {self.refused} stale owners refused. Checked: every "
            "run over and equal to an undisturbed one, actions once or cut off and repeated under "
            "one key, undos complete and in order, units dispatched once."
        )


def references(folder: Path) -> dict[str, Tree]:
    """Return what an undisturbed run of each kind comes to."""
    folder.mkdir()
    shop = Workshop(folder, lease=30)
    worker = shop.worker(4)
    caller = Child(lambda: call(shop, list(KINDS)))
    caller.join()
    with shop.runtime() as runtime:
        all_over(runtime)
        end(worker)
        deeds = shop.deeds()
        found = {
            run.idempotency_key: tree_of(run, runtime, deeds, None) for run in runs(runtime=runtime)
        }
    return {name: found[f"0 {name}"] for name in KINDS}


def call(shop: Workshop, kinds: list[str], first: int = 0) -> None:
    """Run some kinds, each under the key that its number makes."""
    with shop.runtime():
        for number, kind in enumerate(kinds):
            reactor, inputs = KINDS[kind]
            key = f"{first and first + number} {kind}"
            try:
                reactor.options(idempotency_key=key).run(**inputs)  # type: ignore[attr-defined]
            except StaleLease:
                # this process was stopped; another one goes on with the run
                continue


class Chaos:
    """One campaign on one database."""

    def __init__(self, folder: Path, count: int, chance: random.Random) -> None:
        folder.mkdir()
        self._shop = Workshop(folder)
        self._chance = chance
        self.kinds = [chance.choice(list(KINDS)) for _ in range(count)]
        self._left = list(range(0, count, BATCH))
        self._workers: list[Child] = []
        self._callers: dict[int, Child] = {}
        self._stopped: dict[int, tuple[Child, float]] = {}
        self._killed: set[int] = set()
        self.tally = Tally(runs=count)

    def play(self, disturbances: int) -> None:
        """Have every run called, with so many processes killed or stopped meanwhile."""
        with self._shop.runtime() as runtime:
            runtime.prepare()
            while self._left or self._callers or disturbances > 0:
                self._staff()
                if disturbances > 0:
                    disturbances -= self._disturb()
                time.sleep(self._chance.uniform(0.01, 0.12))
                self._wake(force=disturbances <= 0)
                self._reap()
                over = not self._left and not self._callers
                if over and disturbances > 0 and not active(runtime):
                    break
            self._staff()
            try:
                all_over(runtime)
            finally:
                self._wake(force=True)
            end(*self._workers)

    def _staff(self) -> None:
        while len(self._workers) < WORKERS:
            self._workers.append(self._shop.worker(2, first=self._prepare))
        while self._left and len(self._callers) < CALLERS:
            first = self._left.pop(0)
            kinds = self.kinds[first : first + BATCH]

            def start(first: int = first, kinds: list[str] = kinds) -> None:
                self._prepare()
                call(self._shop, kinds, first + 1)

            self._callers[first] = Child(start)

    def _prepare(self) -> None:
        Acting.longest_pause = 0.03
        log_to(self._shop.folder / "library.log")

    def _disturb(self) -> int:
        everyone = [("worker", child) for child in self._workers]
        everyone += [("caller", child) for child in self._callers.values()]
        what, child = self._chance.choice(everyone)
        if child.pid in self._stopped or child.pid in self._killed:
            return 0
        if self._chance.random() < 0.75:
            # not waited for here: a killed process may take a while to go
            child.signal(signal.SIGKILL)
            self._killed.add(child.pid)
            self.tally.killed[what] += 1
        else:
            child.signal(signal.SIGSTOP)
            until = time.monotonic() + self._shop.lease * self._chance.uniform(1.2, 2.5)
            self._stopped[child.pid] = child, until
            self.tally.stopped[what] += 1
        return 1

    def _wake(self, *, force: bool = False) -> None:
        for pid, (child, until) in list(self._stopped.items()):
            if force or time.monotonic() >= until:
                del self._stopped[pid]
                child.signal(signal.SIGCONT)

    def _reap(self) -> None:
        for child in list(self._workers):
            code = poll(child)
            if code is not None:
                assert code == -signal.SIGKILL, f"a worker ended with {code}"
                self._workers.remove(child)
        for first, child in list(self._callers.items()):
            code = poll(child)
            if code is not None:
                assert code in (0, -signal.SIGKILL), f"a caller ended with {code}"
                del self._callers[first]
                # it may have ended just before it was to be stopped
                self._stopped.pop(child.pid, None)
                if code:
                    self._left.append(first)

    def abandon(self) -> None:
        """Kill what is left, after a failure."""
        for child in [*self._workers, *self._callers.values()]:
            with contextlib.suppress(ChildProcessError, ProcessLookupError):
                child.kill()

    def check(self, whole: dict[str, Tree]) -> None:
        deeds = self._shop.deeds()
        with self._shop.runtime() as runtime:
            found = {run.idempotency_key: run for run in runs(runtime=runtime)}
            expected = [f"{number + 1} {kind}" for number, kind in enumerate(self.kinds)]
            assert sorted(found, key=str) == sorted(expected), "runs are missing, or too many"
            of_run: dict[str, list[Deed]] = {}
            for deed in deeds:
                of_run.setdefault(deed.run, []).append(deed)
            for key, run in found.items():
                own = [*of_run.get(run.id, [])]
                for unit in run.children:
                    own += of_run.get(unit.id, [])
                tree = tree_of(run, runtime, own, whole[str(key).split()[1]])
                self.tally.units += len(tree.units)
            self._count(deeds, runtime)

    def _count(self, deeds: list[Deed], runtime: Runtime) -> None:
        begun = Counter((d.run, d.path, d.action, d.attempt) for d in deeds if d.what == "begin")
        self.tally.actions = sum(begun.values())
        self.tally.repeated = self.tally.actions - len(begun)
        lines = (self._shop.folder / "library.log").read_text().splitlines()
        self.tally.refused = sum("event=lease.lost" in line for line in lines)
        assert not [one for one in runs(runtime=runtime) if one.status is RunStatus.ABORTED]
        odd = [line for line in lines if "event=worker.failed" in line]
        assert not odd, odd


def run_chaos(count: int, disturbances: int, seed: int) -> Tally:
    """Perform `count` runs amid so many kills and stops, and check them."""
    folder = Path(tempfile.mkdtemp(prefix="calandria-chaos-"))
    whole = references(folder / "reference")
    chaos = Chaos(folder / "chaos", count, random.Random(seed))
    try:
        chaos.play(disturbances)
        chaos.check(whole)
    except BaseException:
        chaos.abandon()
        print(f"seed {seed}; left for inspection: {folder}; so far: {chaos.tally}", flush=True)
        raise
    shutil.rmtree(folder)
    return chaos.tally


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--disturbances", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    try:
        tally = run_chaos(given.runs, given.disturbances, given.seed)
    except AssertionError as error:
        print(f"FAILED (seed {given.seed}): {error}", flush=True)
        sys.exit(1)
    print(tally, flush=True)


if __name__ == "__main__":
    main()
