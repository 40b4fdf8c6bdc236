"""What an execution asks of whoever drives it.

An execution is a generator that yields these effects and is sent what came of each. It is written
once; two thin drivers perform the effects, in the caller's thread or on the caller's event loop.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from calandria.results import Failure, Halt, Skipped, Success

StepOutcome: TypeAlias = Success[Any] | Skipped[Any] | Halt | Failure


BACKWARD = frozenset({"undo", "compensate", "undo_all"})
"""The actions that a cancel of the run does not stop."""


@dataclass(frozen=True, slots=True)
class Interrupted:
    """The body was ended by an interruption; whether it landed is not known.

    `exception` is `None` when the body was cancelled on purpose, by a cancel of the run.
    """

    exception: BaseException | None


@dataclass(slots=True, eq=False)
class Body:
    """One action of a step, ready to be performed."""

    call: Callable[[], object]
    is_async: bool
    tag: Any = None
    """Whatever the execution needs to know the body by when it has settled."""
    backward: bool = False
    """Whether it undoes or compensates: a cancel of the run does not stop it then."""
    alone: bool = False
    """Whether nothing else of the run can be under way at the same time."""
    path: str = ""
    """The step it is of."""


@dataclass(slots=True)
class Settlement:
    """How a body ended: its place in the run's order of completions, and when, by two clocks."""

    body: Body
    outcome: StepOutcome | Interrupted
    order: int
    at: float
    seconds: float


@dataclass(slots=True)
class Io:
    """Perform a blocking call on the storage and send back what it returns, or throw its error."""

    call: Callable[[], Any]


@dataclass(slots=True)
class Start:
    """Begin to perform a body; nothing is sent back."""

    body: Body


@dataclass(slots=True)
class Next:
    """Send back the `Settlement` of the next body to end.

    `None` is sent after `timeout` seconds (`None`: no limit), or early when the run was asked to
    stop. Throws `Interruption` if the driver itself was interrupted.
    """

    timeout: float | None = None


Effect: TypeAlias = Io | Start | Next


class Interruption(BaseException):
    """Thrown into an execution at `Next`: whoever drives it was interrupted by `cause`."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(cause)
        self.cause = cause
