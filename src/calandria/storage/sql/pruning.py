"""Deletes finished runs a few at a time, so that no writer waits long for it."""

from __future__ import annotations

from calandria.storage.sql.database import Database, Session
from calandria.storage.sql.statements import STATEMENTS

RECORDS_PER_TRANSACTION = 5000
"""A transaction takes no further run once it has deleted so many records."""

_OF_EACH_RUN = (
    "keep_outcome",
    "delete_events",
    "delete_steps",
    "delete_positions",
    "forget_waiter",
    "delete_run_values",
    "delete_run",
)


def prune(database: Database, finished_before: float, limit: int) -> int:
    """Delete at most `limit` top-level runs that ended before `finished_before`, oldest first.

    Returns how many; fewer than `limit` means that none is left. Each run goes whole, with its
    tree, in one transaction; a transaction ends once it has deleted enough.
    """
    pruned = 0
    while pruned < limit:
        deleted, more = _prune_some(database, finished_before, limit - pruned)
        pruned += deleted
        if not more:
            break
    return pruned


def _prune_some(database: Database, finished_before: float, limit: int) -> tuple[int, bool]:
    with database.write() as session:
        values = session.lease_time | {"finished_before": finished_before, "limit": limit}
        roots = [root for (root,) in session.rows(STATEMENTS["find_prunable"], values)]
        records = 0
        for pruned, root in enumerate(roots):
            if records >= RECORDS_PER_TRANSACTION:
                return pruned, True
            records += _delete_tree(session, root)
    return len(roots), False


def _delete_tree(session: Session, root: str) -> int:
    tree = session.rows(STATEMENTS["find_tree"], {"run_id": root})
    return sum(
        session.execute(STATEMENTS[name], {"run_id": run_id})
        for (run_id,) in tree
        for name in _OF_EACH_RUN
    )
