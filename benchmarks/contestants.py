"""One contestant, in a process of its own: `python -m benchmarks.contestants NAME …`.

Each does the same: a run of five steps that hand a number on, recorded in an SQLite file in WAL
mode. The last line printed is a JSON object with the seconds of wall clock and of CPU per run.
"""

# The peer is an extra: types are checked with and without it installed.
# pyright: reportMissingImports=false

from __future__ import annotations

import argparse
import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from benchmarks.measure import Stopwatch, stopwatch

STEPS = 5
Synchronous = Literal["FULL", "NORMAL"]


def main() -> None:
    """Measure the contestant named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=sorted(CONTESTANTS))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--synchronous", choices=["FULL", "NORMAL"], required=True)
    parser.add_argument("--runs", type=int, required=True)
    parser.add_argument("--warm-up", type=int, default=20, help="runs before the measured ones")
    given = parser.parse_args()
    with CONTESTANTS[given.name](given.folder, given.synchronous) as run_once:
        for _ in range(given.warm_up):
            run_once()
        with stopwatch() as watch:
            for _ in range(given.runs):
                run_once()
    print(json.dumps(_per_run(watch, given.runs)))


def _per_run(watch: Stopwatch, runs: int) -> dict[str, float]:
    return {"wall": watch.wall / runs, "cpu": watch.cpu / runs}


@contextmanager
def bare_commits(folder: Path, synchronous: Synchronous) -> Iterator[Callable[[], None]]:
    """Commit seven times one row: the run's creation, its five steps, its end."""
    connection = sqlite3.connect(folder / "bare.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA synchronous = {synchronous}")
    connection.execute("CREATE TABLE runs (id INTEGER PRIMARY KEY, status TEXT, value TEXT)")
    connection.execute(
        "CREATE TABLE steps (run_id INTEGER, step INTEGER, value TEXT, PRIMARY KEY (run_id, step))"
        " WITHOUT ROWID"
    )

    def run_once() -> None:
        run_id = connection.execute("INSERT INTO runs (status) VALUES ('running')").lastrowid
        for number in range(STEPS):
            connection.execute(
                "INSERT INTO steps (run_id, step, value) VALUES (?, ?, ?)",
                (run_id, number, str(number + 1)),
            )
        connection.execute("UPDATE runs SET status = 'completed' WHERE id = ?", (run_id,))

    yield run_once
    connection.close()


@contextmanager
def calandria(folder: Path, synchronous: Synchronous) -> Iterator[Callable[[], None]]:
    """Run a reactor of five function steps."""
    from benchmarks.reactors import FiveSteps
    from calandria import Runtime, Settings

    settings = Settings(sqlite_synchronous=synchronous)
    with Runtime(storage=f"sqlite:///{folder / 'calandria.db'}", settings=settings):

        def run_once() -> None:
            if not FiveSteps.run(number=0).ok:
                raise RuntimeError("the benchmark's run failed")

        yield run_once


@contextmanager
def dbos(folder: Path, synchronous: Synchronous) -> Iterator[Callable[[], None]]:
    """Run a DBOS workflow of five steps, on the same journal mode and durability."""
    from dbos import DBOS
    from sqlalchemy import Engine, event

    def same_settings(connection: sqlite3.Connection, _record: object) -> None:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {synchronous}")

    event.listen(Engine, "connect", same_settings)
    DBOS(
        config={
            "name": "benchmark",
            "system_database_url": f"sqlite:///{folder / 'dbos.db'}",
            "log_level": "ERROR",
        }
    )

    @DBOS.step()
    def add_one(number: int) -> int:
        return number + 1

    @DBOS.workflow()
    def five_steps(number: int) -> int:
        for _ in range(STEPS):
            number = add_one(number)
        return number

    def run_once() -> None:
        if five_steps(0) != STEPS:
            raise RuntimeError("the benchmark's workflow failed")

    DBOS.launch()
    yield run_once
    DBOS.destroy()


CONTESTANTS = {"bare": bare_commits, "calandria": calandria, "dbos": dbos}


if __name__ == "__main__":
    main()
