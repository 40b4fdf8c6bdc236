"""SQLite's complaints, in words that say which file, what happened and what to do."""

from __future__ import annotations

import os
import random
import sqlite3
import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from calandria.errors import SchemaOutdated, StorageError

P = ParamSpec("P")
T = TypeVar("T")

# SQLITE_PROTOCOL is what a reader gets that lost too many races for a place in the log.
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_PROTOCOL}

_REMEDIES = {
    sqlite3.SQLITE_READONLY: (
        "it cannot be written. Make the file and its directory writable for this user"
    ),
    sqlite3.SQLITE_FULL: "the disk is full, or the file may not grow. Free space, then try again",
    sqlite3.SQLITE_NOTADB: (
        "the file is not a SQLite database. Name another file, or move this one away"
    ),
    sqlite3.SQLITE_CORRUPT: (
        "the database is damaged. Stop every process that uses it, and restore a backup or run "
        "`sqlite3 FILE .recover`"
    ),
    sqlite3.SQLITE_IOERR: (
        "the file cannot be read or written. Check the disk; a database belongs on a local one"
    ),
    sqlite3.SQLITE_TOOBIG: "a value is larger than SQLite can hold. Record a reference to it",
    sqlite3.SQLITE_CONSTRAINT: (
        "the record contradicts what is stored. Check that no id or sequence is used twice"
    ),
}


def until_free(action: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return what `action(*args)` returns, trying again for as long as SQLite says it is busy.

    SQLite's own waiting does not cover every case: recovery of a log, the switch to one, and a
    file that is just being closed elsewhere answer "busy" at once.
    """
    while True:
        try:
            return action(*args, **kwargs)
        except sqlite3.OperationalError as error:
            if primary_code(error) not in _BUSY:
                raise
        time.sleep(random.uniform(0.0005, 0.005))


def primary_code(error: BaseException) -> int:
    """Return SQLite's result code without its extension, or -1 where the error has none."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return -1 if code is None else code & 0xFF


def explain(name: str, path: str | None, error: Exception) -> StorageError:
    """Return the error to raise for one that SQLite or its driver raised."""
    code = primary_code(error)
    cause = getattr(error, "sqlite_errorname", type(error).__name__)
    if code == sqlite3.SQLITE_ERROR and "no such table: calandria_" in str(error):
        return SchemaOutdated(
            f"{name}: there is no Calandria schema in it. Call `prepare()`, or run "
            "`calandria migrate`."
        )
    if code == sqlite3.SQLITE_CANTOPEN or isinstance(error, OSError):
        remedy = _why_not_open(path)
    elif isinstance(error, UnicodeEncodeError):
        remedy = "a text is not valid Unicode: escape or replace its lone surrogates"
    else:
        remedy = _REMEDIES.get(code, "SQLite refused the statement")
    return StorageError(f"{name}: {remedy}. ({cause}: {error})")


def _why_not_open(path: str | None) -> str:
    if path is None:
        return "the in-memory database cannot be opened. Check the memory left"
    directory = os.path.dirname(os.path.abspath(path))
    if os.path.isdir(path):
        return "the path is a directory. Name a file in it"
    if not os.path.isdir(directory):
        return f"the directory {directory} does not exist. Create it, or name another path"
    return (
        f"it cannot be opened or created. Make {directory} and the files in it readable and "
        "writable for this user"
    )
