"""Storage: back ends of the run store, chosen by URL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from calandria.errors import StorageError
from calandria.ports.run_store import RunStore

if TYPE_CHECKING:
    from calandria.storage.sql.lease_clock import LeaseClock

__all__ = ["open_store"]


def open_store(
    url: str, *, sqlite_synchronous: str = "FULL", clock: LeaseClock | None = None
) -> RunStore:
    """Return the run store at `url`; nothing is opened until it is first used.

    Args:
        url: `sqlite:///relative/path`, `sqlite:////absolute/path`, or `memory://` for a private
            store that ends with the object.
        sqlite_synchronous: `FULL` (every commit survives a power cut), `NORMAL` (the last ones
            may not), `EXTRA` or `OFF`.
        clock: times leases on SQLite; the host's clock since boot by default.

    Raises `StorageError` for a URL of another form.
    """
    # a driver is imported only with the scheme that needs it
    from calandria.storage.sql.sqlite import SqliteDatabase
    from calandria.storage.sql.store import SqlRunStore

    path = _sqlite_path(url)
    return SqlRunStore(SqliteDatabase(url, path, synchronous=sqlite_synchronous, clock=clock))


def _sqlite_path(url: str) -> str | None:
    scheme, separator, rest = url.partition("://")
    if separator and scheme == "memory" and not rest:
        return None
    if separator and scheme == "sqlite" and rest.startswith("/") and len(rest) > 1:
        return rest[1:]
    # the URL may hold a password in another scheme, so only the scheme is repeated
    raise StorageError(
        f"Storage URL with scheme {scheme!r} is not understood: use sqlite:///relative/path, "
        "sqlite:////absolute/path or memory://."
    )
