"""Calandria: workflows that never leave a system half-done.

What it takes to declare a reactor is loaded here; what it takes to run one, when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from calandria.coordination.operating import reach_sequences_with
from calandria.coordination.primitives import Lock, OrderedLock, Period, RateLimit, Semaphore
from calandria.definition.execution import make_executor_with
from calandria.definition.hand_off import after, before
from calandria.definition.nodes import compose, map_each, spawn
from calandria.definition.reactors import Reactor
from calandria.definition.redaction import Redacted
from calandria.definition.references import element, index, inputs
from calandria.definition.step_function import step
from calandria.definition.steps import Step
from calandria.errors import (
    CalandriaError,
    ContentionError,
    Deadlock,
    DecodingError,
    DefinitionError,
    EncodingError,
    HandOffRefused,
    HoldLost,
    IdempotencyConflict,
    KeyUnusable,
    LockNotAcquired,
    OutOfTurn,
    RateLimited,
    RunBusy,
    RunStateError,
    SchemaOutdated,
    SemaphoreFull,
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
from calandria.statuses import RollbackState, RunStatus, StepRollback, StepStatus

if TYPE_CHECKING:
    from calandria.runtime.executor import RuntimeExecutor
    from calandria.runtime.map_result import MapResult
    from calandria.runtime.run import Run
    from calandria.runtime.runtime import Runtime, configure, register, runs
    from calandria.runtime.sequences import RuntimeSequences
    from calandria.runtime.settings import Settings
    from calandria.runtime.worker import Worker

_LOADED_WHEN_USED = {
    "MapResult": "calandria.runtime.map_result",
    "Run": "calandria.runtime.run",
    "Runtime": "calandria.runtime.runtime",
    "Settings": "calandria.runtime.settings",
    "Worker": "calandria.runtime.worker",
    "configure": "calandria.runtime.runtime",
    "register": "calandria.runtime.runtime",
    "runs": "calandria.runtime.runtime",
}

__all__ = [
    "CalandriaError",
    "ContentionError",
    "Deadlock",
    "DecodingError",
    "DefinitionError",
    "Dispatched",
    "EncodingError",
    "Failure",
    "Halt",
    "HandOffRefused",
    "HoldLost",
    "IdempotencyConflict",
    "KeyUnusable",
    "Lock",
    "LockNotAcquired",
    "MapResult",
    "Middleware",
    "OrderedLock",
    "OutOfTurn",
    "Paused",
    "Period",
    "RateLimit",
    "RateLimited",
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
    "Semaphore",
    "SemaphoreFull",
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


def _make_executor() -> RuntimeExecutor:
    from calandria.runtime.executor import RuntimeExecutor

    return RuntimeExecutor()


make_executor_with(_make_executor)


def _reach_sequences(runtime: Runtime | None) -> RuntimeSequences:
    from calandria.runtime.runtime import runtime_of
    from calandria.runtime.sequences import RuntimeSequences

    return RuntimeSequences(runtime_of(runtime))


reach_sequences_with(_reach_sequences)


def __getattr__(name: str) -> object:
    module = _LOADED_WHEN_USED.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(importlib.import_module(module), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
