"""What is not coordinated makes no statement about coordination, wherever it runs."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from calandria import Lock, Reactor, Runtime, Settings, Step, Success, fail, step
from calandria.storage.sql.lease_clock import LeaseClock
from calandria.storage.sql.sqlite import SqliteDatabase
from calandria.storage.sql.store import SqlRunStore

TABLES = ("holds", "fences", "windows", "marks", "sequences", "positions", "waiters")


class TracedDatabase(SqliteDatabase):
    """Notes every statement that SQLite is given."""

    def __init__(self, path: Path, clock: LeaseClock | None = None) -> None:
        super().__init__("traced", str(path), synchronous="OFF", clock=clock)
        self.made: list[str] = []

    def _open(self) -> sqlite3.Connection:
        connection = super()._open()
        connection.set_trace_callback(self.made.append)
        return connection


class Counting(Step):
    fails: bool = False

    def run(self) -> int:
        if self.fails:
            fail("on purpose")
        return 1

    def compensate(self, reason: object) -> None:
        pass

    def undo(self, result: object) -> None:
        pass


class Plain(Reactor):
    fails: bool = False

    first = step(Counting, fails=False)
    second = step(Counting).after(first)


class InWorker(Plain):
    background = True


class Locked(Plain):
    first = step(Counting, fails=False).coordinate(Lock("k"))
    second = step(Counting).after(first)


@pytest.fixture
def database(tmp_path: Path) -> TracedDatabase:
    return TracedDatabase(tmp_path / "runs.db")


def made_by(database: TracedDatabase, work: Callable[[Runtime], object]) -> list[str]:
    with Runtime(SqlRunStore(database), settings=Settings(lease_ttl=600)) as runtime:
        runtime.prepare()
        Plain.run(fails=False)
        database.made.clear()
        work(runtime)
        return list(database.made)


def about_keys(statements: list[str]) -> list[str]:
    return [each for each in statements if any(f"calandria_{table}" in each for table in TABLES)]


@pytest.mark.parametrize("fails", [False, True])
def test_an_uncoordinated_run_asks_nothing_of_coordination(
    database: TracedDatabase, fails: bool
) -> None:
    made = made_by(database, lambda runtime: Plain.run(fails=fails))
    assert made
    assert about_keys(made) == []


def test_nor_does_one_in_a_worker(database: TracedDatabase) -> None:
    def in_worker(runtime: Runtime) -> None:
        run = runtime.find(str(InWorker.run(fails=False).run_id))
        runtime.start_worker(1)
        assert run.wait(30) == Success(1)

    made = made_by(database, in_worker)
    assert any("calandria_jobs" in each for each in made)
    assert about_keys(made) == []


def transactions(statements: list[str]) -> int:
    return sum(each.startswith("BEGIN") for each in statements)


def test_a_coordinated_step_costs_two_transactions_at_most(tmp_path: Path) -> None:
    with_lock = made_by(TracedDatabase(tmp_path / "1.db"), lambda _: Locked.run(fails=False))
    without = made_by(TracedDatabase(tmp_path / "2.db"), lambda _: Plain.run(fails=False))
    assert about_keys(with_lock)
    # its key is taken after what came before is recorded, and let go of with the step's end
    assert transactions(with_lock) <= transactions(without) + 2
