"""The five primitives, as declared: `coordination = [Lock("stock:{product_id}", ttl=30)]`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Literal, TypeAlias

from calandria.coordination.keys import Key, fields_of
from calandria.coordination.operating import sequences_of
from calandria.errors import DefinitionError
from calandria.ports.coordination import SequencePosition

if TYPE_CHECKING:
    from calandria.runtime.runtime import Runtime

Duration: TypeAlias = float | timedelta

SHORTEST_TTL = 0.2
"""Seconds: what renewal can keep up with."""

WINDOWS: Mapping[str, int] = {"second": 1, "minute": 60, "hour": 3600, "day": 86400}
"""The windows of a rate limit, in seconds."""

CALENDAR_UNITS = ("minute", "hour", "day", "week", "month", "quarter", "year")


def _seconds(owner: object, name: str, value: object, minimum: float) -> float:
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    kind = type(owner).__name__
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        raise DefinitionError(f"{kind}({name}={value!r}): give seconds or a timedelta.")
    if not seconds >= minimum:
        raise DefinitionError(f"{kind}({name}={value!r}): give at least {minimum:g} s.")
    return float(seconds)


def _check_key(owner: object, key: object) -> None:
    kind = type(owner).__name__
    if isinstance(key, str):
        if not key.strip():
            raise DefinitionError(f"{kind}(key={key!r}): the key is empty.")
        fields_of(key)
    elif not callable(key):
        raise DefinitionError(
            f"{kind}(key={key!r}): give a template such as 'stock:{{product_id}}', or a function "
            "of the inputs."
        )


def _check_limit(owner: object, limit: object) -> None:
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        kind = type(owner).__name__
        raise DefinitionError(f"{kind}(limit={limit!r}): give a whole number of at least 1.")


@dataclass(frozen=True)
class Lock:
    """At most one execution at a time holds the key.

    Args:
        key: a template over the validated inputs, or a function that receives them as attributes.
        ttl: how long the hold outlives a process that died; it is renewed while the work runs.
        wait: how long to wait for the key before contention counts.
        rollback_wait: how long a compensate or an undo waits for it; by default `ttl`.

    Durations are seconds or `timedelta`. Raises `DefinitionError` for values out of range.
    """

    key: Key
    ttl: Duration = 60.0
    wait: Duration = 0.0
    rollback_wait: Duration | None = None

    def __post_init__(self) -> None:
        _check_key(self, self.key)
        ttl = _seconds(self, "ttl", self.ttl, SHORTEST_TTL)
        object.__setattr__(self, "ttl", ttl)
        object.__setattr__(self, "wait", _seconds(self, "wait", self.wait, 0))
        back = ttl if self.rollback_wait is None else self.rollback_wait
        object.__setattr__(self, "rollback_wait", _seconds(self, "rollback_wait", back, 0))


@dataclass(frozen=True)
class Semaphore:
    """At most `limit` executions at a time hold the key.

    Args:
        key: a template over the validated inputs, or a function that receives them as attributes.
        limit: how many; at least 1.
        ttl: how long a hold outlives a process that died; it is renewed while the work runs.
        wait: how long to wait for a place before contention counts.
        rollback_wait: how long a compensate or an undo waits for one.

    Durations are seconds or `timedelta`. Raises `DefinitionError` for values out of range.
    """

    key: Key
    limit: int
    ttl: Duration = 60.0
    wait: Duration = 0.0
    rollback_wait: Duration = 60.0

    def __post_init__(self) -> None:
        _check_key(self, self.key)
        _check_limit(self, self.limit)
        object.__setattr__(self, "ttl", _seconds(self, "ttl", self.ttl, SHORTEST_TTL))
        object.__setattr__(self, "wait", _seconds(self, "wait", self.wait, 0))
        back = _seconds(self, "rollback_wait", self.rollback_wait, 0)
        object.__setattr__(self, "rollback_wait", back)


@dataclass(frozen=True)
class RateLimit:
    """At most so many starts in each fixed window; several windows count together or not at all.

    Args:
        key: a template over the validated inputs, or a function that receives them as attributes.
        limit: how many in one window of `per`.
        per: `second`, `minute`, `hour` or `day`.
        limits: several at once, as in `{"second": 3, "minute": 100}`, instead of the two above.
        wait: how long to wait for a window with room before contention counts.

    `RateLimit.named("stripe")` shares a limit registered in `Settings(rate_limits=...)`. Raises
    `DefinitionError` for values out of range.
    """

    key: Key
    limit: int | None = None
    per: Literal["second", "minute", "hour", "day"] = "second"
    limits: Mapping[str, int] | None = None
    wait: Duration = 0.0
    name: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        _check_key(self, self.key)
        object.__setattr__(self, "wait", _seconds(self, "wait", self.wait, 0))
        if self.name is not None:
            return
        if (self.limit is None) == (self.limits is None):
            raise DefinitionError("RateLimit: give either limit= (with per=) or limits=.")
        given: Mapping[str, object] = {self.per: self.limit} if self.limits is None else self.limits
        limits = dict(given)
        check_limits(self, limits)
        object.__setattr__(self, "limits", limits)

    @classmethod
    def named(cls, name: str, *, wait: Duration = 0.0) -> RateLimit:
        """Return the limit registered under `name` in the settings, shared by all who name it."""
        return cls(f"named:{name}".replace("{", "{{").replace("}", "}}"), wait=wait, name=name)


def check_limits(owner: object, limits: Mapping[str, object]) -> None:
    """Raise `DefinitionError` unless these are limits per window."""
    if not limits:
        raise DefinitionError("RateLimit(limits={}): give at least one window.")
    for window, limit in limits.items():
        if window not in WINDOWS:
            raise DefinitionError(f"RateLimit: {window!r} is no window: use {', '.join(WINDOWS)}.")
        _check_limit(owner, limit)


@dataclass(frozen=True)
class Period:
    """At most once in each calendar unit (UTC), or in each so many seconds.

    Args:
        key: a template over the validated inputs, or a function that receives them as attributes.
        every: `minute`, `hour`, `day`, `week`, `month`, `quarter`, `year`, or whole seconds.

    Raises `DefinitionError` for values out of range.
    """

    key: Key
    every: str | int = "day"

    def __post_init__(self) -> None:
        _check_key(self, self.key)
        if isinstance(self.every, str):
            if self.every not in CALENDAR_UNITS:
                units = ", ".join(CALENDAR_UNITS)
                raise DefinitionError(
                    f"Period(every={self.every!r}): use {units}, or whole seconds."
                )
        elif isinstance(self.every, bool) or not isinstance(self.every, int) or self.every < 1:
            raise DefinitionError(f"Period(every={self.every!r}): give whole seconds, or a unit.")


@dataclass(frozen=True)
class OrderedLock:
    """Executions pass one at a time, in the order in which they got their positions.

    Args:
        key: a template over the validated inputs, or a function that receives them as attributes.
        poison_timeout: how long a position whose execution proves no life holds up the others.
        strict: after a failure, later positions of the batch do not run.

    Durations are seconds or `timedelta`. Raises `DefinitionError` for values out of range.
    """

    key: Key
    poison_timeout: Duration = 600.0
    strict: bool = True

    def __post_init__(self) -> None:
        _check_key(self, self.key)
        timeout = _seconds(self, "poison_timeout", self.poison_timeout, SHORTEST_TTL)
        object.__setattr__(self, "poison_timeout", timeout)

    @staticmethod
    def peek(key: str, *, runtime: Runtime | None = None) -> Sequence[SequencePosition]:
        """Return the positions of the sequence under `key`, in order; none if it has drained.

        `key` is what the template became, as in `"account:7"`. Positions that are done stay until
        nobody in the sequence waits or works. `runtime` is the one to use instead of the default.
        """
        return sequences_of(runtime).peek(key)

    @staticmethod
    def skip(key: str, position: int, *, runtime: Runtime | None = None) -> bool:
        """Pass a position that holds up the others; return false if there is none to pass.

        For one whose execution will not go on. It ends skipped, reason `ordered_lock_stale`,
        should it ask for its turn after all; if it works now, the next works beside it.
        """
        return sequences_of(runtime).skip(key, position)

    @staticmethod
    def reset(key: str, *, runtime: Runtime | None = None) -> int:
        """Forget the whole sequence under `key`, failures included; return how many positions.

        Executions that still wait get new positions in the order in which they next ask; one that
        works now no longer keeps the others out.
        """
        return sequences_of(runtime).reset(key)


Primitive: TypeAlias = Lock | Semaphore | RateLimit | Period | OrderedLock
PRIMITIVES = (Lock, Semaphore, RateLimit, Period, OrderedLock)
