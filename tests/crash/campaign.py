"""One scenario, killed again and again: `python -m tests.crash.campaign NAME --kills 12`.

Each round starts the scenario in a process that is killed at some point, takes the run up in
others that may be killed too, lets the last one finish, and checks what came of it against the
step log and against the same scenario uninterrupted.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from calandria import runs
from tests.crash import scenarios
from tests.crash.checks import Outcome, check
from tests.crash.killing import Ended, KillPoint, Place, in_process
from tests.crash.scenarios import SCENARIOS, Scenario
from tests.crash.steplog import Line, read_log


@dataclass
class Tally:
    """What a campaign did."""

    rounds: int = 0
    kills: int = 0
    repeated: int = 0


class Campaign:
    """Kills one scenario again and again."""

    def __init__(self, name: str, folder: Path) -> None:
        self._name = name
        self._scenario: Scenario = SCENARIOS[name]
        self._folder = folder
        self.tally = Tally()
        self.reference, self.whole = self._uninterrupted()

    def _uninterrupted(self) -> tuple[Outcome, Ended]:
        place = self._new_place("reference")
        ended = in_process(place, 0, None, self._work)
        return self._check(place, 1, None), ended

    def points(self) -> list[KillPoint]:
        """Return every point at which a commit or an action could be cut off."""
        commits = [
            KillPoint(where, number + 1)
            for number in range(self.whole.commits)
            for where in ("before", "after")
        ]
        return commits + [KillPoint("line", number + 1) for number in range(self.whole.lines)]

    def round(self, point: KillPoint, chance: random.Random) -> None:
        """Kill once at `point`, then perhaps the processes that take the run up, and check."""
        place = self._new_place(f"round-{self.tally.rounds}")
        history = [str(point)]
        try:
            ended = in_process(place, 0, point, self._work)
            generation = 0
            while ended.killed:
                self.tally.kills += 1
                generation += 1
                again = self._another(chance) if generation <= chance.randrange(4) else None
                history.append(str(again))
                ended = in_process(place, generation, again, self._work)
            self._check(place, generation + 1, self.reference)
        except AssertionError as error:
            log = "\n".join(str(line) for line in read_log(place.log))
            raise AssertionError(
                f"{self._name}, killed at {', then '.join(history)}: {error}\n{log}"
            ) from error
        self.tally.rounds += 1
        shutil.rmtree(place.folder)

    def _another(self, chance: random.Random) -> KillPoint:
        if chance.random() < 0.3:
            return self.any_time(chance)
        where = chance.choice(["before", "after", "line"])
        most = self.whole.lines if where == "line" else self.whole.commits
        return KillPoint(where, 1 + int(most * chance.random() ** 2))

    def any_time(self, chance: random.Random) -> KillPoint:
        return KillPoint("time", chance.uniform(0, self.whole.seconds))

    def _work(self) -> None:
        self._scenario.start()
        for run in list(runs()):
            scenarios.by_hand(self._scenario, run)

    def _check(self, place: Place, generation: int, reference: Outcome | None) -> Outcome:
        with place.runtime(place.store(generation)) as runtime:
            (run,) = runs(runtime=runtime)
            log = read_log(place.log)
            self._count_repeats(log)
            return check(run, runtime, log, reference, self._scenario.same_steps)

    def _count_repeats(self, log: list[Line]) -> None:
        begins = [(line.path, line.action, line.attempt) for line in log if line.what == "begin"]
        self.tally.repeated += len(begins) - len(set(begins))

    def _new_place(self, name: str) -> Place:
        folder = self._folder / name
        folder.mkdir()
        return Place(folder)


def run_campaign(name: str, kills: int | None, times: int, seed: int) -> Tally:
    """Kill at `kills` of the points (`None`: at each), and at `times` random moments."""
    chance = random.Random(f"{name} {seed}")
    with tempfile.TemporaryDirectory(prefix="calandria-crash-") as folder:
        campaign = Campaign(name, Path(folder))
        points = campaign.points()
        if kills is not None:
            points = chance.sample(points, min(kills, len(points)))
        points += [campaign.any_time(chance) for _ in range(times)]
        for point in points:
            campaign.round(point, chance)
        return campaign.tally


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=[])
    parser.add_argument("--kills", type=int, help="at how many points; at each without")
    parser.add_argument("--times", type=int, default=0, help="at how many random moments besides")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    for name in given.names or SCENARIOS:
        try:
            tally = run_campaign(name, given.kills, given.times, given.seed)
        except AssertionError as error:
            print(f"FAILED (seed {given.seed}): {error}", flush=True)
            sys.exit(1)
        print(
            f"{name}: {tally.rounds} runs, {tally.kills} kills, {tally.repeated} actions repeated",
            flush=True,
        )


if __name__ == "__main__":
    main()
