"""What the run store needs of a SQL database. A dialect is an implementation of this."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeAlias

from calandria.ports.run_store import Capabilities
from calandria.storage.sql.statements import Statement, Value, Values

Row: TypeAlias = tuple[Any, ...]


class Session(Protocol):
    """One transaction, or one reading, on one connection."""

    @property
    def lease_time(self) -> dict[str, Value]:
        """The parameters of the lease clock, read now; empty where the server's own clock rules."""
        ...

    def execute(self, statement: Statement, values: Values) -> int:
        """Run a statement; return how many rows it changed."""
        ...

    def execute_many(self, statement: Statement, values: Sequence[Values]) -> None:
        """Run a statement once for each set of values."""
        ...

    def row(self, statement: Statement, values: Values) -> Row | None:
        """Return the first row a statement gives, or `None`."""
        ...

    def rows(self, statement: Statement, values: Values) -> list[Row]:
        """Return every row a statement gives."""
        ...

    def define(self, text: str) -> None:
        """Run one statement of a migration."""
        ...

    def has_table(self, name: str) -> bool:
        """Tell whether there is a table of this name."""
        ...


class Database(Protocol):
    """Connections to one database, opened when first needed and again after a fork."""

    @property
    def name(self) -> str:
        """What to call the database in messages: its URL, without secrets."""
        ...

    @property
    def capabilities(self) -> Capabilities:
        """What this database can do beyond the run store's contract."""
        ...

    def write(
        self, *, lasting: bool = True, urgent: bool = False
    ) -> AbstractContextManager[Session]:
        """Open a transaction that may write, and commit it at the end of the block.

        Waits for other writers, however long they take. Anything raised in the block undoes the
        whole transaction. Raises `StorageError` for whatever the database complains of.

        A transaction that is not `lasting` may be lost when the host of the database loses power,
        unless a lasting one follows it. It is for what means nothing once every process that uses
        the database has died with it; where they can outlive the database's host, it lasts too.

        An `urgent` one is of a caller for whom someone waits: where writers wait for one another,
        those who work in the background let it pass.
        """
        ...

    def read(self) -> AbstractContextManager[Session]:
        """Open a session for reading; everything read in it is of one moment."""
        ...

    def close(self) -> None:
        """Close every connection; idempotent. Later uses raise `StorageError`."""
        ...
