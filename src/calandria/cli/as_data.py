"""Runs and what belongs to them as plain data, for `--json`: the keys here are a contract."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from calandria.cli.console import jsonable
from calandria.ports.coordination import Hold
from calandria.ports.jobs import WorkerReport
from calandria.results import (
    Dispatched,
    Failure,
    Halt,
    Paused,
    Result,
    RollbackFailure,
    Skipped,
    Success,
)
from calandria.runtime.run import Run
from calandria.runtime.units import child_id
from calandria.runtime.views import StepView, TraceEntry

Data = dict[str, object]


def run_data(run: Run) -> Data:
    """Return what a listing tells of a run."""
    return {
        "id": run.id,
        "reactor": run.reactor,
        "status": run.status.value,
        "rollback": run.rollback.value,
        "needs_attention": run.needs_attention,
        "waiting_on": run.waiting_on,
        "idempotency_key": run.idempotency_key,
        "created_at": instant_data(run.created_at),
        "updated_at": instant_data(run.updated_at),
        "finished_at": instant_data(run.finished_at),
    }


def run_details(run: Run) -> Data:
    """Return everything `show` tells of a run, without its steps and its trace."""
    done = run.progress
    return {
        **run_data(run),
        "inputs": jsonable(run.inputs),
        "failure": None if run.failure is None else failure_data(run.failure),
        "pending_compensation": run.pending_compensation,
        "holds": [hold_data(hold, datetime.now(UTC)) for hold in run.holds],
        "ready_interrupts": jsonable(run.ready_interrupts),
        "children": [child.id for child in run.children],
        "epoch": run.epoch,
        "lease_owner": run.lease_owner,
        "progress": {
            "completed": done.completed,
            "total": done.total,
            "maps": {path: list(counts) for path, counts in done.maps.items()},
        },
    }


def step_tree_data(run: Run) -> list[Data]:
    """Return the steps of a run that were reached, each with those below it."""
    return _steps_data(run, "", frozenset(child.id for child in run.children))


def _steps_data(run: Run, scope: str, children: frozenset[str]) -> list[Data]:
    return [
        {**step_data(step, run, children), "steps": _steps_data(run, step.path, children)}
        for step in run.steps(scope)
    ]


def step_data(step: StepView, run: Run, children: frozenset[str]) -> Data:
    """Return what there is to tell of one step; `children` are the ids of the run's units."""
    unit = child_id(run.id, step.path)
    return {
        "path": step.path,
        "name": step.name,
        "kind": step.kind,
        "status": step.status.value,
        "rollback": step.rollback.value,
        "attempts": step.attempts,
        "recoveries": step.recoveries,
        "started_at": instant_data(step.started_at),
        "finished_at": instant_data(step.finished_at),
        "inputs": jsonable(step.inputs),
        "result": jsonable(step.result),
        "error": None if step.error is None else failure_data(step.error),
        "rollback_failures": [rollback_failure_data(one) for one in step.rollback_failures],
        "spawned_run": unit if unit in children else None,
    }


def trace_data(entry: TraceEntry) -> Data:
    """Return one line of a run's trace."""
    return {
        "sequence": entry.sequence,
        "at": instant_data(entry.at),
        "kind": entry.kind,
        "path": entry.path,
        "data": jsonable(entry.data),
    }


def hold_data(hold: Hold, now: datetime) -> Data:
    """Return one hold; `until` is when it lapses unless its process renews it."""
    return {
        "key": hold.key,
        "kind": hold.kind.value,
        "run": hold.execution,
        "path": hold.path,
        "step": hold.label,
        "token": hold.token,
        "since": instant_data(datetime.fromtimestamp(hold.acquired_at, UTC)),
        "until": instant_data(now + timedelta(seconds=hold.expires_in)),
    }


def failure_data(failure: Failure) -> Data:
    """Return a failure; its inputs are redacted."""
    return {
        "error": failure.error,
        "exception_class": failure.exception_class,
        "reactor": failure.reactor,
        "step": failure.step,
        "attempts": failure.attempts,
        "retryable": failure.retryable,
        "inputs": jsonable(failure.inputs),
        "validation_errors": {k: list(v) for k, v in failure.validation_errors.items()},
        "traceback": list(failure.traceback),
        "rollback_failures": [rollback_failure_data(one) for one in failure.rollback_failures],
    }


def worker_data(report: WorkerReport, *, alive: bool) -> Data:
    """Return what a worker says of itself."""
    return {
        "worker": report.owner,
        "host": report.host,
        "process": report.process,
        "threads": report.threads,
        "alive": alive,
        "draining": report.draining,
        "running": list(report.running),
        "performed": report.performed,
        "started_at": instant_data(datetime.fromtimestamp(report.started_at, UTC)),
        "seen_at": instant_data(datetime.fromtimestamp(report.seen_at, UTC)),
    }


def rollback_failure_data(failure: RollbackFailure) -> Data:
    """Return a compensate or undo that did not finish."""
    return {
        "step": failure.step,
        "kind": failure.kind,
        "reason": failure.reason,
        "message": failure.message,
        "key": failure.key,
        "map_step": failure.map_step,
        "element_index": failure.element_index,
    }


def result_data(result: Result[Any], value: object) -> Data:
    """Return what a run came to; `value` is what may be shown of its value."""
    data: Data = {
        "run": result.run_id,
        "outcome": outcome_of(result),
        "value": jsonable(value),
        "reason": result.reason if isinstance(result, Halt) else None,
        "failure": failure_data(result) if isinstance(result, Failure) else None,
    }
    if isinstance(result, Paused):
        data["interrupts"] = list(result.interrupts)
    return data


_OUTCOMES: Mapping[type, str] = {
    Success: "completed",
    Skipped: "completed",
    Halt: "halted",
    Failure: "failed",
    Paused: "paused",
    Dispatched: "dispatched",
}


def outcome_of(result: Result[Any]) -> str:
    """Return in one word what a run came to."""
    if isinstance(result, Failure) and result.run_id is None:
        return "invalid"
    return _OUTCOMES[type(result)]


def instant_data(instant: datetime | None) -> str | None:
    """Return an instant as text."""
    return None if instant is None else instant.isoformat()
