"""What the engine wants done next. Each is committed as intended before it is acted on."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias


class Ending(str, Enum):
    """How a level of a run ended."""

    COMPLETED = "completed"
    HALTED = "halted"
    FAILED = "failed"
    CANCELLED = "cancelled"
    ABORTED = "aborted"
    UNDONE = "undone"


@dataclass(frozen=True, slots=True)
class RunStep:
    """Start an attempt; `recovery` if it repeats one that a crash cut off, under its number."""

    name: str
    attempt: int
    recovery: bool = False


@dataclass(frozen=True, slots=True)
class Reconcile:
    """Ask the outside world whether the cut-off attempt landed."""

    name: str


@dataclass(frozen=True, slots=True)
class RetryLater:
    """Send `RetryDue` after `delay` seconds; `None` if the delay was set before a restore."""

    name: str
    delay: float | None


@dataclass(frozen=True, slots=True)
class GiveUp:
    """A crash cut the attempt off too often: it counts as failed, for that reason."""

    name: str


@dataclass(frozen=True, slots=True)
class BeginRollback:
    """From here on the level goes backward.

    `dropped` are steps whose next attempt was due: none is made, they count as failed.
    """

    dropped: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Compensate:
    """Clean up after a step that failed."""

    name: str


@dataclass(frozen=True, slots=True)
class Undo:
    """Reverse a step that succeeded, or roll back what a nested level left outstanding."""

    name: str


@dataclass(frozen=True, slots=True)
class GiveUpRollback:
    """A crash cut the compensate or undo off too often: it counts as failed, for that reason."""

    name: str


@dataclass(frozen=True, slots=True)
class RollbackLater:
    """Send `RollbackRetryDue` after `delay` seconds."""

    name: str
    delay: float


@dataclass(frozen=True, slots=True)
class HandOver:
    """A worker is to go on from here: nothing is in flight and the point of hand-off is reached."""


@dataclass(frozen=True, slots=True)
class Finish:
    """The level is over. `incomplete`: something could not be rolled back."""

    ending: Ending
    incomplete: bool = False


@dataclass(frozen=True, slots=True)
class FindOutstanding:
    """Find the map's highest element below `below` with something outstanding.

    `cut_off_only` passes over the completed ones, which a bulk undo reverses in one call.
    `failed_too` includes those whose rollback was tried and failed.
    """

    below: int | None
    cut_off_only: bool = False
    failed_too: bool = False


@dataclass(frozen=True, slots=True)
class UndoAll:
    """Reverse all the map's completed elements by one call; nothing to do if there are none."""


Command: TypeAlias = (
    RunStep
    | Reconcile
    | RetryLater
    | GiveUp
    | BeginRollback
    | Compensate
    | Undo
    | GiveUpRollback
    | RollbackLater
    | FindOutstanding
    | UndoAll
    | HandOver
    | Finish
)
