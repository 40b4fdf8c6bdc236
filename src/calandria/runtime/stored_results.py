"""What a run came to, as the storage has it."""

from __future__ import annotations

import dataclasses
from typing import Any

from calandria.ports.codec import Codec
from calandria.ports.run_store import KeyedRun, StoredRun
from calandria.results import (
    Dispatched,
    Failure,
    Halt,
    Paused,
    Result,
    RollbackFailure,
    Success,
)
from calandria.runtime.slots import decode_failure
from calandria.statuses import RunStatus


def stored_result(stored: StoredRun, codec: Codec) -> Result[Any] | None:
    """Return the result of a run as the storage has it; `None` while it is under way."""
    header = stored.header
    if header.status is RunStatus.PAUSED:
        return Paused(stored.run.id, correlation_id=stored.run.correlation_id)
    return _decoded(header.status, header.outcome, stored.run.id, codec)


def pruned_result(keyed: KeyedRun, codec: Codec) -> Result[Any]:
    """Return the result that an idempotency key kept of a run that was pruned."""
    if keyed.status is None:
        return Dispatched(keyed.run_id)
    found = _decoded(keyed.status, keyed.outcome, keyed.run_id, codec)
    return Dispatched(keyed.run_id) if found is None else found


def _decoded(
    status: RunStatus, outcome: str | None, run_id: str, codec: Codec
) -> Result[Any] | None:
    if outcome is None:
        return None
    match status:
        case RunStatus.COMPLETED:
            return Success(codec.decode(outcome), run_id=run_id)
        case RunStatus.HALTED:
            return Halt(_text(codec.decode(outcome)), run_id=run_id)
        case RunStatus.FAILED:
            return dataclasses.replace(decode_failure(outcome, codec), run_id=run_id)
        case RunStatus.CANCELLED | RunStatus.ABORTED:
            how = "Cancelled" if status is RunStatus.CANCELLED else "Aborted"
            recorded = codec.decode(outcome)
            if isinstance(recorded, Failure):
                return dataclasses.replace(recorded, run_id=run_id)
            return stopped_result(how, _text(recorded) or "", run_id)
        case _:
            return None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def stopped_result(
    how: str, reason: str, run_id: str, left: list[RollbackFailure] | None = None
) -> Failure:
    """Return the result of a run that was cancelled, undone or aborted."""
    return Failure(
        reason or how,
        retryable=False,
        exception_class=how,
        rollback_failures=left or [],
        run_id=run_id,
    )
