"""Whether a step's cost grows with the run or with the file: `python -m benchmarks.long_run`.

A run of 10,000 steps, as a chain of steps and as a map: the cost of its first and last hundred
steps, and its memory. Then runs per second in an empty file beside one with 100,000 finished runs.
Each figure comes from a process of its own; the best of the rounds counts.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator

from benchmarks import measure

Figures = dict[str, dict[str, float]]

SHAPES = ("chain", "map")
LONG_HEADER = ("", "steps", "first 100", "last 100", "ratio", "memory before", "peak", "per step")
CROWDED_HEADER = ("finished runs in the file", "ms per run", "runs per second", "ratio")


def main() -> None:
    """Measure and print."""
    given = measure.options(__doc__ or "")
    scale, rounds = (10, 1) if given.quick else (1, 3)
    long = {shape: _long(shape, 10_000 // scale, rounds) for shape in SHAPES}
    crowded = _crowded([0, 100_000 // scale], 1_500 // scale, rounds)
    if given.json:
        found = {"long_run": long, "crowded_file": crowded}
        print(json.dumps({"environment": measure.environment(), **found}))
        return
    measure.show("A long run, WAL/NORMAL (budget: ratio 1.3)", LONG_HEADER, list(_long_rows(long)))
    measure.show(
        "A crowded file, WAL/NORMAL (budget: ratio 1.2)",
        CROWDED_HEADER,
        list(_crowded_rows(crowded)),
    )


def _long(shape: str, steps: int, rounds: int) -> dict[str, float]:
    best: dict[str, float] = {}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory(prefix="calandria-bench-") as folder:
            arguments = (folder, "long", shape, str(steps))
            sample = measure.in_process("benchmarks.long_run_parts", *arguments)
        best = {what: min(value, best.get(what, value)) for what, value in sample.items()}
    return best


def _crowded(crowds: list[int], runs: int, rounds: int) -> Figures:
    """Measure in turns, so that a change of the machine's mood meets both."""
    found: Figures = {}
    with tempfile.TemporaryDirectory(prefix="calandria-bench-") as folder:
        for crowd in crowds:
            measure.in_process("benchmarks.long_run_parts", folder, "fill", str(crowd))
        for _ in range(rounds):
            for crowd in crowds:
                arguments = (folder, "crowded", str(crowd), str(runs))
                sample = measure.in_process("benchmarks.long_run_parts", *arguments)
                best = found.setdefault(str(crowd), sample)
                found[str(crowd)] = {what: min(best[what], sample[what]) for what in best}
    return found


def _long_rows(found: Figures) -> Iterator[list[str]]:
    for shape, figures in found.items():
        grown = figures["peak"] - figures["before"]
        yield [
            shape,
            f"{figures['steps']:,.0f}",
            f"{figures['first'] * 1e6:.0f} µs",
            f"{figures['last'] * 1e6:.0f} µs",
            f"{figures['last'] / figures['first']:.2f}x",
            f"{figures['before']:.0f} MiB",
            f"{figures['peak']:.0f} MiB",
            f"{grown * 1024 / figures['steps']:.1f} KiB",
        ]


def _crowded_rows(found: Figures) -> Iterator[list[str]]:
    empty = next(iter(found.values()))["wall"]
    for crowd, figures in found.items():
        yield [
            f"{int(crowd):,}",
            f"{figures['wall'] * 1e3:.2f}",
            f"{1 / figures['wall']:,.0f}",
            f"{figures['wall'] / empty:.2f}x",
        ]


if __name__ == "__main__":
    main()
