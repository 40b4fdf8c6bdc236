"""What a run shows of itself: its trace, its steps, its progress."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from calandria.results import Failure, RollbackFailure
from calandria.statuses import StepRollback, StepStatus

StepKind = Literal["step", "compose", "map", "element", "nested"]


@dataclass(frozen=True)
class TraceEntry:
    """One line of a run's trace. `sequence` rises; `at` is by the wall clock, in UTC."""

    sequence: int
    at: datetime
    kind: str
    path: str | None = None
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class StepView:
    """One step of a run, as it stands. `inputs` and `result` are redacted."""

    path: str
    name: str
    kind: StepKind
    status: StepStatus
    attempts: int
    recoveries: int
    started_at: datetime
    finished_at: datetime | None
    inputs: Mapping[str, Any]
    result: Any
    error: Failure | None
    rollback: StepRollback
    rollback_failures: list[RollbackFailure] = field(default_factory=list)


@dataclass(frozen=True)
class Progress:
    """How far a run has come.

    `completed` of `total` steps at the top are done; `maps` gives, for each map that was reached,
    how many elements are done and, once it is known, of how many.
    """

    completed: int
    total: int | None
    maps: Mapping[str, tuple[int, int | None]] = field(default_factory=dict)


def instant(seconds: float) -> datetime:
    """Return an aware UTC datetime for seconds since 1970."""
    return datetime.fromtimestamp(seconds, UTC)
