"""What a step does, what may befall it, and the facts that a history is made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias, TypeVar

from calandria.engine.commands import Ending
from calandria.engine.events import MapEvent, Outcome
from calandria.engine.node_state import NodeState

T = TypeVar("T")
Journal: TypeAlias = dict[str, NodeState]

MOST_MOVES = 2000
"""No history of a plan of this size may take longer."""


class Verdict(str, Enum):
    """What a step's body does in one attempt."""

    SUCCEED = "succeed"
    SKIP = "skip"
    HALT = "halt"
    FAIL = "fail"
    FAIL_FOR_GOOD = "fail_for_good"
    NEVER_START = "never_start"


OUTCOMES = {
    Verdict.SUCCEED: Outcome.SUCCEEDED,
    Verdict.SKIP: Outcome.SKIPPED,
    Verdict.HALT: Outcome.HALTED,
    Verdict.FAIL: Outcome.FAILED,
    Verdict.FAIL_FOR_GOOD: Outcome.FAILED,
    Verdict.NEVER_START: Outcome.FAILED,
}


@dataclass(frozen=True)
class Script:
    """What one step does whenever it is asked to; the last verdict repeats."""

    verdicts: tuple[Verdict, ...] = (Verdict.SUCCEED,)
    nested: bool = False
    incomplete: bool = False
    """A nested level that fails could not roll itself back."""
    bad_rollbacks: int = 0
    """How many attempts at its compensate or undo fail."""
    hopeless: bool = False
    """Such a failure says that trying again is pointless."""
    heals: bool = True
    """From the second rollback on, its compensate and undo succeed."""

    def verdict(self, attempt: int) -> Verdict:
        """Return what attempt number `attempt`, from 1, does."""
        return self.verdicts[min(attempt, len(self.verdicts)) - 1]


class Choices:
    """A stream of decisions; once it is used up every decision is the first, plainest one."""

    def __init__(self, numbers: Sequence[int]) -> None:
        self._numbers = iter(numbers)

    def pick(self, options: Sequence[T]) -> T:
        """Return one of `options`."""
        return options[next(self._numbers, 0) % len(options)]

    def chance(self, one_in: int) -> bool:
        """Tell whether something happens that happens once in `one_in` times."""
        return next(self._numbers, 0) % one_in == one_in - 1


@dataclass(frozen=True)
class Budget:
    """How much trouble there may be, and how much of it the engine is told to bear."""

    crashes: int = 0
    stops: int = 0
    max_recoveries: int = 2
    in_order: bool = False
    """Everything in flight ends and is collected in the order it began."""
    parks: int = 0
    """How often a process that only waits may step aside."""
    undone_after_crash: bool = True
    """Whether a level that died may be undone, as its parent's rollback would, not taken up."""


class Action(str, Enum):
    """What a world can be busy with for a step."""

    RUN = "run"
    RECONCILE = "reconcile"
    GIVE_UP = "give_up"
    COMPENSATE = "compensate"
    UNDO = "undo"
    GIVE_UP_ROLLBACK = "give_up_rollback"
    UNDO_ALL = "undo_all"


BACKWARD = frozenset({Action.COMPENSATE, Action.UNDO, Action.GIVE_UP_ROLLBACK, Action.UNDO_ALL})


@dataclass(frozen=True)
class Did:
    """The world began an action."""

    action: Action
    name: str
    attempt: int = 0
    recovery: bool = False


@dataclass(frozen=True)
class Heard:
    """The engine was told of an event, and what it made of it was committed."""

    event: MapEvent


@dataclass(frozen=True)
class Recorded:
    """The journal's entry for a step changed."""

    name: str
    before: NodeState | None
    after: NodeState


@dataclass(frozen=True)
class Turned:
    """The engine announced that it goes backward."""


@dataclass(frozen=True)
class Crashed:
    """The process died."""


@dataclass(frozen=True)
class Resumed:
    """Another process restored the level, to go on or to undo it."""

    by_hand: bool


@dataclass(frozen=True)
class Handed:
    """The process gave the level to another: its point of hand-off, or because it only waited."""

    over: bool


@dataclass(frozen=True)
class Ended:
    """The engine said that the level is over."""

    ending: Ending
    incomplete: bool


Fact: TypeAlias = Did | Heard | Recorded | Turned | Crashed | Resumed | Handed | Ended
