"""The life of runs in the standard log: one structured record for each thing that happens.

Each record's message is the line itself, `event=step.completed run=… step=…`, so that any handler
shows it; the same fields are on the record as a mapping, `record.calandria`, for formatters that
want them apart.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from typing import Any, Literal, TextIO

from calandria.ports.middleware import Middleware, RunInfo, StepInfo
from calandria.results import Failure, RollbackFailure
from calandria.telemetry.formatters import FIELDS, JsonFormatter, KeyValueFormatter, key_values

_RUN = logging.getLogger("calandria.run")
_STEP = logging.getLogger("calandria.step")
_ROLLBACK = logging.getLogger("calandria.rollback")
_LEASE = logging.getLogger("calandria.lease")
_COORDINATION = logging.getLogger("calandria.coordination")


class LoggingMiddleware(Middleware):
    """Logs to `calandria.run`, `.step`, `.rollback`, `.coordination` and `.lease`.

    Name it in `configure(middleware=[LoggingMiddleware])` or in a reactor's `middleware`. What a
    step or a run returned is never logged. With `inputs` the inputs of runs and steps are, with
    `Redacted` ones as "[REDACTED]".

    Example::

        calandria.configure(middleware=[lambda: LoggingMiddleware(inputs=True)])
    """

    def __init__(self, *, inputs: bool = False) -> None:
        self._with_inputs = inputs

    def run_started(self, run: RunInfo) -> None:
        """Log `run.started` at INFO."""
        taken_up = {"taken_up": True} if run.taken_up else {}
        self._run(logging.INFO, "run.started", run, **taken_up, **self._inputs(run.inputs))

    def run_completed(self, run: RunInfo, value: Any) -> None:
        """Log `run.completed` at INFO."""
        self._run(logging.INFO, "run.completed", run)

    def run_failed(self, run: RunInfo, failure: Failure) -> None:
        """Log `run.failed` at ERROR, with how many rollback actions did not finish."""
        left = len(failure.rollback_failures)
        place = {"step": failure.step, "rollback_failures": left}
        self._run(logging.ERROR, "run.failed", run, **place, **_failure(failure))

    def run_halted(self, run: RunInfo, reason: str | None) -> None:
        """Log `run.halted` at INFO."""
        self._run(logging.INFO, "run.halted", run, reason=reason)

    def run_paused(self, run: RunInfo) -> None:
        """Log `run.paused` at INFO."""
        self._run(logging.INFO, "run.paused", run)

    def run_handed_over(self, run: RunInfo) -> None:
        """Log `run.handed_over` at INFO."""
        self._run(logging.INFO, "run.handed_over", run)

    def run_parked(self, run: RunInfo, waits_for: str) -> None:
        """Log `run.parked` at INFO, with what it waits for."""
        self._run(logging.INFO, "run.parked", run, waits_for=waits_for)

    def run_cancelled(self, run: RunInfo, reason: str | None) -> None:
        """Log `run.cancelled` at WARNING."""
        self._run(logging.WARNING, "run.cancelled", run, reason=reason)

    def run_aborted(self, run: RunInfo, exception: BaseException | None) -> None:
        """Log `run.aborted` at WARNING."""
        interrupted_by = type(exception).__name__ if exception is not None else None
        self._run(logging.WARNING, "run.aborted", run, exception=interrupted_by)

    def step_started(self, step: StepInfo) -> None:
        """Log `step.started` at DEBUG."""
        self._step(_STEP, logging.DEBUG, "step.started", step, **self._inputs(step.inputs))

    def step_completed(self, step: StepInfo, value: Any) -> None:
        """Log `step.completed` at INFO."""
        self._step(_STEP, logging.INFO, "step.completed", step)

    def step_failed(self, step: StepInfo, failure: Failure) -> None:
        """Log `step.failed` at WARNING: what it means for the run is the run's own record."""
        self._step(_STEP, logging.WARNING, "step.failed", step, **_failure(failure))

    def step_retried(self, step: StepInfo, failure: Failure, delay: float) -> None:
        """Log `step.retried` at WARNING, with the seconds until the next attempt."""
        self._step(_STEP, logging.WARNING, "step.retried", step, delay=delay, **_failure(failure))

    def step_skipped(self, step: StepInfo) -> None:
        """Log `step.skipped` at INFO."""
        self._step(_STEP, logging.INFO, "step.skipped", step)

    def step_halted(self, step: StepInfo, reason: str | None) -> None:
        """Log `step.halted` at INFO."""
        self._step(_STEP, logging.INFO, "step.halted", step, reason=reason)

    def compensation_started(self, step: StepInfo) -> None:
        """Log `compensation.started` at DEBUG."""
        self._step(_ROLLBACK, logging.DEBUG, "compensation.started", step)

    def compensation_completed(self, step: StepInfo) -> None:
        """Log `compensation.completed` at INFO."""
        self._step(_ROLLBACK, logging.INFO, "compensation.completed", step)

    def compensation_failed(self, step: StepInfo, failure: RollbackFailure) -> None:
        """Log `compensation.failed` at ERROR: somebody has to look at it."""
        self._step(
            _ROLLBACK, logging.ERROR, "compensation.failed", step, **_rollback_failure(failure)
        )

    def undo_started(self, step: StepInfo) -> None:
        """Log `undo.started` at DEBUG."""
        self._step(_ROLLBACK, logging.DEBUG, "undo.started", step)

    def undo_completed(self, step: StepInfo) -> None:
        """Log `undo.completed` at INFO."""
        self._step(_ROLLBACK, logging.INFO, "undo.completed", step)

    def undo_failed(self, step: StepInfo, failure: RollbackFailure) -> None:
        """Log `undo.failed` at ERROR: somebody has to look at it."""
        self._step(_ROLLBACK, logging.ERROR, "undo.failed", step, **_rollback_failure(failure))

    def hold_acquired(self, step: StepInfo, key: str, primitive: str) -> None:
        """Log `hold.acquired` at INFO, with the key and the primitive."""
        self._step(_COORDINATION, logging.INFO, "hold.acquired", step, key=key, primitive=primitive)

    def hold_refused(self, step: StepInfo, key: str, primitive: str) -> None:
        """Log `hold.refused` at INFO, with the key and the primitive."""
        self._step(_COORDINATION, logging.INFO, "hold.refused", step, key=key, primitive=primitive)

    def hold_released(self, step: StepInfo, key: str, primitive: str) -> None:
        """Log `hold.released` at INFO, with the key and the primitive."""
        self._step(_COORDINATION, logging.INFO, "hold.released", step, key=key, primitive=primitive)

    def lease_taken(self, run: RunInfo) -> None:
        """Log `lease.taken` at DEBUG, with the epoch."""
        _log(_LEASE, logging.DEBUG, "lease.taken", run, epoch=run.epoch)

    def lease_lost(self, run: RunInfo) -> None:
        """Log `lease.lost` at ERROR: another process took the run from this one."""
        _log(_LEASE, logging.ERROR, "lease.lost", run, epoch=run.epoch)

    def lease_released(self, run: RunInfo) -> None:
        """Log `lease.released` at DEBUG, with the epoch."""
        _log(_LEASE, logging.DEBUG, "lease.released", run, epoch=run.epoch)

    def _inputs(self, inputs: Mapping[str, Any]) -> dict[str, object]:
        return {"inputs": dict(inputs)} if self._with_inputs else {}

    @staticmethod
    def _run(level: int, event: str, run: RunInfo, **fields: object) -> None:
        _log(_RUN, level, event, run, **fields)

    @staticmethod
    def _step(
        logger: logging.Logger, level: int, event: str, step: StepInfo, **fields: object
    ) -> None:
        seconds = None if step.seconds is None else round(step.seconds, 6)
        # what concerns a whole run has no path and no attempt
        place = {"step": step.path or None, "attempt": step.attempt or None, "seconds": seconds}
        _log(logger, level, event, step.run, **place, **fields)


class _Line:
    """A message that is put into words only if some handler writes it."""

    def __init__(self, fields: Mapping[str, object]) -> None:
        self.fields = fields

    def __str__(self) -> str:
        return key_values(self.fields.items())


def _log(logger: logging.Logger, level: int, event: str, run: RunInfo, **fields: object) -> None:
    if not logger.isEnabledFor(level):
        return
    known: dict[str, object] = {"event": event, "run": run.run_id, "reactor": run.reactor}
    if run.root_id != run.run_id:
        known["root"] = run.root_id
    known.update((key, value) for key, value in fields.items() if value is not None)
    logger.log(level, _Line(known), extra={FIELDS: known})


def _failure(failure: Failure) -> dict[str, object]:
    return {"error": failure.error, "exception": failure.exception_class}


def _rollback_failure(failure: RollbackFailure) -> dict[str, object]:
    return {
        "kind": failure.kind,
        "reason": failure.reason,
        "error": failure.message,
        "key": failure.key,
        "element": failure.element_index,
    }


def configure_logging(
    format: Literal["key-value", "json"] = "key-value",
    level: int | str = logging.INFO,
    stream: TextIO | None = None,
) -> logging.Handler:
    """Write what Calandria logs to `stream`, and return the handler that does it.

    For scripts and the command line; an application that sets up `logging` itself needs only the
    formatters. Only the logger `calandria` is touched; it no longer hands records on to the root
    logger, so that no line appears twice. Calling it again replaces the handler of the call before.

    Args:
        format: `key-value` or `json`, one line a record either way.
        level: the least level to write, as a number or a name.
        stream: where to write; `None` means standard error.

    Raises `ValueError` for another format or an unknown level.
    """
    formatters = {"key-value": KeyValueFormatter, "json": JsonFormatter}
    if format not in formatters:
        raise ValueError(f"configure_logging(format={format!r}): use 'key-value' or 'json'.")
    handler = _Handler(stream or sys.stderr)
    handler.setFormatter(formatters[format]())
    logger = logging.getLogger("calandria")
    logger.setLevel(level)
    for earlier in [found for found in logger.handlers if isinstance(found, _Handler)]:
        logger.removeHandler(earlier)
    logger.addHandler(handler)
    logger.propagate = False
    return handler


class _Handler(logging.StreamHandler[TextIO]):
    """The handler that `configure_logging` adds, known by its type."""
