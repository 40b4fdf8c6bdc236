"""SQLite: one writer connection and a few readers over a file, or one connection in memory."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from calandria.errors import StorageError
from calandria.ports.run_store import Capabilities
from calandria.storage.sql import forking
from calandria.storage.sql.database import Session
from calandria.storage.sql.group_commit import Candidates, Group
from calandria.storage.sql.lease_clock import HostLeaseClock, LeaseClock
from calandria.storage.sql.readers import Readers
from calandria.storage.sql.sqlite_errors import explain, until_free
from calandria.storage.sql.sqlite_session import SqliteReading, SqliteSession
from calandria.storage.sql.turnstile import NoTurnstile, Turnstile

SYNCHRONOUS = ("OFF", "NORMAL", "FULL", "EXTRA")
CACHE_KIBIBYTES = 8192
LOG_PAGES = 4000
"""How long the write-ahead log may get before it is copied into the file: 16 MiB.

Longer than SQLite's own 1000: pages that every commit rewrites are copied, and synced, less often.
"""
BUSY_TIMEOUT_MILLISECONDS = 1000
FORK_PATIENCE = 10.0
"""Seconds a fork waits for transactions in flight; after that the child may not use the store."""

_ERRORS = (sqlite3.Error, OSError, UnicodeEncodeError, OverflowError)


class SqliteDatabase:
    """A SQLite database; `path` is `None` for a private one in memory.

    Args:
        name: what to call it in messages.
        path: the file, created when first written to; its directory must exist.
        synchronous: `FULL` keeps every commit through a power cut; `NORMAL` may lose the last
            ones then, but none when only a process dies; `OFF` is for tests.
        clock: times leases; the host's clock since boot by default.

    Raises `StorageError` for an unknown `synchronous`.
    """

    def __init__(
        self,
        name: str,
        path: str | None,
        *,
        synchronous: str = "FULL",
        clock: LeaseClock | None = None,
    ) -> None:
        if synchronous.upper() not in SYNCHRONOUS:
            raise StorageError(
                f"{name}: sqlite_synchronous={synchronous!r} is unknown: "
                f"use one of {', '.join(SYNCHRONOUS)}."
            )
        self._name = name
        # a process that changes its working directory must not find another file
        self._path = None if path is None else os.path.abspath(path)
        self._synchronous = synchronous.upper()
        self._fleeting = "OFF" if self._synchronous == "OFF" else "NORMAL"
        self._clock = clock or HostLeaseClock()
        self._refusal: str | None = None
        self._forget()
        forking.register(self)

    def _forget(self) -> None:
        self._writing = threading.Lock()
        self._writer: sqlite3.Connection | None = None
        self._writer_sync: str | None = None
        self._group: Group | None = None
        self._candidates = Candidates()
        self._turnstile: Turnstile | NoTurnstile = NoTurnstile()
        self._file: tuple[int, int] | None = None
        self._readers = Readers(self._open)

    @property
    def name(self) -> str:
        """The storage URL."""
        return self._name

    @property
    def capabilities(self) -> Capabilities:
        """A file outlives its process and is shared; memory does neither."""
        on_file = self._path is not None
        return Capabilities(durable=on_file, multi_process=on_file)

    def write(
        self, *, lasting: bool = True, urgent: bool = False
    ) -> AbstractContextManager[Session]:
        """Open a transaction that may write, and commit it at the end of the block."""
        # an interruption, which only the main thread knows, must not keep others from their commit
        if self._path is None or threading.current_thread() is threading.main_thread():
            return self._write_alone(lasting, urgent)
        return self._write_together(lasting, urgent)

    @contextmanager
    def _write_alone(self, lasting: bool, urgent: bool) -> Iterator[Session]:
        while True:
            self._candidates.others = True
            with self._writing:
                self._candidates.others = False
                group = self._group
                if group is None:
                    with self._explained(), self._transaction(lasting, urgent) as session:
                        yield session
                    return
            group.wait_until_over()

    @contextmanager
    def _transaction(self, lasting: bool, urgent: bool) -> Iterator[Session]:
        connection = self._writer or self._open_writer()
        with self._turnstile.urgently if urgent else self._turnstile:
            try:
                self._begin(connection, lasting)
                yield SqliteSession(connection, self._clock)
                until_free(connection.execute, "COMMIT")
            except BaseException:
                self._roll_back(connection)
                raise

    @contextmanager
    def _write_together(self, lasting: bool, urgent: bool) -> Iterator[Session]:
        """Join the transaction that another thread left open, or open one for others to join."""
        self._candidates.come()
        with self._writing:
            self._candidates.go()
            with self._explained():
                group = self._group or self._open_group(lasting, urgent)
                try:
                    yield from self._join(group)
                finally:
                    if not (self._goes_on(group) and self._candidates.may_join(group)):
                        self._end_group(group)
        group.wait()

    def _open_group(self, lasting: bool, urgent: bool) -> Group:
        connection = self._writer or self._open_writer()
        self._turnstile.enter(urgent=urgent)
        try:
            self._begin(connection, lasting)
        except BaseException:
            self._roll_back(connection)
            self._turnstile.leave()
            raise
        self._group = Group(lasting=lasting)
        return self._group

    def _join(self, group: Group) -> Iterator[Session]:
        connection = self._writer
        assert connection is not None
        shared = group.members > 0
        if shared:
            connection.execute("SAVEPOINT member")
        try:
            yield SqliteSession(connection, self._clock)
        except BaseException:
            if shared and connection.in_transaction:
                connection.execute("ROLLBACK TO member")
            else:
                self._roll_back(connection)
            raise
        group.members += 1

    def _end_group(self, group: Group) -> None:
        self._group = None
        error: BaseException | None = None
        try:
            with self._explained():
                self._commit_group(group)
        except BaseException as raised:
            error = raised
        finally:
            self._turnstile.leave()
            group.end(error)

    def _goes_on(self, group: Group) -> bool:
        """Tell whether a group has a transaction with anything in it, and nobody hurries it."""
        if group.members == 0 or self._writer is None or self._turnstile.wanted:
            return False
        return self._writer.in_transaction

    def _commit_group(self, group: Group) -> None:
        connection = self._writer
        if group.members == 0:
            return
        if connection is None or not connection.in_transaction:
            raise sqlite3.OperationalError("the failure of another write undid the transaction")
        try:
            until_free(connection.execute, "COMMIT")
        except BaseException:
            self._roll_back(connection)
            raise

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except _ERRORS as error:
            raise explain(self._name, self._path, error) from error

    def _begin(self, connection: sqlite3.Connection, lasting: bool) -> None:
        self._refuse_replaced()
        self._sync(connection, self._synchronous if lasting else self._fleeting)
        until_free(connection.execute, "BEGIN IMMEDIATE")

    @contextmanager
    def read(self) -> Iterator[Session]:
        """Open a session for reading; everything in it sees one state."""
        try:
            if self._path is None:
                with self._writing:
                    yield SqliteSession(self._writer or self._open_writer(), self._clock)
            else:
                self._refuse_use()
                with self._readers.borrow() as connection:
                    try:
                        connection.execute("BEGIN")
                        yield SqliteReading(connection, self._clock)
                    finally:
                        # an interruption may have come before the transaction had begun
                        if connection.in_transaction:
                            connection.execute("ROLLBACK")
        except _ERRORS as error:
            raise explain(self._name, self._path, error) from error

    def close(self) -> None:
        """Close every connection; idempotent."""
        self._refusal = self._refusal or "this store is closed. Open another one"
        self._readers.close()
        self._hold_writing()
        try:
            self._close_writer()
        finally:
            self._writing.release()

    def _hold_writing(self, timeout: float | None = None) -> bool:
        """Keep everyone from writing once no transaction is open; false if the time is over."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            left = -1 if deadline is None else max(deadline - time.monotonic(), 0)
            if not self._writing.acquire(timeout=left):
                return False
            group = self._group
            if group is None:
                return True
            self._writing.release()
            if not group.wait_until_over(None if deadline is None else left):
                return False

    def before_fork(self) -> bool:
        """Wait for what is in flight and close every connection; hold off new ones.

        A child must not inherit an open SQLite file: SQLite keeps its locks by process, and a
        child that opened the file again would trust locks only its parent has. Returns false if
        transactions in flight outlast `FORK_PATIENCE`.
        """
        if not self._hold_writing(FORK_PATIENCE):
            return False
        if not self._readers.suspend(FORK_PATIENCE):
            self._writing.release()
            return False
        if self._path is not None:
            self._close_writer()
        return True

    def after_fork(self, *, in_child: bool) -> None:
        """Let go of what `before_fork` held off."""
        if in_child:
            # the threads that stood in line are the parent's
            self._candidates = Candidates()
        self._readers.resume()
        self._writing.release()

    def abandon(self) -> list[object]:
        """In a child, refuse all use; return what was inherited, which must never be closed here.

        SQLite in the child believes that the parent's transaction is its own and would wait for
        its end forever.
        """
        self._refusal = (
            "this process was forked in the midst of a transaction. Fork when the store is idle, "
            "or start a fresh process (multiprocessing's spawn)"
        )
        inherited: list[object] = [self._writer, self._readers]
        if isinstance(self._turnstile, Turnstile):
            self._turnstile.close()
        self._forget()
        return inherited

    def _refuse_use(self) -> None:
        if self._refusal is not None:
            raise StorageError(f"{self._name}: {self._refusal}.")

    def _open_writer(self) -> sqlite3.Connection:
        self._refuse_use()
        if self._path is None:
            self._writer = self._open()
            return self._writer
        turnstile = Turnstile(f"{self._path}-lock")
        try:
            # the first to open a new file switches it to a log, which must not be done twice
            with turnstile:
                self._writer = self._open()
        except BaseException:
            turnstile.close()
            raise
        self._turnstile = turnstile
        self._file = self._identity()
        return self._writer

    def _identity(self) -> tuple[int, int] | None:
        """Return which file stands at the path now; `None` if there is none."""
        assert self._path is not None
        try:
            found = os.stat(self._path)
        except FileNotFoundError:
            return None
        return found.st_dev, found.st_ino

    def _refuse_replaced(self) -> None:
        # SQLite would go on writing into a file that nobody can open any more
        if self._path is not None and self._identity() != self._file:
            raise StorageError(
                f"{self._name}: the file was deleted or replaced while this process used it. What "
                "is written now would be lost: restore the file, then start the process again."
            )

    def _open(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._path or ":memory:",
            timeout=BUSY_TIMEOUT_MILLISECONDS / 1000,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=256,
        )
        try:
            if self._path is not None:
                self._use_log(connection)
                connection.execute(f"PRAGMA wal_autocheckpoint = {LOG_PAGES}")
            connection.execute(f"PRAGMA synchronous = {self._synchronous}")
            connection.execute(f"PRAGMA cache_size = -{CACHE_KIBIBYTES}")
        except BaseException:
            connection.close()
            raise
        return connection

    def _use_log(self, connection: sqlite3.Connection) -> None:
        (mode,) = until_free(lambda: connection.execute("PRAGMA journal_mode").fetchone())
        if mode != "wal":
            switch = "PRAGMA journal_mode = WAL"
            (mode,) = until_free(lambda: connection.execute(switch).fetchone())
        if mode != "wal":
            raise StorageError(
                f"{self._name}: this file system does not allow SQLite's write-ahead log. Put the "
                "database on a local disk."
            )

    def _sync(self, connection: sqlite3.Connection, synchronous: str) -> None:
        """Set how lasting the next commit is, if it differs from the last one."""
        if self._writer_sync != synchronous:
            # unknown meanwhile: an interruption may come before or after it is set
            self._writer_sync = None
            connection.execute(f"PRAGMA synchronous = {synchronous}")
            self._writer_sync = synchronous

    def _roll_back(self, connection: sqlite3.Connection) -> None:
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        except sqlite3.Error:
            self._close_writer()

    def _close_writer(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None
            self._writer_sync = None
        self._turnstile.close()
        self._turnstile = NoTurnstile()
