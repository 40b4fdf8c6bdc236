"""What goes wrong with a file is told with its name, cause and remedy, and harms nothing."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from calandria.errors import StorageError
from calandria.ports.run_store import Changes, RunStore
from calandria.storage import open_store
from calandria.storage.sql.sqlite import SqliteDatabase
from calandria.storage.sql.statements import Statement
from calandria.storage.sql.store import SqlRunStore
from calandria.testing.conformance.harness import NOW, TTL, event, leased, new_run, step

NOBODY = 65534


def _url(path: Path) -> str:
    return f"sqlite:///{path}"


def _prepare(path: Path) -> None:
    store = open_store(_url(path))
    store.prepare()
    leased(store)
    store.close()


def _refused(path: Path, pattern: str) -> None:
    """Check that every kind of first use of the file is refused in the same words."""
    uses: list[Callable[[RunStore], object]] = [
        lambda store: store.prepare(),
        lambda store: store.load_run("run-1"),
        lambda store: store.create_run(new_run("run-2"), Changes(), owner=None, ttl=TTL),
    ]
    for use in uses:
        store = open_store(_url(path))
        with pytest.raises(StorageError, match=pattern) as caught:
            use(store)
        assert _url(path) in str(caught.value)
        store.close()


@pytest.fixture
def unprivileged() -> Iterator[Path]:
    """Give a directory and the rights of someone whom file permissions bind, unlike root."""
    directory = Path(tempfile.mkdtemp(prefix="calandria-"))
    before = os.geteuid()
    if before == 0:
        os.chown(directory, NOBODY, NOBODY)
        os.seteuid(NOBODY)
    yield directory
    os.seteuid(before)
    directory.chmod(0o700)
    shutil.rmtree(directory)


def test_a_missing_directory(tmp_path: Path) -> None:
    _refused(tmp_path / "absent" / "runs.db", "absent does not exist. Create it")


def test_a_path_that_is_a_directory(tmp_path: Path) -> None:
    (tmp_path / "runs.db").mkdir()
    _refused(tmp_path / "runs.db", "is a directory. Name a file")


def test_a_directory_that_may_not_be_written(unprivileged: Path) -> None:
    unprivileged.chmod(0o500)
    _refused(unprivileged / "runs.db", "writable for this user")


def test_a_file_that_may_not_be_read(unprivileged: Path) -> None:
    _prepare(unprivileged / "runs.db")
    (unprivileged / "runs.db").chmod(0)
    _refused(unprivileged / "runs.db", "writable for this user")


def test_a_file_that_may_not_be_written(unprivileged: Path) -> None:
    path = unprivileged / "runs.db"
    _prepare(path)
    path.chmod(0o400)
    store = open_store(_url(path))
    with pytest.raises(StorageError, match=r"runs\.db.*cannot be written.*SQLITE_READONLY"):
        leased(store, new_run("run-2"))
    stored = store.load_run("run-1")
    assert stored is not None
    assert stored.run == new_run()
    store.close()


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "runs.db").write_text("order,amount\n" * 1000)
    _refused(tmp_path / "runs.db", "not a SQLite database. Name another file")
    assert (tmp_path / "runs.db").read_text() == "order,amount\n" * 1000


def test_a_damaged_file(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    _prepare(path)
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xa5" * (len(content) - 4096)
    path.write_bytes(content)
    store = open_store(_url(path))
    with pytest.raises(StorageError, match=r"runs\.db.*damaged.*restore a backup"):
        store.load_run("run-1")
    with pytest.raises(StorageError, match="damaged"):
        leased(store, new_run("run-2"))
    store.close()


def test_a_full_disk_writes_nothing_and_can_be_recovered_from(tmp_path: Path) -> None:
    database = SqliteDatabase("the test's file", str(tmp_path / "runs.db"))
    store = SqlRunStore(database)
    store.prepare()
    lease = leased(store)
    with database.write() as session:
        ((pages,),) = session.rows(Statement("PRAGMA page_count"), {})
        session.rows(Statement(f"PRAGMA max_page_count = {pages + 5}"), {})
    large = Changes(steps=[step("a")], events=[event(1)], now=NOW)
    with pytest.raises(StorageError, match=r"test's file.*full.*Free space.*SQLITE_FULL"):
        store.create_run(new_run("run-2", inputs="x" * 100_000), large, owner=None, ttl=TTL)

    assert store.load_run("run-2") is None
    assert list(store.read_events("run-2")) == []
    store.commit(lease, large)
    with database.write() as session:
        session.rows(Statement("PRAGMA max_page_count = 100000"), {})
    store.create_run(new_run("run-2", inputs="x" * 100_000), large, owner=None, ttl=TTL)
    assert store.read_step("run-2", "a") is not None
    store.close()


def test_a_commit_that_is_refused_leaves_a_usable_connection(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    _prepare(path)
    connection = sqlite3.connect(path)
    # a deferred foreign key is checked by COMMIT itself, the last moment a transaction can fail
    connection.execute("CREATE TABLE parents (id INTEGER PRIMARY KEY)")
    connection.execute(
        "CREATE TABLE children (id REFERENCES parents (id) DEFERRABLE INITIALLY DEFERRED)"
    )
    connection.close()
    database = SqliteDatabase("the test's file", str(path))
    store = SqlRunStore(database)
    store.load_run("run-1")
    with database.write() as session:
        pass
    _enforce_foreign_keys(database)
    with (
        pytest.raises(StorageError, match=r"test's file.*FOREIGN KEY"),
        database.write() as session,
    ):
        session.execute(Statement("INSERT INTO children VALUES (7)"), {})
    _refuse_leftovers(store)
    store.close()


def _enforce_foreign_keys(database: SqliteDatabase) -> None:
    # the setting is ignored inside a transaction, so it cannot be made through a session
    assert database._writer is not None
    database._writer.execute("PRAGMA foreign_keys = ON")


def _refuse_leftovers(store: RunStore) -> None:
    leased(store, new_run("run-2"))
    assert store.load_run("run-2") is not None


def test_an_error_of_the_caller_undoes_the_transaction(tmp_path: Path) -> None:
    database = SqliteDatabase("the test's file", str(tmp_path / "runs.db"))
    store = SqlRunStore(database)
    store.prepare()
    with pytest.raises(KeyboardInterrupt), database.write() as session:
        session.execute(
            Statement("INSERT INTO calandria_schema (number, name) VALUES (99, 'x')"), {}
        )
        raise KeyboardInterrupt
    store.prepare()
    store.close()
