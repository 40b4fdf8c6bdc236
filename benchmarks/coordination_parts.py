"""One part of `coordination`, in a process of its own; the last line printed is a JSON object."""

from __future__ import annotations

import json
import multiprocessing
import sqlite3
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from itertools import groupby
from multiprocessing.synchronize import Barrier
from pathlib import Path

from benchmarks import measure, reactors
from benchmarks.coordination_bare import bare, take
from benchmarks.coordination_reactors import DOING, Locked, Next, NextInWorker
from calandria import Result, Runtime, Settings, Success
from calandria.ports.coordination import CoordinationStore
from calandria.storage.sql.sqlite import SqliteDatabase
from calandria.storage.sql.store import SqlRunStore

SETTINGS = Settings(sqlite_synchronous="NORMAL", snooze_base_delay=600, snooze_jitter=0)
CONTENDERS = 4
TABLES = ("holds", "fences", "windows", "marks", "sequences", "positions", "waiters")


def main() -> None:
    """Do the part named on the command line: FOLDER PART WHAT TIMES."""
    folder, part, what, times = sys.argv[1:]
    print(json.dumps(PARTS[part](Path(folder), what, int(times))))


# contending


def contend(folder: Path, keys: str, times: int) -> dict[str, float]:
    """Have four processes call a locked step; return entries per second, and the longest row."""
    with _runtime(folder) as runtime:
        runtime.prepare()
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(CONTENDERS)
    with ProcessPoolExecutor(
        CONTENDERS, mp_context=context, initializer=_meet_at, initargs=(barrier,)
    ) as pool:
        arguments = (str(folder), int(keys), times // CONTENDERS)
        # each waits for all at the barrier, so no process can be two of them
        started = [pool.submit(_contend, number, *arguments) for number in range(CONTENDERS)]
        entries = sorted(entry for each in started for entry in each.result())
    took = entries[-1][0] - entries[0][0]
    rows = [len(list(row)) for _, row in groupby(entries, key=lambda entry: entry[1])]
    return {"rate": len(entries) / took, "in_a_row": float(max(rows))}


class Line:
    """Where the contenders of this process wait for one another."""

    barrier: Barrier


def _meet_at(barrier: Barrier) -> None:
    Line.barrier = barrier


def _contend(number: int, folder: str, keys: int, times: int) -> list[tuple[float, int]]:
    with _runtime(Path(folder)):
        Line.barrier.wait(30)
        return [
            (_inside(Locked.call(key=f"k{(entry * CONTENDERS + number) % keys}")), number)
            for entry in range(times)
        ]


# handing over


def handover(folder: Path, where: str, times: int) -> dict[str, float]:
    """Return the seconds from a release to the entry of who waited for it."""
    waits = {"here": _here, "there": _there, "worker": _in_worker}[where](folder, times)
    waits.sort()
    return {
        "median": statistics.median(waits),
        "p95": waits[int(len(waits) * 0.95)],
        "longest": waits[-1],
    }


def _here(folder: Path, times: int) -> list[float]:
    found: list[float] = []
    with _runtime(folder):
        for _ in range(times):
            waiter = threading.Thread(target=lambda: found.append(_enter()))
            _hold_until(waiter.start, found)
            waiter.join()
    return _gaps(found)


def _there(folder: Path, times: int) -> list[float]:
    found: list[float] = []
    with _runtime(folder) as runtime:
        runtime.prepare()
        with _other(folder, "waiter") as other:
            for _ in range(times):
                _hold_until(lambda: _tell(other, "enter"), found)
                found.append(float(_hear(other)))
    return _gaps(found)


def _in_worker(folder: Path, times: int) -> list[float]:
    found: list[float] = []
    with _runtime(folder) as runtime:
        runtime.prepare()
        with _other(folder, "worker"):
            for _ in range(times):
                ids: list[str] = []

                def dispatch(ids: list[str] = ids) -> None:
                    ids.append(str(NextInWorker.run(key="k").run_id))

                _hold_until(dispatch, found, until=lambda: bool(_waiting(runtime)))
                found.append(_inside(runtime.find(ids[0]).wait(30)))
    return _gaps(found)


def _waiting(runtime: Runtime) -> int:
    coordination: CoordinationStore = runtime.store.coordination  # type: ignore[attr-defined]
    return len(coordination.waiters())


def _hold_until(
    start: Callable[[], object], found: list[float], until: Callable[[], bool] | None = None
) -> None:
    """Hold the key, have someone wait for it, and note when it is let go of."""

    def inside() -> None:
        start()
        time.sleep(0.02)  # what waits has settled into waiting
        while until is not None and not until():
            time.sleep(0.005)
        found.append(time.perf_counter())

    DOING.inside = inside
    try:
        Locked.call(key="k")
    finally:
        DOING.inside = None


def _enter() -> float:
    return _inside(Next.call(key="k"))


def _inside(result: Result[float] | None) -> float:
    if not isinstance(result, Success):
        raise RuntimeError(f"did not get in: {result}")
    return result.value


def _gaps(found: list[float]) -> list[float]:
    found.sort()
    return [after - before for before, after in zip(found[::2], found[1::2], strict=True)]


def serve(folder: Path, role: str, _: int) -> dict[str, float]:
    """Be the other process: one that waits for the key when told, or a worker."""
    with _runtime(folder) as runtime:
        worker = runtime.start_worker(1) if role == "worker" else None
        print("ready", flush=True)
        for line in sys.stdin:
            if line.strip() == "enter":
                print(_enter(), flush=True)
        if worker is not None:
            worker.stop()
    return {}


@contextmanager
def _other(folder: Path, role: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.coordination_parts", str(folder), "serve", role, "0"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=measure.ROOT,
    )
    _hear(process)
    try:
        yield process
    finally:
        process.communicate(timeout=30)


def _tell(process: subprocess.Popen[str], word: str) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{word}\n")
    process.stdin.flush()


def _hear(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


# statements


class CountedDatabase(SqliteDatabase):
    """Notes every statement that SQLite is given."""

    def __init__(self, path: Path) -> None:
        super().__init__("counted", str(path), synchronous="NORMAL")
        self.made: list[str] = []

    def _open(self) -> sqlite3.Connection:
        connection = super()._open()
        connection.set_trace_callback(self.made.append)
        return connection


def statements(folder: Path, _: str, __: int) -> dict[str, float]:
    """Count the statements of a run of five steps that coordinates nothing."""
    database = CountedDatabase(folder / "counted.db")
    with Runtime(SqlRunStore(database), settings=Settings(lease_ttl=600)):
        reactors.FiveSteps.run(number=0)
        database.made.clear()
        reactors.FiveSteps.run(number=0)
    about = [each for each in database.made if any(f"calandria_{name}" in each for name in TABLES)]
    return {"all": len(database.made), "keys": len(about)}


def _runtime(folder: Path) -> Runtime:
    return Runtime(_url(folder), settings=SETTINGS)


def _url(folder: Path) -> str:
    return f"sqlite:///{folder / 'runs.db'}"


PARTS: dict[str, Callable[[Path, str, int], dict[str, float]]] = {
    "take": take,
    "bare": bare,
    "contend": contend,
    "handover": handover,
    "serve": serve,
    "statements": statements,
}


if __name__ == "__main__":
    main()
