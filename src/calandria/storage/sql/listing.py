"""The listing of runs: a query for each filter, each served by an index in the order asked for."""

from __future__ import annotations

from collections.abc import Iterator

from calandria.ports.run_store import RunCursor, RunFilter
from calandria.statuses import RunStatus
from calandria.storage.sql.statements import STATEMENTS, Statement, Value

# Word for word the condition of the partial index, or SQLite does not see that it applies.
NEEDS_ATTENTION = (
    "(r.rollback = 'incomplete' OR r.status = 'aborted' OR r.pending_compensation IS NOT NULL)"
)


def listing_queries(
    where: RunFilter, after: RunCursor | None, limit: int
) -> Iterator[tuple[Statement, dict[str, Value]]]:
    """Yield queries whose rows, merged newest first, are the page.

    One query for each status asked for: an index keeps each status in the order of the listing,
    but not several of them together.
    """
    statuses: list[RunStatus | None] = [*sorted(where.statuses)] or [None]
    for status in statuses:
        conditions, values = _conditions(where, after)
        if status is not None:
            conditions.append("r.status = :status")
            values["status"] = status.value
        values["limit"] = limit
        yield (
            Statement(
                f"{STATEMENTS['select_runs'].source}\nWHERE {' AND '.join(conditions)}\n"
                "ORDER BY r.created_at DESC, r.run_id DESC LIMIT :limit"
            ),
            values,
        )


def _conditions(where: RunFilter, after: RunCursor | None) -> tuple[list[str], dict[str, Value]]:
    top_level = "1 = 1" if where.every_level else "r.parent_id IS NULL"
    conditions, values = [top_level], dict[str, Value]()
    if where.parent_id is not None:
        conditions, values["parent_id"] = ["r.parent_id = :parent_id"], where.parent_id
    for column in ("reactor", "idempotency_key", "correlation_id"):
        if (value := getattr(where, column)) is not None:
            conditions.append(f"r.{column} = :{column}")
            values[column] = value
    if where.needs_attention:
        conditions.append(NEEDS_ATTENTION)
    if where.created_after is not None:
        conditions.append("r.created_at >= :created_after")
        values["created_after"] = where.created_after
    if where.created_before is not None:
        conditions.append("r.created_at < :created_before")
        values["created_before"] = where.created_before
    if after is not None:
        conditions.append("(r.created_at, r.run_id) < (:cursor_at, :cursor_id)")
        values["cursor_at"], values["cursor_id"] = after.created_at, after.run_id
    return conditions, values
