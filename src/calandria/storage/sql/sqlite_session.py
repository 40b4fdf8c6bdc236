"""Statements on one SQLite connection, in a transaction or a reading."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from calandria.storage.sql.database import Row
from calandria.storage.sql.lease_clock import LeaseClock
from calandria.storage.sql.sqlite_errors import until_free
from calandria.storage.sql.statements import Statement, Value, Values

_HAS_TABLE = Statement("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = :name")


class SqliteSession:
    """Statements on one connection.

    No cursor is kept from one to the next: it would keep its statement, and that the file open in
    a connection that was closed for a fork.
    """

    __slots__ = ("_clock", "_connection")

    def __init__(self, connection: sqlite3.Connection, clock: LeaseClock) -> None:
        self._connection = connection
        self._clock = clock

    @property
    def lease_time(self) -> dict[str, Value]:
        """The lease clock's parameters, read now."""
        return {"clock_now": self._clock.now(), "clock_boot": self._clock.boot_id}

    def execute(self, statement: Statement, values: Values) -> int:
        """Run a statement; return how many rows it changed."""
        return self._connection.execute(statement.text, statement.bind(values)).rowcount

    def execute_many(self, statement: Statement, values: Sequence[Values]) -> None:
        """Run a statement once for each set of values."""
        self._connection.executemany(statement.text, [statement.bind(each) for each in values])

    def row(self, statement: Statement, values: Values) -> Row | None:
        """Return the first row a statement gives, or `None`."""
        # all are fetched: a statement left open would hold its locks beyond this call
        found = self._connection.execute(statement.text, statement.bind(values)).fetchall()
        return found[0] if found else None

    def rows(self, statement: Statement, values: Values) -> list[Row]:
        """Return every row a statement gives."""
        return self._connection.execute(statement.text, statement.bind(values)).fetchall()

    def define(self, text: str) -> None:
        """Run one statement of a migration."""
        self._connection.execute(text)

    def has_table(self, name: str) -> bool:
        """Tell whether there is a table of this name."""
        return self.row(_HAS_TABLE, {"name": name}) is not None


class SqliteReading(SqliteSession):
    """Statements that only read: each may be tried again while SQLite is busy."""

    __slots__ = ()

    def row(self, statement: Statement, values: Values) -> Row | None:
        """Return the first row a statement gives, or `None`."""
        found = self.rows(statement, values)
        return found[0] if found else None

    def rows(self, statement: Statement, values: Values) -> list[Row]:
        """Return every row a statement gives."""
        bound = statement.bind(values)
        return until_free(lambda: self._connection.execute(statement.text, bound).fetchall())
