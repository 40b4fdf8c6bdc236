"""What a step or a run came to: frozen records to `match` on, and the signals that end a step."""

from __future__ import annotations

import os
import traceback as tracebacks
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, NoReturn, TypeAlias, TypeVar

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

MAX_TRACEBACK_FRAMES = 100


@dataclass(frozen=True)
class Success(Generic[T_co]):
    """The work was done; `value` is what it returned."""

    value: T_co
    run_id: str | None = field(default=None, compare=False, kw_only=True)

    ok: ClassVar[bool] = True


@dataclass(frozen=True)
class Skipped(Generic[T_co]):
    """Nothing had to be done; `value` flows on as a success would, and is never undone."""

    value: T_co | None = None
    run_id: str | None = field(default=None, compare=False, kw_only=True)

    ok: ClassVar[bool] = True


@dataclass(frozen=True)
class Halt:
    """The reactor ended early, on purpose, with its progress kept."""

    reason: str | None = None
    run_id: str | None = field(default=None, compare=False, kw_only=True)

    ok: ClassVar[bool] = True


@dataclass(frozen=True)
class Paused:
    """The run waits for people: `interrupts` are the ready ones, by path."""

    run_id: str
    interrupts: tuple[str, ...] = ()
    correlation_id: str | None = None

    ok: ClassVar[bool] = False


@dataclass(frozen=True)
class Dispatched:
    """The run is in other hands: a worker's, or another process that executes it now."""

    run_id: str

    ok: ClassVar[bool] = False


@dataclass(frozen=True)
class RollbackFailure:
    """One compensate or undo that did not finish.

    `kind` is `compensate`, `undo` or `undo_all`; `reason` is `raised`, `returned_failure`,
    `coordination_unavailable`, `crashed`, `state_unavailable` or `element_in_flight`.
    """

    step: str
    kind: str
    reason: str
    key: str | None = None
    message: str = ""
    map_step: str | None = None
    element_index: int | None = None


@dataclass(frozen=True)
class Failure:
    """The work failed.

    `error` is the message. `exception` is the object, in the process that saw it; elsewhere a
    `RecordedFailure`. `inputs` are those of the failing step, redacted. `rollback_failures` is
    empty when the rollback completed.
    """

    error: str
    retryable: bool = field(default=True, kw_only=True)
    exception: BaseException | None = field(default=None, compare=False, kw_only=True)
    exception_class: str | None = field(default=None, kw_only=True)
    reactor: str | None = field(default=None, kw_only=True)
    step: str | None = field(default=None, kw_only=True)
    inputs: Mapping[str, Any] = field(default_factory=dict, compare=False, kw_only=True)
    attempts: int = field(default=0, compare=False, kw_only=True)
    payload: Any = field(default=None, compare=False, kw_only=True)
    validation_errors: Mapping[str, Sequence[str]] = field(
        default_factory=dict, compare=False, kw_only=True
    )
    traceback: tuple[str, ...] = field(default=(), compare=False, kw_only=True)
    rollback_failures: list[RollbackFailure] = field(
        default_factory=list, compare=False, kw_only=True
    )
    run_id: str | None = field(default=None, compare=False, kw_only=True)

    ok: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if isinstance(self.error, BaseException):
            exception: BaseException = self.error
            object.__setattr__(self, "error", describe_exception(exception))
            object.__setattr__(self, "exception", exception)
            if self.exception_class is None:
                object.__setattr__(self, "exception_class", type(exception).__qualname__)
            if not self.traceback:
                object.__setattr__(self, "traceback", traceback_lines(exception))


Result: TypeAlias = Success[T] | Skipped[T] | Halt | Failure | Paused | Dispatched


class RecordedFailure(Exception):
    """A failure read back from the journal: `str()` is its message, `original_class` its class."""

    def __init__(self, message: str, original_class: str | None = None) -> None:
        super().__init__(message)
        self.original_class = original_class


class Signal(BaseException):
    """Ends the running step from any call depth.

    A `BaseException`, so that a step's own `except Exception` does not swallow it; `finally`
    blocks and context managers still run on the way out.
    """

    def __init__(self, outcome: Success[Any] | Skipped[Any] | Halt | Failure) -> None:
        super().__init__(outcome)
        self.outcome = outcome


def fail(error: str | BaseException, retryable: bool = True) -> NoReturn:
    """End the running step as failed.

    Args:
        error: the message, or an exception to take it from.
        retryable: false rules out further attempts, whatever the step's `retry` says.
    """
    raise Signal(Failure(error, retryable=retryable))  # type: ignore[arg-type]


def skip(value: Any = None) -> NoReturn:
    """End the running step as skipped: `value` flows on, nothing will be undone."""
    raise Signal(Skipped(value))


def halt(reason: str | None = None) -> NoReturn:
    """End the running step and its reactor, keeping all progress."""
    raise Signal(Halt(reason))


def describe_exception(exception: BaseException) -> str:
    """Return the message of `exception`, or its class name where it has none."""
    try:
        return str(exception) or type(exception).__name__
    except Exception:  # a broken __str__ must not hide the failure it belongs to
        return type(exception).__name__


def traceback_lines(exception: BaseException) -> tuple[str, ...]:
    """Return the last `MAX_TRACEBACK_FRAMES` frames of `exception`, formatted, outermost first.

    They begin at the user's code: what called it is the same for every step.
    """
    frames = tracebacks.extract_tb(exception.__traceback__)
    lines = tracebacks.format_list(frames[_first_of_user(frames) :][-MAX_TRACEBACK_FRAMES:])
    return tuple(line.rstrip("\n") for line in lines)


_OWN = os.path.dirname(os.path.abspath(__file__)) + os.sep
# a result that another thread or a loop had to hand over comes through these
_BETWEEN = tuple(
    os.path.join(os.path.dirname(os.__file__), n, "") for n in ("asyncio", "concurrent")
)


def _first_of_user(frames: tracebacks.StackSummary) -> int:
    """Return where the library's own frames at the top end; 0 if there are no others."""
    for place, frame in enumerate(frames):
        if not frame.filename.startswith((_OWN, *_BETWEEN)):
            return place
    return 0
