"""Threads that wait to write share the commit of the transaction that is open."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from calandria.errors import StorageError
from calandria.storage.sql import forking
from calandria.storage.sql.group_commit import MOST_MEMBERS
from calandria.storage.sql.sqlite import SqliteDatabase
from calandria.storage.sql.statements import Statement

INSERT = Statement("INSERT INTO noted (what) VALUES (:what)")
SELECT = Statement("SELECT what FROM noted ORDER BY rowid")
WAIT = 30.0
SOON = 10.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "test.db"


@pytest.fixture
def database(path: Path) -> Iterator[SqliteDatabase]:
    database = SqliteDatabase("sqlite:///test", str(path))
    with database.write() as session:
        session.define("CREATE TABLE noted (what TEXT NOT NULL)")
        session.define("CREATE TABLE parents (id INTEGER PRIMARY KEY)")
        session.define(
            "CREATE TABLE children (id INTEGER REFERENCES parents DEFERRABLE INITIALLY DEFERRED)"
        )
    yield database
    database.close()


class Writers:
    """Threads that write in turn: the first stays in its transaction until the others wait."""

    def __init__(self, database: SqliteDatabase) -> None:
        self.database = database
        self.log: list[str] = []
        self.errors: dict[str, BaseException] = {}
        self._threads: list[threading.Thread] = []
        self._inside = threading.Event()
        self._go_on = threading.Event()

    def first(self, name: str, also: Callable[[], None] = lambda: None) -> None:
        def stay() -> None:
            self._inside.set()
            assert self._go_on.wait(WAIT)
            also()

        self._start(name, stay)
        assert self._inside.wait(WAIT)

    def next(self, name: str, also: Callable[[], None] = lambda: None) -> None:
        waiting = len(self.database._candidates)
        self._start(name, also)
        while len(self.database._candidates) == waiting:
            threading.Event().wait(0.001)

    def let_go(self) -> None:
        self._go_on.set()
        for thread in self._threads:
            thread.join(WAIT)
        assert not any(thread.is_alive() for thread in self._threads)

    def _start(self, name: str, also: Callable[[], None]) -> None:
        thread = threading.Thread(target=self._write, args=(name, also))
        self._threads.append(thread)
        thread.start()

    def _write(self, name: str, also: Callable[[], None]) -> None:
        try:
            with self.database.write() as session:
                session.execute(INSERT, {"what": name})
                also()
                self.log.append(f"{name} wrote")
            self.log.append(f"{name} is sure")
        except Exception as error:
            self.errors[name] = error


def noted(path: Path) -> set[str]:
    """Return what another connection sees."""
    other = sqlite3.connect(path)
    found = {what for (what,) in other.execute("SELECT what FROM noted")}
    other.close()
    return found


def fail() -> None:
    raise ValueError("on the way")


def test_those_who_wait_share_one_commit(database: SqliteDatabase, path: Path) -> None:
    writers = Writers(database)
    writers.first("a")
    writers.next("b")
    writers.next("c")
    writers.let_go()
    # Then none of them was told of its commit before all had written
    assert writers.log[0] == "a wrote"
    assert sorted(writers.log[1:3]) == ["b wrote", "c wrote"]
    assert sorted(writers.log[3:]) == ["a is sure", "b is sure", "c is sure"]
    assert noted(path) == {"a", "b", "c"}


def test_one_that_fails_undoes_only_what_is_its_own(database: SqliteDatabase, path: Path) -> None:
    writers = Writers(database)
    writers.first("a")
    writers.next("b", fail)
    writers.next("c")
    writers.let_go()
    assert noted(path) == {"a", "c"}
    assert list(writers.errors) == ["b"]
    assert isinstance(writers.errors["b"], ValueError)


def test_when_the_first_fails_the_others_write(database: SqliteDatabase, path: Path) -> None:
    writers = Writers(database)
    writers.first("a", fail)
    writers.next("b")
    writers.next("c")
    writers.let_go()
    assert noted(path) == {"b", "c"}
    assert list(writers.errors) == ["a"]


def test_a_commit_that_fails_fails_all_who_share_it(database: SqliteDatabase, path: Path) -> None:
    assert database._writer is not None
    database._writer.execute("PRAGMA foreign_keys = ON")

    def orphan() -> None:
        assert database._writer is not None
        database._writer.execute("INSERT INTO children (id) VALUES (7)")

    writers = Writers(database)
    writers.first("a")
    writers.next("b", orphan)
    writers.let_go()
    assert noted(path) == set()
    assert set(writers.errors) == {"a", "b"}
    for error in writers.errors.values():
        assert isinstance(error, StorageError)
        assert "FOREIGN KEY" in str(error)
    # And the next one writes
    with database.write() as session:
        session.execute(INSERT, {"what": "d"})
    assert noted(path) == {"d"}


def test_a_transaction_that_was_undone_under_it_fails_the_whole_group(
    database: SqliteDatabase, path: Path
) -> None:
    def undo_everything() -> None:
        # as SQLite itself does when the disk is full
        assert database._writer is not None
        database._writer.execute("ROLLBACK")
        raise sqlite3.OperationalError("database or disk is full")

    writers = Writers(database)
    writers.first("a")
    writers.next("b", undo_everything)
    writers.let_go()
    assert noted(path) == set()
    assert set(writers.errors) == {"a", "b"}
    assert all(isinstance(error, StorageError) for error in writers.errors.values())


def test_a_group_is_committed_when_it_is_large(database: SqliteDatabase, path: Path) -> None:
    writers = Writers(database)
    writers.first("0")
    for number in range(1, MOST_MEMBERS + 2):
        writers.next(str(number))
    writers.let_go()
    sure = [line.endswith("is sure") for line in writers.log]
    assert sure.index(True) <= MOST_MEMBERS + 1
    assert len(noted(path)) == MOST_MEMBERS + 2


def test_the_main_thread_writes_when_its_turn_comes(database: SqliteDatabase, path: Path) -> None:
    writers = Writers(database)
    writers.first("a")
    writers.next("b")
    timer = threading.Timer(0.01, writers._go_on.set)
    timer.start()
    with database.write() as session:
        session.execute(INSERT, {"what": "main"})
        # Then it is in no one else's transaction
        assert "a wrote" in writers.log
        assert "main" not in noted(path)
    assert "main" in noted(path)
    writers.let_go()
    timer.join()
    assert noted(path) == {"a", "b", "main"}


def test_closing_waits_for_the_group(database: SqliteDatabase, path: Path) -> None:
    writers = Writers(database)
    writers.first("a")
    writers.next("b")
    timer = threading.Timer(0.01, writers._go_on.set)
    timer.start()
    database.close()
    writers.let_go()
    timer.join()
    assert "a" in noted(path)
    assert all("closed" in str(error) for error in writers.errors.values())


def test_a_forked_child_waits_for_none_of_its_parents_threads(
    database: SqliteDatabase, path: Path
) -> None:
    forking._known.discard(database)  # its part is played here, step by step
    assert database.before_fork()
    writers = Writers(database)
    writers.next("a")
    child = os.fork()
    database.after_fork(in_child=child == 0)
    if child == 0:
        in_child = Writers(database)
        in_child._go_on.set()
        in_child.first("child")
        in_child._threads[0].join(SOON)
        os._exit(0 if in_child.log == ["child wrote", "child is sure"] else 1)
    _, status = os.waitpid(child, 0)
    writers.let_go()
    assert os.waitstatus_to_exitcode(status) == 0
    assert noted(path) == {"a", "child"}


def test_many_threads_lose_nothing(database: SqliteDatabase, path: Path) -> None:
    def work(worker: int) -> None:
        for number in range(50):
            with database.write(lasting=number % 3 != 0) as session:
                session.execute(INSERT, {"what": f"{worker}.{number}"})

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(6)]
    for thread in threads:
        thread.start()
    for number in range(50):
        with database.write() as session:
            session.execute(INSERT, {"what": f"main.{number}"})
    for thread in threads:
        thread.join(WAIT)
    assert len(noted(path)) == 7 * 50
