"""Background work through one worker of four threads: `python -m benchmarks.background`.

Beside DBOS queues on an SQLite file of the same journal mode and durability (WAL/FULL), and beside
a chain of five Celery tasks on Redis where there is a server (CALANDRIA_BENCH_REDIS). Runs are
enqueued by another process than the worker's. The contestants take turns; the best of the rounds
counts.
"""

# The peers are extras: types are checked with and without them installed.
# pyright: reportMissingImports=false

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from benchmarks import measure

Figures = dict[str, float]

PARTS = "benchmarks.background_parts"
LEAVING = 30.0
"""Seconds that a worker has to end."""


def main() -> None:
    """Measure and print."""
    given = measure.options(__doc__ or "")
    measure.require_peer()
    scale, rounds = (10, 1) if given.quick else (1, 3)
    names = ["calandria", "dbos", *_celeries()]
    found = {name: compare(name, 1000 // scale, 200 // scale) for name in names}
    for _ in range(rounds - 1):
        for name in names:
            _keep_best(found[name], compare(name, 1000 // scale, 200 // scale))
    beside = _best_ratio([enqueueing(1000 // scale) for _ in range(rounds)])
    crowd = 100_000 // scale, 10_000 // scale
    empty, full = crowded([(0, 0), crowd], 1000 // scale, rounds)
    if given.json:
        everything = {"background": found, "enqueueing": beside, "empty": empty, "crowded": full}
        print(json.dumps({"environment": measure.environment(), **everything}))
        return
    title = "Background work, WAL/FULL, one worker of 4 threads"
    measure.show(title, HEADER, [_row(name, figures) for name, figures in found.items()])
    _show_enqueueing(beside)
    _show_crowded(empty, full, crowd)


def compare(name: str, runs: int, samples: int) -> Figures:
    """Measure one contestant: throughput, latencies and what it costs when it is idle."""
    with _folder() as folder, _worker(name, folder) as process:
        rates = _part(name, folder, "throughput", runs)
        across = _part(name, folder, "latency", samples)
        idle = _idle_cpu(process.pid, 5.0)
    found = {
        "performed": rates["performed"],
        "enqueued": rates["enqueued"],
        "across": across["median"],
        "across_p95": across["p95"],
        "idle": idle,
    }
    if not name.startswith("celery"):
        with _folder() as folder:
            here = _part(name, folder, "latency_here", samples)
        found |= {"here": here["median"], "here_p95": here["p95"]}
    return found


def enqueueing(runs: int) -> Figures:
    """Return the seconds that enqueuing takes alone, and beside a worker that it keeps busy."""
    with _folder() as folder:
        alone = _part("calandria", folder, "enqueue", runs)
        for _ in range(3):  # so that the worker is busy for longer than the next takes
            _part("calandria", folder, "enqueue", runs)
        with _worker("calandria", folder):
            beside = _part("calandria", folder, "enqueue_beside", runs)
    return {"alone": alone["seconds"], "beside": beside["seconds"]}


def crowded(crowds: Sequence[tuple[int, int]], runs: int, rounds: int) -> list[Figures]:
    """Measure dispatch, in turns, in storages with that many finished and parked runs."""
    with contextlib.ExitStack() as stack:
        folders = [stack.enter_context(_folder()) for _ in crowds]
        for folder, crowd in zip(folders, crowds, strict=True):
            _part("calandria", folder, "fill", *crowd)
        found = [_dispatch(folder, runs) for folder in folders]
        for _ in range(rounds - 1):
            for best, folder in zip(found, folders, strict=True):
                _keep_best(best, _dispatch(folder, runs))
        return found


def _dispatch(folder: Path, runs: int) -> Figures:
    with _worker("calandria", folder):
        rates = _part("calandria", folder, "throughput", runs)
        across = _part("calandria", folder, "latency", max(runs // 5, 20))
    return {"performed": rates["performed"], "across": across["median"]}


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="calandria-bench-") as folder:
        yield Path(folder)


@contextmanager
def _worker(name: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", PARTS, name, str(folder), "work"]
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(command, cwd=measure.ROOT, stdout=quiet, stderr=quiet)
    try:
        # DBOS's client cannot make the tables; the others could enqueue at once
        time.sleep(3.0 if name == "dbos" else 1.0)
        yield process
    finally:
        process.terminate()
        try:
            process.wait(LEAVING)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _part(name: str, folder: Path, part: str, *arguments: int) -> Figures:
    return measure.in_process(PARTS, name, str(folder), part, *map(str, arguments))


def _idle_cpu(process: int, seconds: float) -> float:
    """Return which share of one CPU a worker, its children included, uses; NaN off Linux."""
    time.sleep(1.0)
    before, began = _cpu_seconds(process), time.perf_counter()
    time.sleep(seconds)
    return (_cpu_seconds(process) - before) / (time.perf_counter() - began)


def _cpu_seconds(process: int) -> float:
    if not Path("/proc/self/stat").exists():
        return float("nan")
    ticks: dict[int, float] = {}
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # one that has just ended
            fields = stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            parents[int(stat.parent.name)] = int(fields[1])
            ticks[int(stat.parent.name)] = int(fields[11]) + int(fields[12])
    family = {process}
    while further := {child for child, of in parents.items() if of in family} - family:
        family |= further
    return sum(ticks[one] for one in family) / os.sysconf("SC_CLK_TCK")


def _celeries() -> list[str]:
    """Return the Celery contestants, if Celery is installed and a Redis server answers."""
    if find_spec("celery") is None or find_spec("redis") is None:
        return []
    import redis

    with contextlib.suppress(redis.RedisError):
        redis.Redis.from_url(measure.REDIS_URL).ping()
        return ["celery prefork", "celery threads"]
    return []


def _keep_best(best: Figures, found: Figures) -> None:
    for what, value in found.items():
        better = max if what in ("performed", "enqueued") else min
        best[what] = better(best[what], value)


def _best_ratio(samples: Sequence[Figures]) -> Figures:
    return min(samples, key=lambda sample: sample["beside"] / sample["alone"])


HEADER = (
    "",
    "5-step runs per second",
    "latency across processes, ms (p95)",
    "in one process, ms (p95)",
    "idle, % of a CPU",
)


def _row(name: str, figures: Figures) -> list[str]:
    here = "-"
    if "here" in figures:
        here = f"{figures['here'] * 1e3:.1f} ({figures['here_p95'] * 1e3:.1f})"
    return [
        name,
        f"{figures['performed']:,.0f}",
        f"{figures['across'] * 1e3:.1f} ({figures['across_p95'] * 1e3:.1f})",
        here,
        f"{figures['idle'] * 100:.1f}",
    ]


def _show_enqueueing(beside: Figures) -> None:
    ratio = f"{beside['beside'] / beside['alone']:.2f}x"
    row = [f"{beside['alone'] * 1e3:.0f}", f"{beside['beside'] * 1e3:.0f}", ratio]
    header = ("ms alone", "ms beside a busy worker", "ratio")
    measure.show("Enqueuing from another process, WAL/FULL (budget: 1.5x)", header, [row])


def _show_crowded(empty: Figures, full: Figures, crowd: tuple[int, int]) -> None:
    header = ("storage", "5-step runs per second", "latency across processes, ms")
    names = ("empty", f"{crowd[0]:,} finished and {crowd[1]:,} parked or paused runs")
    rows = [
        [name, f"{figures['performed']:,.0f}", f"{figures['across'] * 1e3:.1f}"]
        for name, figures in zip(names, (empty, full), strict=True)
    ]
    measure.show("A crowded storage, WAL/FULL", header, rows)


if __name__ == "__main__":
    main()
