"""What a run of five steps that do nothing costs: `python -m benchmarks.step_overhead`.

Beside seven bare one-row commits to an SQLite file (create, five steps, finish) and beside DBOS
doing the same five steps on SQLite, all in WAL mode, with `synchronous` FULL and NORMAL. The
contestants take turns, each in a process and a file of its own; the best of the rounds counts.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence

from benchmarks import measure

Figures = dict[str, dict[str, float]]

CONTESTANTS = {"bare": 1.0, "calandria": 1.0, "dbos": 0.2}
"""Which share of the dose each is given: DBOS is slow enough to be measured by fewer runs."""

BUDGETS = {
    "FULL": "calandria within 2x of the bare commits, CPU under 1.2 ms",
    "NORMAL": "calandria at least 10x the runs per second of DBOS, CPU under 1.2 ms",
}


def main() -> None:
    """Measure and print."""
    given = measure.options(__doc__ or "")
    measure.require_peer()
    runs, rounds = (200, 1) if given.quick else (1500, 3)
    found = {setting: compare(setting, runs, rounds) for setting in BUDGETS}
    if given.json:
        print(json.dumps({"environment": measure.environment(), "step_overhead": found}))
        return
    for setting, figures in found.items():
        title = f"Five no-op steps, WAL/{setting} (budget: {BUDGETS[setting]})"
        measure.show(title, HEADER, _rows(figures))


def compare(setting: str, runs: int, rounds: int) -> Figures:
    """Return, for each contestant, its best seconds of wall clock and of CPU per run."""
    samples: dict[str, list[dict[str, float]]] = {name: [] for name in CONTESTANTS}
    for _ in range(rounds):
        for name, share in CONTESTANTS.items():
            samples[name].append(_measure(name, setting, max(int(runs * share), 20)))
    return {name: _best(taken) for name, taken in samples.items()}


def _measure(name: str, setting: str, runs: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="calandria-bench-") as folder:
        arguments = (name, folder, "--synchronous", setting, "--runs", str(runs))
        return measure.in_process("benchmarks.contestants", *arguments)


def _best(samples: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {what: min(sample[what] for sample in samples) for what in ("wall", "cpu")}


HEADER = ("", "ms per run", "CPU ms per run", "runs per second", "x bare", "speed of DBOS")


def _rows(figures: Figures) -> list[list[str]]:
    bare, peer = figures["bare"]["wall"], figures["dbos"]["wall"]
    return [
        [
            {"bare": "7 bare commits"}.get(name, name),
            f"{figure['wall'] * 1e3:.2f}",
            f"{figure['cpu'] * 1e3:.2f}",
            f"{1 / figure['wall']:,.0f}",
            f"{figure['wall'] / bare:.2f}x",
            f"{peer / figure['wall']:.1f}x",
        ]
        for name, figure in figures.items()
    ]


if __name__ == "__main__":
    main()
