"""The statuses of a run and of a step: who moves each one on, and every allowed move.

Read this page first. The engine checks every move of a step against these tables, the diagrams of
the documentation are made from them, and the storage's checks are tested to be equal to them.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


class RunStatus(str, Enum):
    """Where a run stands."""

    PENDING = "pending"
    """Recorded, not started: its job, or whoever takes its lease, moves it on."""
    RUNNING = "running"
    """Going forward under a lease; its owner moves it on, or whoever takes the lapsed lease."""
    PAUSED = "paused"
    """Waits for people: a claim or a due timeout moves it on."""
    ROLLING_BACK = "rolling_back"
    """Compensating and undoing: its owner moves it on, or whoever takes the lapsed lease."""
    COMPLETED = "completed"
    """Every step is done. A person may undo it."""
    FAILED = "failed"
    """A step failed and the rollback ended, completely or not. A person may undo the rest."""
    HALTED = "halted"
    """A step ended the run early, progress kept. A person may undo it."""
    CANCELLED = "cancelled"
    """A person stopped it (progress kept) or undid it (nothing kept but what could not be)."""
    ABORTED = "aborted"
    """Interrupted in the caller's process; no rollback code ran. A person may undo it."""


RUN_TRANSITIONS: Mapping[RunStatus, frozenset[RunStatus]] = {
    RunStatus.PENDING: frozenset(
        {RunStatus.RUNNING, RunStatus.CANCELLED, RunStatus.FAILED, RunStatus.HALTED}
    ),
    RunStatus.RUNNING: frozenset(
        {
            RunStatus.PENDING,
            RunStatus.PAUSED,
            RunStatus.ROLLING_BACK,
            RunStatus.COMPLETED,
            RunStatus.FAILED,
            RunStatus.HALTED,
            RunStatus.CANCELLED,
            RunStatus.ABORTED,
        }
    ),
    RunStatus.PAUSED: frozenset({RunStatus.RUNNING, RunStatus.ROLLING_BACK, RunStatus.CANCELLED}),
    RunStatus.ROLLING_BACK: frozenset({RunStatus.FAILED, RunStatus.CANCELLED, RunStatus.ABORTED}),
    RunStatus.COMPLETED: frozenset({RunStatus.ROLLING_BACK}),
    RunStatus.FAILED: frozenset({RunStatus.ROLLING_BACK}),
    RunStatus.HALTED: frozenset({RunStatus.ROLLING_BACK}),
    RunStatus.CANCELLED: frozenset({RunStatus.ROLLING_BACK}),
    RunStatus.ABORTED: frozenset({RunStatus.ROLLING_BACK}),
}

FINISHED: frozenset[RunStatus] = frozenset(
    {
        RunStatus.COMPLETED,
        RunStatus.FAILED,
        RunStatus.HALTED,
        RunStatus.CANCELLED,
        RunStatus.ABORTED,
    }
)


class RollbackState(str, Enum):
    """What became of a run's rollback."""

    NONE = "none"
    COMPLETE = "complete"
    INCOMPLETE = "incomplete"


class StepStatus(str, Enum):
    """Where a step stands going forward. A step without a record was not reached."""

    STARTED = "started"
    """An attempt runs; if no live process owns the run, the attempt is in doubt."""
    RETRYING = "retrying"
    """An attempt failed and another is due."""
    COMPLETED = "completed"
    SKIPPED = "skipped"
    HALTED = "halted"
    """Ended its reactor early; what it did before that is kept."""
    FAILED = "failed"


STEP_TRANSITIONS: Mapping[StepStatus, frozenset[StepStatus]] = {
    StepStatus.STARTED: frozenset(StepStatus),
    StepStatus.RETRYING: frozenset({StepStatus.STARTED, StepStatus.FAILED}),
    StepStatus.COMPLETED: frozenset(),
    StepStatus.SKIPPED: frozenset(),
    StepStatus.HALTED: frozenset(),
    StepStatus.FAILED: frozenset(),
}


class StepRollback(str, Enum):
    """Where a step stands going backward."""

    NONE = "none"
    COMPENSATING = "compensating"
    COMPENSATED = "compensated"
    COMPENSATE_FAILED = "compensate_failed"
    UNDOING = "undoing"
    UNDONE = "undone"
    UNDO_FAILED = "undo_failed"


STEP_ROLLBACK_TRANSITIONS: Mapping[StepRollback, frozenset[StepRollback]] = {
    StepRollback.NONE: frozenset(
        {
            StepRollback.COMPENSATING,
            StepRollback.COMPENSATED,
            StepRollback.UNDOING,
            StepRollback.UNDONE,
            StepRollback.UNDO_FAILED,
        }
    ),
    StepRollback.COMPENSATING: frozenset(
        {StepRollback.COMPENSATING, StepRollback.COMPENSATED, StepRollback.COMPENSATE_FAILED}
    ),
    StepRollback.COMPENSATED: frozenset(),
    StepRollback.COMPENSATE_FAILED: frozenset({StepRollback.COMPENSATING}),
    StepRollback.UNDOING: frozenset(
        {StepRollback.UNDOING, StepRollback.UNDONE, StepRollback.UNDO_FAILED}
    ),
    StepRollback.UNDONE: frozenset(),
    StepRollback.UNDO_FAILED: frozenset({StepRollback.UNDOING}),
}
