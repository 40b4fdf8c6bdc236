"""What `import calandria` costs in time and memory: `python -m benchmarks.import_cost`.

Beside `import dbos`. What running takes is loaded when the first run needs it, and has a row of
its own. Each import happens in a fresh interpreter, taking turns; the best of the
rounds counts. The memory of an interpreter that imports nothing is measured too, and taken off.
"""

from __future__ import annotations

import json

from benchmarks import measure

Figures = dict[str, dict[str, float]]

NOTHING = "sys"  # always loaded: stands for the bare interpreter
CONTESTANTS = {
    "calandria": "import calandria",
    "calandria.runtime.runtime": "the same, ready to run",
    "dbos": "import dbos",
}
HEADER = ("", "ms", "of dbos", "MiB", "of dbos")


def main() -> None:
    """Measure and print."""
    given = measure.options(__doc__ or "")
    measure.require_peer()
    found = compare(rounds=3 if given.quick else 15)
    if given.json:
        print(json.dumps({"environment": measure.environment(), "import_cost": found}))
        return
    measure.show("Import (budget: at most a third of DBOS)", HEADER, _rows(found))


def compare(rounds: int) -> Figures:
    """Return the best seconds and MiB of each import, the bare interpreter's memory taken off."""
    found: Figures = {}
    for _ in range(rounds):
        for module in (NOTHING, *CONTESTANTS):
            sample = measure.in_process("benchmarks.import_probe", module)
            best = found.setdefault(module, sample)
            found[module] = {what: min(best[what], sample[what]) for what in best}
    bare = found.pop(NOTHING)["mebibytes"]
    for figures in found.values():
        figures["mebibytes"] -= bare
    return found


def _rows(found: Figures) -> list[list[str]]:
    peer = found["dbos"]
    return [
        [
            CONTESTANTS[name],
            f"{figures['seconds'] * 1e3:.0f}",
            f"{figures['seconds'] / peer['seconds']:.2f}",
            f"{figures['mebibytes']:.1f}",
            f"{figures['mebibytes'] / peer['mebibytes']:.2f}",
        ]
        for name, figures in found.items()
    ]


if __name__ == "__main__":
    main()
