"""The coordination store: who holds which key, in which order, how often, how long.

An execution (a run, a spawned unit, a direct call) holds keys through paths in it. What is nested
inside a holder re-enters; siblings contend like strangers. Everything that one piece of work needs
is taken in one step, all or nothing, so that none of it is ever held while waiting for the rest.
Expiry is timed by the store's own clock; windows and marks go by the wall clock.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

TURN_PREFIX = "turn:"
"""What a key waited for begins with when it is a turn in an ordered sequence."""


class HoldKind(str, Enum):
    """What kind of hold it is."""

    LOCK = "lock"
    SEMAPHORE = "semaphore"


@dataclass(frozen=True)
class HoldRequest:
    """A lock (`limit` 1) or a place in a semaphore, for `ttl` seconds unless renewed."""

    kind: HoldKind
    key: str
    limit: int
    ttl: float


@dataclass(frozen=True)
class RateRequest:
    """One more start under a key; `windows` are pairs of a window's seconds and its limit."""

    key: str
    windows: Sequence[tuple[int, int]]


@dataclass(frozen=True)
class PeriodRequest:
    """The right to work in a bucket of time, if no other run has left its mark there."""

    key: str
    bucket: str


@dataclass(frozen=True)
class TurnRequest:
    """The turn of this execution's position in an ordered sequence.

    A position is assigned to an execution and path that has none. With `keep` it stays when the
    turn has not come, as for a worker that tries again; else it is handed back.
    """

    key: str
    strict: bool
    poison_timeout: float
    keep: bool


@dataclass(frozen=True)
class AcquireRequest:
    """Everything one piece of work needs, taken all or nothing.

    `execution` and `path` say who asks; `label` (reactor and step) is for people. Requests whose
    keys came out equal count once, with the smallest limit and the longest ttl.
    """

    execution: str
    path: str
    label: str
    now: float
    holds: Sequence[HoldRequest] = ()
    rates: Sequence[RateRequest] = ()
    periods: Sequence[PeriodRequest] = ()
    turns: Sequence[TurnRequest] = ()


@dataclass(frozen=True)
class Hold:
    """One hold: who has it, through which path, since and until when, and its fencing token.

    `token` rises with every grant of the key. Instants are by the wall clock.
    """

    kind: HoldKind
    key: str
    execution: str
    path: str
    label: str
    token: int
    acquired_at: float
    expires_in: float


@dataclass(frozen=True)
class Granted:
    """Everything was taken."""

    holds: Sequence[Hold] = ()


class Refusal(str, Enum):
    """Why nothing was taken."""

    HELD = "held"
    """Others hold the lock, or fill the semaphore."""
    RATE = "rate"
    PERIOD = "period"
    """Another run has left its mark in this bucket of time."""
    TURN = "turn"
    """Positions before this one are not done."""
    CHAIN_FAILED = "ordered_lock_chain_failed"
    """A position before this one, of the same batch, failed."""
    STALE = "ordered_lock_stale"
    """The position was passed because its execution had proved no life for too long."""
    MIXED = "mixed"
    """The key is held as another kind."""


@dataclass(frozen=True)
class Refused:
    """Nothing was taken: `key`, of primitive `primitive`, was not to be had.

    `holders` are the executions in the way. `retry_after` is in how many seconds it may be, where
    that is known. `detail` is for people.
    """

    reason: Refusal
    primitive: str
    key: str
    holders: Sequence[str] = ()
    retry_after: float | None = None
    detail: str = ""


@dataclass(frozen=True)
class PeriodMark:
    """The mark that a run leaves in a bucket of time with the commit of its success.

    `over_at` is when the bucket is over, by the wall clock: the mark is of no use any more then.
    """

    key: str
    bucket: str
    run_id: str
    path: str
    over_at: float = math.inf


@dataclass(frozen=True)
class TurnEnd:
    """A position of an ordered sequence is done, its rollback included, or has failed.

    With `handed_back` it is as if it had never been given.
    """

    key: str
    path: str
    failed: bool
    handed_back: bool = False


@dataclass(frozen=True)
class Wait:
    """What came of noting a wait: how often in a row the run waited, or the circle it closes.

    `circle` is the runs that would wait for each other, the one asked about first.
    """

    tries: int = 0
    circle: Sequence[str] = ()


@dataclass(frozen=True)
class Waiter:
    """A run parked for a key: who, for what, since when (by the wall clock)."""

    run_id: str
    key: str
    label: str
    since: float


@dataclass(frozen=True)
class SequencePosition:
    """One position of an ordered sequence, for operators."""

    position: int
    execution: str
    path: str
    state: str
    label: str


def encloses(outer: str, inner: str) -> bool:
    """Tell whether the path `outer` is `inner`, or around it."""
    return outer in ("", inner) or inner.startswith((f"{outer}/", f"{outer}["))


class CoordinationStore(Protocol):
    """Keeps holds, windows, marks and sequences. Safe from many threads and processes at once.

    Raises `StorageError` when the storage cannot be reached: work never goes on unprotected.
    """

    def acquire(self, request: AcquireRequest) -> Granted | Refused:
        """Take everything asked for, or nothing.

        Idempotent per path: what the path holds already is granted again, with its token, and
        extended. Checked in the fixed order turns, periods, rates, locks by key, semaphores by
        key; the first that cannot be had is the one refused. Live holds of the path's ancestors in
        the same execution let it in.
        """
        ...

    def release(self, execution: str, path: str) -> Sequence[str]:
        """Let go of everything a path holds; return the keys. Idempotent."""
        ...

    def settle(
        self,
        execution: str,
        path: str,
        *,
        marks: Sequence[PeriodMark],
        turn_ends: Sequence[TurnEnd],
        now: float,
    ) -> None:
        """Let go of what a path holds, and leave what its end leaves, for work without a run."""
        ...

    def assign(self, request: AcquireRequest) -> None:
        """Give an execution that is about to be recorded its positions; takes nothing."""
        ...

    def renew(self, holds: Sequence[Hold], *, ttls: Sequence[float]) -> Sequence[Hold]:
        """Extend holds by their `ttls` from now; return those that were lost.

        A hold is lost when it lapsed and another execution took the key, or its row is gone. One
        that lapsed and was not taken is simply extended.
        """
        ...

    def see(self, execution: str) -> None:
        """Note that an execution lives, so that its positions in sequences are not passed."""
        ...

    def adopt(self, execution: str, *, now: float) -> Sequence[Hold]:
        """Return the live holds of an execution that a new process takes up, with new tokens.

        Those that lapsed are gone: the process that had them is told at its next renewal.
        """
        ...

    def drop(self, execution: str, *, keep: Sequence[str]) -> None:
        """Let go of every hold of an execution but those of the paths in `keep`."""
        ...

    def wait_for(
        self, run_id: str, key: str, *, label: str, now: float, holders: Sequence[str] = ()
    ) -> Wait:
        """Note that the work `label` of a run is parked for a key, whose release makes its job due.

        A release wakes the run that has waited longest, and the end of a turn the one whose turn
        it is. `holders` are those of the refusal: if one of them let go in the meantime, the job
        is due at once, so that no release is missed. What the work waited for before it waits for
        no more, and the next run is woken in its place.

        Counts how often in a row it was parked without having been woken by a release; a grant to
        the work ends the row. If this wait would close a circle of runs waiting for each other's
        holds or turns, nothing is noted; for a semaphore all of its holders must be in circles.
        """
        ...

    def stop_waiting(self, run_id: str, key: str) -> None:
        """Note that a run waits for a key no more, without having got it. Idempotent."""
        ...

    def holds(self, *, execution: str | None = None) -> Sequence[Hold]:
        """Return live holds, oldest first; of one execution if given."""
        ...

    def waiters(self) -> Sequence[Waiter]:
        """Return the runs that wait for keys, the longest wait first."""
        ...

    def sequence_keys(self) -> Sequence[str]:
        """Return the keys of the ordered sequences that have not drained, in order."""
        ...

    def sequence(self, key: str) -> Sequence[SequencePosition]:
        """Return the positions of an ordered sequence, in order."""
        ...

    def skip(self, key: str, position: int) -> bool:
        """Pass a position; its execution ends skipped. False if there is none to pass."""
        ...

    def reset(self, key: str) -> int:
        """Forget a whole sequence; return how many positions it had."""
        ...

    def prune(self, *, now: float) -> int:
        """Delete marks and windows whose time is over, drained sequences, and holds long lapsed.

        `now` is by the wall clock. Returns how many rows it deleted.
        """
        ...
