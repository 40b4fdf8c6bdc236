"""What coordination costs: `python -m benchmarks.coordination`.

Each primitive taken and let go of on an SQLite file in WAL mode, with `synchronous` FULL and
NORMAL, beside the bare statements that it needs; four processes that contend for one key, and that
use a thousand; how long a key takes from one holder to the next; and how many statements a run
makes that coordinates nothing. The last three with NORMAL: not the disk is what is measured.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks import measure

PARTS = "benchmarks.coordination_parts"
PRIMITIVES = ("lock", "semaphore", "rate limit", "period", "ordered lock")
CONTENDERS = 4

Figures = dict[str, float]


def main() -> None:
    """Measure and print."""
    given = measure.options(__doc__ or "")
    scale, rounds = (10, 1) if given.quick else (1, 3)
    costs = {
        setting: {name: cost(name, setting, 3000 // scale, rounds) for name in PRIMITIVES}
        for setting in ("FULL", "NORMAL")
    }
    shared = {keys: throughput(keys, 2000 // scale, rounds) for keys in (1, 1000)}
    latencies = {where: _part("handover", where, 300 // scale) for where in WHERES}
    statements = _part("statements", "", 0)
    if given.json:
        all_ = {"costs": costs, "throughput": shared, "handover": latencies, "made": statements}
        print(json.dumps({"environment": measure.environment(), "coordination": all_}))
        return
    for setting, found in costs.items():
        title = f"Take and let go, WAL/{setting} (budget: within 2x of the bare statements)"
        measure.show(title, COST_HEADER, [_cost_row(name, each) for name, each in found.items()])
    title = f"{CONTENDERS} processes, each call one step under a lock"
    measure.show(title, SHARED_HEADER, [_shared_row(keys, each) for keys, each in shared.items()])
    title = "From one holder's release to the next one's entry (budget: median under 5 ms here)"
    measure.show(title, HANDOVER_HEADER, [_latency_row(w, each) for w, each in latencies.items()])
    title = "Statements of a run of five steps without coordination"
    row = [f"{statements['all']:.0f}", f"{statements['keys']:.0f}"]
    measure.show(title, ("all", "about coordination"), [row])


def cost(primitive: str, setting: str, times: int, rounds: int) -> Figures:
    """Return the best seconds per entry of the store, and of the bare statements."""
    found: list[Figures] = []
    for _ in range(rounds):
        what = f"{primitive}/{setting}"
        ours, bare = _part("take", what, times), _part("bare", what, times)
        found.append({"ours": ours["wall"], "bare": bare["wall"]})
    return {name: min(each[name] for each in found) for name in ("ours", "bare")}


def throughput(keys: int, times: int, rounds: int) -> Figures:
    """Return the most entries per second of all contenders, and the share of the busiest."""
    found = [_part("contend", str(keys), times) for _ in range(rounds)]
    return max(found, key=lambda each: each["rate"])


def _part(part: str, what: str, times: int) -> Figures:
    with tempfile.TemporaryDirectory(prefix="calandria-bench-") as folder:
        return measure.in_process(PARTS, str(Path(folder)), part, what, str(times))


WHERES = {
    "here": "threads of one process",
    "there": "processes, in the caller's (looks again within 0.1 s)",
    "worker": "a run parked in a worker of another process (woken)",
}

COST_HEADER = ("", "entries per second", "us per entry", "bare us", "x bare")
SHARED_HEADER = ("", "entries per second", "most in a row by one process")
HANDOVER_HEADER = ("", "median ms", "95th percentile ms", "longest ms")


def _cost_row(name: str, figures: Figures) -> Sequence[str]:
    ours, bare = figures["ours"], figures["bare"]
    return [
        name,
        f"{1 / ours:,.0f}",
        f"{ours * 1e6:.0f}",
        f"{bare * 1e6:.0f}",
        f"{ours / bare:.2f}x",
    ]


def _shared_row(keys: int, figures: Figures) -> Sequence[str]:
    name = "one key" if keys == 1 else f"{keys:,} keys"
    return [name, f"{figures['rate']:,.0f}", f"{figures['in_a_row']:.0f}"]


def _latency_row(where: str, figures: Figures) -> Sequence[str]:
    return [WHERES[where], *(f"{figures[name] * 1e3:.2f}" for name in ("median", "p95", "longest"))]


if __name__ == "__main__":
    main()
