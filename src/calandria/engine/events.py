"""What can happen to one level of a run. Time and randomness arrive inside events."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from calandria.engine.node_state import NodeState


class Outcome(str, Enum):
    """How an attempt at a step ended."""

    SUCCEEDED = "succeeded"
    SKIPPED = "skipped"
    HALTED = "halted"
    FAILED = "failed"
    CUT_OFF = "cut_off"
    """Interrupted or cancelled while it ran: whether it landed is not known."""


class Stopping(str, Enum):
    """Why a level is to stop before its end, with its progress kept."""

    CANCELLED = "cancelled"
    ABORTED = "aborted"


@dataclass(frozen=True, slots=True)
class Began:
    """The level is new: start what has no dependencies."""


@dataclass(frozen=True, slots=True)
class TakenUp:
    """The level was restored from the journal, to go on from where its last owner was cut off.

    `max_recoveries` is how often one action may be cut off by a crash before it counts as failed.
    """

    max_recoveries: int


@dataclass(frozen=True, slots=True)
class Settled:
    """An attempt ended.

    `order` is its place in the run's order of completions. `started` is false if the attempt
    failed before its work began. `incomplete` says that a nested level failed and could not roll
    itself back completely; `nested` that the body did nested work.
    """

    name: str
    outcome: Outcome
    order: int | None = None
    retryable: bool = True
    started: bool = True
    incomplete: bool = False
    nested: bool = False
    randomness: float = 0.5


@dataclass(frozen=True, slots=True)
class RetryDue:
    """The delay before the next attempt at a step is over."""

    name: str


@dataclass(frozen=True, slots=True)
class ReturnFailed:
    """Every step is done, but the value that the level returns cannot be had or recorded."""


@dataclass(frozen=True, slots=True)
class Blocked:
    """A step that was to start cannot yet: a key it needs is not to be had."""

    name: str


@dataclass(frozen=True, slots=True)
class Unblocked:
    """It is time to try a blocked step again."""

    name: str


@dataclass(frozen=True, slots=True)
class Stopped:
    """Someone cancelled the run, or the process executing it was interrupted."""

    why: Stopping


@dataclass(frozen=True, slots=True)
class UndoAsked:
    """A restored level is to undo whatever of it is still outstanding.

    `by_hand` says that a person asked, so that what was tried before and failed is tried again.
    """

    max_recoveries: int
    by_hand: bool = True


@dataclass(frozen=True, slots=True)
class Reconciled:
    """The outside world was asked whether a cut-off attempt landed.

    `outcome` is what it came to, or `None` if it did not land.
    """

    name: str
    outcome: Outcome | None
    order: int | None = None


@dataclass(frozen=True, slots=True)
class RolledBack:
    """A compensate or an undo ended; `retryable` is false if trying again is pointless."""

    name: str
    ok: bool
    retryable: bool = True
    randomness: float = 0.5


@dataclass(frozen=True, slots=True)
class RollbackCutOff:
    """A compensate or an undo was interrupted: it will be taken up by hand."""

    name: str


@dataclass(frozen=True, slots=True)
class RollbackRetryDue:
    """The delay before the next attempt at a compensate or an undo is over."""

    name: str


@dataclass(frozen=True, slots=True)
class Exhausted:
    """The map's source has no further element."""


@dataclass(frozen=True, slots=True)
class SourceFailed:
    """The map's source could not be read on."""


@dataclass(frozen=True, slots=True)
class Found:
    """The element a rollback of the map has to take next."""

    name: str
    step: NodeState


@dataclass(frozen=True, slots=True)
class NoneLeft:
    """No element of the map has anything outstanding."""


@dataclass(frozen=True, slots=True)
class AllUndone:
    """The bulk undo of the map's elements ended."""

    ok: bool


Event: TypeAlias = (
    Began
    | TakenUp
    | Settled
    | RetryDue
    | ReturnFailed
    | Blocked
    | Unblocked
    | Stopped
    | UndoAsked
    | Reconciled
    | RolledBack
    | RollbackCutOff
    | RollbackRetryDue
)

MapEvent: TypeAlias = Event | Exhausted | SourceFailed | Found | NoneLeft | AllUndone
