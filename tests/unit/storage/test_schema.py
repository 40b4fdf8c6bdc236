from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from enum import Enum
from pathlib import Path

import pytest

from calandria.errors import SchemaOutdated, StorageError
from calandria.statuses import FINISHED, RollbackState, RunStatus, StepRollback, StepStatus
from calandria.storage.sql.schema import Migration, load_migrations
from calandria.storage.sql.sqlite import SqliteDatabase
from calandria.storage.sql.store import SqlRunStore
from calandria.testing.conformance.harness import leased

NEXT = Migration(
    number=load_migrations()[-1].number + 1,
    name="more",
    text="-- A; comment;\nCREATE TABLE calandria_more (x TEXT);\n\n"
    "INSERT INTO calandria_more VALUES (\n    'a;b');\n",
)
BROKEN = Migration(NEXT.number + 1, "broken", "CREATE TABLE calandria_broken (x);\nNONSENSE;\n")


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    for migration in load_migrations():
        for statement in migration.statements:
            connection.execute(statement)
    yield connection
    connection.close()


def _store(path: Path, *migrations: Migration) -> SqlRunStore:
    database = SqliteDatabase("the test's file", str(path))
    return SqlRunStore(database, [*load_migrations(), *migrations])


def _tables(path: Path) -> set[str]:
    connection = sqlite3.connect(path)
    found = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    connection.close()
    return found


def test_migrations_are_numbered_without_gaps() -> None:
    numbers = [migration.number for migration in load_migrations()]
    assert numbers == list(range(1, len(numbers) + 1))


def test_a_migration_splits_into_its_statements() -> None:
    assert NEXT.statements == [
        "CREATE TABLE calandria_more (x TEXT)",
        "INSERT INTO calandria_more VALUES (\n    'a;b')",
    ]


@pytest.mark.parametrize(
    ("table", "column", "allowed"),
    [
        ("calandria_runs", "status", RunStatus),
        ("calandria_runs", "end_status", RunStatus),
        ("calandria_runs", "rollback", RollbackState),
        ("calandria_steps", "status", StepStatus),
        ("calandria_steps", "rollback", StepRollback),
        ("calandria_idempotency_keys", "status", FINISHED - {RunStatus.ABORTED}),
    ],
)
def test_the_checks_are_the_tables_of_statuses(
    connection: sqlite3.Connection, table: str, column: str, allowed: type[Enum]
) -> None:
    (schema,) = connection.execute(
        "SELECT sql FROM sqlite_master WHERE name = ?", (table,)
    ).fetchone()
    named = re.findall(rf"\b{column} = '(\w+)'", schema)
    assert sorted(named) == sorted(status.value for status in allowed)


def test_an_unknown_status_is_refused(connection: sqlite3.Connection) -> None:
    insert = (
        "INSERT INTO calandria_steps (run_id, path, scope, position, started_at, status, attempts,"
        " recoveries, rollback, rollback_attempts, nested)"
        " VALUES ('r', ?, '', 0, 0, ?, 1, 0, ?, 0, 0)"
    )
    connection.execute(insert, ("a", "started", "none"))
    for status, rollback in (("nonsense", "none"), ("started", "nonsense")):
        with pytest.raises(sqlite3.IntegrityError):
            connection.execute(insert, ("b", status, rollback))


def test_preparing_refuses_an_older_schema_and_says_what_to_run(tmp_path: Path) -> None:
    old = _store(tmp_path / "runs.db")
    old.prepare()
    old.close()
    new = _store(tmp_path / "runs.db", NEXT)
    with pytest.raises(SchemaOutdated, match=rf"test's file.*{NEXT.number}.*calandria migrate"):
        new.prepare()
    assert list(new.migrate()) == [NEXT.number]
    new.prepare()
    assert list(new.migrate()) == []
    new.close()


def test_a_newer_schema_is_refused_and_says_what_to_upgrade(tmp_path: Path) -> None:
    new = _store(tmp_path / "runs.db", NEXT)
    new.prepare()
    new.close()
    old = _store(tmp_path / "runs.db")
    for use in (old.prepare, old.migrate):
        with pytest.raises(SchemaOutdated, match="Upgrade Calandria"):
            use()
    old.close()


def test_migrating_keeps_the_runs(tmp_path: Path) -> None:
    old = _store(tmp_path / "runs.db")
    old.prepare()
    leased(old)
    old.close()
    new = _store(tmp_path / "runs.db", NEXT)
    new.migrate()
    assert new.load_run("run-1") is not None
    new.close()


def test_a_migration_that_fails_changes_nothing(tmp_path: Path) -> None:
    old = _store(tmp_path / "runs.db")
    old.prepare()
    before = _tables(tmp_path / "runs.db")
    broken = _store(tmp_path / "runs.db", NEXT, BROKEN)
    with pytest.raises(StorageError, match="NONSENSE"):
        broken.migrate()
    broken.close()
    assert _tables(tmp_path / "runs.db") == before
    old.prepare()
    old.close()


def test_a_database_without_the_schema_says_so(tmp_path: Path) -> None:
    store = _store(tmp_path / "runs.db")
    with pytest.raises(SchemaOutdated, match=r"test's file.*calandria migrate"):
        store.load_run("run-1")
    with pytest.raises(SchemaOutdated):
        leased(store)
    store.close()


def test_the_application_may_keep_its_own_tables_in_the_file(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "app.db")
    connection.execute("CREATE TABLE runs (x)")
    connection.execute("CREATE TABLE orders (x)")
    connection.close()
    store = _store(tmp_path / "app.db")
    store.prepare()
    leased(store)
    store.close()
    assert {"runs", "orders", "calandria_runs"} <= _tables(tmp_path / "app.db")
    assert {name for name in _tables(tmp_path / "app.db") if "calandria" not in name} == {
        "runs",
        "orders",
    }
