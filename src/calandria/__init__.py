"""Calandria: workflows that never leave a system half-done."""

from __future__ import annotations

from calandria.definition.hand_off import after, before
from calandria.definition.nodes import compose, map_each, spawn
from calandria.definition.reactors import Reactor
from calandria.definition.redaction import Redacted
from calandria.definition.references import element, index, inputs
from calandria.definition.step_function import step
from calandria.definition.steps import Step
from calandria.errors import (
    CalandriaError,
    DecodingError,
    DefinitionError,
    EncodingError,
    IdempotencyConflict,
    RunBusy,
    RunStateError,
    SchemaOutdated,
    StaleLease,
    StorageError,
    UndoIncomplete,
    UnknownRun,
    UnresolvedReference,
    ValidationError,
    WaitTimeout,
)
from calandria.plan.policies import Retry
from calandria.ports.middleware import Middleware, RunInfo, StepInfo
from calandria.results import (
    Dispatched,
    Failure,
    Halt,
    Paused,
    RecordedFailure,
    Result,
    RollbackFailure,
    Skipped,
    Success,
    fail,
    halt,
    skip,
)
from calandria.runtime.map_result import MapResult
from calandria.runtime.run import Run
from calandria.runtime.runtime import Runtime, configure, default_registry, runs
from calandria.runtime.settings import Settings
from calandria.runtime.worker import Worker
from calandria.statuses import RollbackState, RunStatus, StepRollback, StepStatus

register = default_registry.register
"""Let a class of your own be recorded; `encode` and `decode` say how, `name` survives a move."""

__all__ = [
    "CalandriaError",
    "DecodingError",
    "DefinitionError",
    "Dispatched",
    "EncodingError",
    "Failure",
    "Halt",
    "IdempotencyConflict",
    "MapResult",
    "Middleware",
    "Paused",
    "Reactor",
    "RecordedFailure",
    "Redacted",
    "Result",
    "Retry",
    "RollbackFailure",
    "RollbackState",
    "Run",
    "RunBusy",
    "RunInfo",
    "RunStateError",
    "RunStatus",
    "Runtime",
    "SchemaOutdated",
    "Settings",
    "Skipped",
    "StaleLease",
    "Step",
    "StepInfo",
    "StepRollback",
    "StepStatus",
    "StorageError",
    "Success",
    "UndoIncomplete",
    "UnknownRun",
    "UnresolvedReference",
    "ValidationError",
    "WaitTimeout",
    "Worker",
    "after",
    "before",
    "compose",
    "configure",
    "element",
    "fail",
    "halt",
    "index",
    "inputs",
    "map_each",
    "register",
    "runs",
    "skip",
    "spawn",
    "step",
]
