"""Records to statement parameters, and rows to records."""

from __future__ import annotations

from calandria.ports.run_store import (
    Event,
    KeyedRun,
    NewRun,
    RunHeader,
    StepProgress,
    StepRecord,
    StoredRun,
)
from calandria.statuses import RollbackState, RunStatus, StepRollback, StepStatus
from calandria.storage.sql.database import Row
from calandria.storage.sql.statements import Value

# Looked up instead of called: calling an Enum class costs several times as much.
_RUN_STATUS = {status.value: status for status in RunStatus}
_ROLLBACK = {state.value: state for state in RollbackState}
_STEP_STATUS = {status.value: status for status in StepStatus}
_STEP_ROLLBACK = {state.value: state for state in StepRollback}


def header_values(header: RunHeader) -> dict[str, Value]:
    """Return a header's parameters."""
    return {
        "status": header.status.value,
        "rollback": header.rollback.value,
        "trigger": header.trigger,
        "end_status": None if header.end_status is None else header.end_status.value,
        "outcome": header.outcome,
        "pending_compensation": header.pending_compensation,
        "waits_for": header.waits_for,
        "wake_at": header.wake_at,
        "finished_at": header.finished_at,
    }


def run_values(run: NewRun) -> dict[str, Value]:
    """Return a new run's parameters, its header's left out."""
    return {
        "run_id": run.id,
        "reactor": run.reactor,
        "shape": run.shape,
        "inputs": run.inputs,
        "outline": run.outline,
        "created_at": run.created_at,
        "root_id": run.root_id,
        "parent_id": run.parent_id,
        "parent_path": run.parent_path,
        "idempotency_key": run.idempotency_key,
        "inputs_digest": run.inputs_digest,
        "correlation_id": run.correlation_id,
    }


def progress_values(progress: StepProgress) -> dict[str, Value]:
    """Return the parameters of the changing part of a step."""
    return {
        "status": progress.status._value_,
        "attempts": progress.attempts,
        "recoveries": progress.recoveries,
        "completed_order": progress.completed_order,
        "result": progress.result,
        "error": progress.error,
        "rollback": progress.rollback._value_,
        "rollback_attempts": progress.rollback_attempts,
        "rollback_error": progress.rollback_error,
        "due_at": progress.due_at,
        "nested": progress.nested,
        "finished_at": progress.finished_at,
    }


def step_values(run_id: str, step: StepRecord) -> dict[str, Value]:
    """Return a step record's parameters."""
    values = progress_values(step.progress)
    values["run_id"] = run_id
    values["path"] = step.path
    values["scope"] = step.scope
    values["position"] = step.position
    values["inputs"] = step.inputs
    values["started_at"] = step.started_at
    return values


def event_values(run_id: str, event: Event) -> dict[str, Value]:
    """Return an event's parameters."""
    return {
        "run_id": run_id,
        "sequence": event.sequence,
        "at": event.at,
        "kind": event.kind,
        "path": event.path,
        "data": event.data,
    }


def stored_run(row: Row) -> StoredRun:
    """Return the run in a row of `select_runs`."""
    (
        run_id, reactor, shape, inputs, created_at, root_id, parent_id, parent_path,
        idempotency_key, inputs_digest, correlation_id,
        status, rollback, trigger, end_status, outcome, pending_compensation,
        waits_for, wake_at, finished_at,
        epoch, lease_owner, lease_live, cancel_requested, updated_at, outline,
    ) = row  # fmt: skip
    header = RunHeader(
        status=_RUN_STATUS[status],
        rollback=_ROLLBACK[rollback],
        trigger=trigger,
        end_status=None if end_status is None else _RUN_STATUS[end_status],
        outcome=outcome,
        pending_compensation=pending_compensation,
        waits_for=waits_for,
        wake_at=wake_at,
        finished_at=finished_at,
    )
    run = NewRun(
        id=run_id,
        reactor=reactor,
        shape=shape,
        inputs=inputs,
        header=header,
        created_at=created_at,
        root_id=root_id,
        parent_id=parent_id,
        parent_path=parent_path,
        idempotency_key=idempotency_key,
        inputs_digest=inputs_digest,
        correlation_id=correlation_id,
        outline=outline,
    )
    return StoredRun(
        run=run,
        epoch=epoch,
        lease_owner=lease_owner,
        lease_live=bool(lease_live),
        cancel_requested=cancel_requested,
        updated_at=updated_at,
    )


def step_record(row: Row) -> StepRecord:
    """Return the step in a row of `select_steps`."""
    (
        path, scope, position, inputs, started_at, status, attempts, recoveries, completed_order,
        result, error, rollback, rollback_attempts, rollback_error, due_at, nested,
        finished_at,
    ) = row  # fmt: skip
    progress = StepProgress(
        status=_STEP_STATUS[status],
        attempts=attempts,
        recoveries=recoveries,
        completed_order=completed_order,
        result=result,
        error=error,
        rollback=_STEP_ROLLBACK[rollback],
        rollback_attempts=rollback_attempts,
        rollback_error=rollback_error,
        due_at=due_at,
        nested=bool(nested),
        finished_at=finished_at,
    )
    return StepRecord(path, scope, position, inputs, started_at, progress)


def event(row: Row) -> Event:
    """Return the event in a row of `read_events`."""
    return Event(*row)


def keyed_run(row: Row) -> KeyedRun:
    """Return what a row of `find_key` tells of an idempotency key."""
    run_id, inputs_digest, status, outcome = row
    return KeyedRun(run_id, inputs_digest, None if status is None else _RUN_STATUS[status], outcome)
