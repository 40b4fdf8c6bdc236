"""Listings and upkeep read an index in order; none sorts or scans what is finished."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from calandria.ports.run_store import RunCursor, RunFilter
from calandria.statuses import RunStatus
from calandria.storage.sql.listing import listing_queries
from calandria.storage.sql.sqlite import SqliteDatabase
from calandria.storage.sql.statements import STATEMENTS, Statement
from calandria.storage.sql.store import SqlRunStore

CURSOR = RunCursor(1.0, "run-1")


@pytest.fixture
def database() -> Iterator[SqliteDatabase]:
    database = SqliteDatabase("memory://", None)
    SqlRunStore(database).prepare()
    yield database
    database.close()


def _plan(database: SqliteDatabase, statement: Statement) -> str:
    values: dict[str, str | int | float | None] = dict.fromkeys(statement.names, 1)
    with database.read() as session:
        rows = session.rows(Statement(f"EXPLAIN QUERY PLAN {statement.source}"), values)
    return "\n".join(str(row[-1]) for row in rows)


@pytest.mark.parametrize("after", [None, CURSOR], ids=["first page", "next page"])
@pytest.mark.parametrize(
    ("where", "index"),
    [
        (RunFilter(), "calandria_runs_listed"),
        (RunFilter(created_after=1.0, created_before=2.0), "calandria_runs_listed"),
        (RunFilter(reactor="Checkout"), "calandria_runs_by_reactor"),
        (RunFilter(statuses=frozenset({RunStatus.RUNNING})), "calandria_runs_by_status"),
        (RunFilter(needs_attention=True), "calandria_runs_needing_attention"),
        (RunFilter(idempotency_key="key"), "calandria_runs_by_key"),
        (RunFilter(correlation_id="req"), "calandria_runs_by_correlation"),
        (RunFilter(parent_id="run-1"), "calandria_runs_by_parent"),
    ],
)
def test_a_listing_reads_its_index_in_order(
    database: SqliteDatabase, where: RunFilter, index: str, after: RunCursor | None
) -> None:
    ((statement, _),) = listing_queries(where, after, 100)
    plan = _plan(database, statement)
    assert f"USING INDEX {index}" in plan or f"USING COVERING INDEX {index}" in plan
    assert "TEMP B-TREE" not in plan


def test_several_statuses_are_a_query_each(database: SqliteDatabase) -> None:
    where = RunFilter(statuses=frozenset({RunStatus.FAILED, RunStatus.RUNNING}))
    queries = list(listing_queries(where, None, 100))
    assert [values["status"] for _, values in queries] == ["failed", "running"]


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("find_prunable", "calandria_runs_prunable"),
        ("sweep", "calandria_runs_by_status"),
        ("find_tree", "calandria_runs_by_root"),
        ("read_steps", "calandria_steps_in_scope"),
        ("read_steps_descending", "calandria_steps_in_scope"),
        ("read_steps_with_status", "calandria_steps_in_scope"),
        ("load_run", "PRIMARY KEY"),
        ("read_events", "PRIMARY KEY"),
        ("find_key", "PRIMARY KEY"),
        ("keep_outcome", "PRIMARY KEY"),
    ],
)
def test_a_statement_reads_its_index(database: SqliteDatabase, name: str, index: str) -> None:
    plan = _plan(database, STATEMENTS[name])
    assert index in plan
    assert "SCAN" not in plan.replace("SCAN CONSTANT ROW", "").replace(
        "SCAN json_each VIRTUAL TABLE", ""
    )
