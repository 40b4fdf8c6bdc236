from __future__ import annotations

import re
import sqlite3
from importlib.resources import files

import pytest

from calandria.storage.sql.schema import load_migrations
from calandria.storage.sql.statements import STATEMENTS, Statement, parse_statements


def test_a_statement_is_read_without_its_comments() -> None:
    found = parse_statements(
        "-- intro\n\n-- name: one\n-- Why.\nSELECT 1\n\n-- name: two\nSELECT 2\n"
    )
    assert {name: each.text for name, each in found.items()} == {
        "one": "SELECT 1",
        "two": "SELECT 2",
    }


def test_a_statement_may_use_one_before_it() -> None:
    found = parse_statements("-- name: a\nSELECT x\n-- name: b\n{a}\nWHERE y = :y")
    assert found["b"].text == "SELECT x\nWHERE y = ?1"
    with pytest.raises(KeyError):
        parse_statements("-- name: b\n{a}")


def test_parameters_are_numbered_by_first_use() -> None:
    statement = Statement("SELECT :b, :a, :b")
    assert statement.text == "SELECT ?1, ?2, ?1"
    assert statement.bind({"a": 1, "b": 2, "unused": 3}) == (2, 1)
    assert Statement("SELECT :a").bind({"a": 1}) == (1,)
    assert Statement("SELECT 1").bind({"a": 1}) == ()


def test_a_missing_value_is_named() -> None:
    with pytest.raises(KeyError, match="a"):
        Statement("SELECT :a, :b").bind({"b": 1})


def test_every_statement_says_what_it_is_for() -> None:
    text = (files("calandria.storage.sql") / "statements.sql").read_text(encoding="utf-8")
    assert len(re.findall(r"^-- name: \w+\n-- [A-Z].*\.$", text, re.MULTILINE)) == len(STATEMENTS)


@pytest.mark.parametrize("name", STATEMENTS)
def test_every_statement_fits_the_schema(name: str) -> None:
    connection = sqlite3.connect(":memory:")
    for migration in load_migrations():
        for definition in migration.statements:
            connection.execute(definition)
    connection.execute(STATEMENTS["create_schema_table"].text)
    statement = STATEMENTS[name]
    values: dict[str, str | int | float | None] = dict.fromkeys(statement.names, 1)
    connection.execute(f"EXPLAIN {statement.text}", statement.bind(values)).fetchall()
    connection.close()
