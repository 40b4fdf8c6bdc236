"""What one piece of work needs before it may begin: its declarations with their keys computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from calandria.coordination.keys import compute_key
from calandria.coordination.periods import bucket_of
from calandria.coordination.primitives import (
    WINDOWS,
    Lock,
    OrderedLock,
    Period,
    Primitive,
    RateLimit,
    Semaphore,
)
from calandria.definition.node_definition import ReactorDefinition
from calandria.errors import (
    CalandriaError,
    ContentionError,
    KeyUnusable,
    LockNotAcquired,
    OutOfTurn,
    RateLimited,
    SemaphoreFull,
)
from calandria.ports.coordination import (
    TURN_PREFIX,
    AcquireRequest,
    HoldKind,
    HoldRequest,
    PeriodRequest,
    RateRequest,
    Refusal,
    Refused,
    TurnRequest,
)
from calandria.runtime.settings import Settings


@dataclass(frozen=True)
class Needs:
    """What is to be taken for a path: everything, or, going backward, locks and semaphores."""

    path: str
    label: str
    holds: tuple[HoldRequest, ...] = ()
    rates: tuple[RateRequest, ...] = ()
    periods: tuple[tuple[str, str | int], ...] = ()
    turns: tuple[tuple[str, bool, float], ...] = ()
    waits: Mapping[str, float] | None = None
    """By key, how long to wait for it."""
    rollback_waits: Mapping[str, float] | None = None
    granted_at: float | None = None
    """When it was taken, by the wall clock; `None` before."""

    def __bool__(self) -> bool:
        return bool(self.holds or self.rates or self.periods or self.turns)

    def request(
        self,
        execution: str,
        now: float,
        *,
        keep_turn: bool,
        backward: bool = False,
        admitted: bool = False,
    ) -> AcquireRequest:
        """Return the request that takes all of it at `now`.

        Rate limits, periods and ordered locks never gate what goes `backward`; the first two not
        what was `admitted` before, as by a process that died. With `keep_turn` a position in a
        sequence is kept when its turn has not come.
        """
        if backward:
            return AcquireRequest(execution, self.path, self.label, now, holds=self.holds)
        return AcquireRequest(
            execution,
            self.path,
            self.label,
            now,
            holds=self.holds,
            rates=() if admitted else self.rates,
            periods=[
                PeriodRequest(key, bucket_of(every, now))
                for key, every in self.periods
                if not admitted
            ],
            turns=[
                TurnRequest(key, strict, timeout, keep_turn) for key, strict, timeout in self.turns
            ],
        )

    def wait(self, key: str, *, backward: bool = False) -> float:
        """Return how long to wait for a key."""
        waits = self.rollback_waits if backward else self.waits
        return 0.0 if waits is None else waits.get(key, 0.0)

    def ttl(self, key: str) -> float:
        """Return the ttl of the hold on a key."""
        return next(hold.ttl for hold in self.holds if hold.key == key)


def needs_of(
    primitives: Sequence[Primitive],
    values: Mapping[str, Any],
    redacted: frozenset[str],
    settings: Settings,
    *,
    path: str,
    label: str,
) -> Needs:
    """Compute the keys of what is declared.

    Raises `KeyUnusable` naming the work and the primitive, `CalandriaError` for a rate limit whose
    name is not registered.
    """
    holds: list[HoldRequest] = []
    rates: list[RateRequest] = []
    periods: list[tuple[str, str | int]] = []
    turns: list[tuple[str, bool, float]] = []
    waits: dict[str, float] = {}
    rollback_waits: dict[str, float] = {}
    for primitive in primitives:
        try:
            key = compute_key(primitive.key, values, redacted)
        except KeyUnusable as error:
            kind = type(primitive).__name__
            raise KeyUnusable(f"{label}: its {kind} cannot be taken: {error}.") from error
        match primitive:
            case Lock():
                holds.append(HoldRequest(HoldKind.LOCK, key, 1, cast(float, primitive.ttl)))
                rollback_waits[key] = cast(float, primitive.rollback_wait)
                waits[key] = cast(float, primitive.wait)
            case Semaphore():
                ttl = cast(float, primitive.ttl)
                holds.append(HoldRequest(HoldKind.SEMAPHORE, key, primitive.limit, ttl))
                rollback_waits[key] = cast(float, primitive.rollback_wait)
                waits[key] = cast(float, primitive.wait)
            case RateLimit():
                rates.append(RateRequest(key, _windows(primitive, settings, label)))
                waits[key] = cast(float, primitive.wait)
            case Period():
                periods.append((key, primitive.every))
            case OrderedLock():
                turns.append((key, primitive.strict, cast(float, primitive.poison_timeout)))
    return Needs(
        path,
        label,
        tuple(holds),
        tuple(rates),
        tuple(periods),
        tuple(turns),
        waits,
        rollback_waits,
    )


def check_rate_limits(definition: ReactorDefinition, settings: Settings) -> None:
    """Raise `CalandriaError` for a named rate limit, at any depth, that is not registered."""
    _check_named(definition.coordination, settings, definition.name)
    for node in definition.nodes.values():
        _check_named(node.coordination, settings, f"{definition.name}.{node.name}")
        if node.reactor is not None:
            check_rate_limits(node.reactor.definition(), settings)


def _check_named(declared: Sequence[Primitive], settings: Settings, label: str) -> None:
    for primitive in declared:
        if isinstance(primitive, RateLimit):
            _windows(primitive, settings, label)


def _windows(rate: RateLimit, settings: Settings, label: str) -> list[tuple[int, int]]:
    limits = rate.limits
    if rate.name is not None:
        limits = settings.rate_limits.get(rate.name)
        if limits is None:
            known = ", ".join(sorted(settings.rate_limits)) or "none"
            raise CalandriaError(
                f"{label}: the rate limit {rate.name!r} is not registered. Register it with "
                f"Settings(rate_limits={{...}}); registered: {known}."
            )
    assert limits is not None
    return [(WINDOWS[window], limit) for window, limit in limits.items()]


KINDS: Mapping[str, str] = {
    "Lock": "lock",
    "Semaphore": "semaphore",
    "RateLimit": "rate limit",
    "Period": "period",
    "OrderedLock": "turn",
}
"""What a run that waits is said to wait for."""

_ERRORS: Mapping[str, type[ContentionError]] = {
    "Lock": LockNotAcquired,
    "Semaphore": SemaphoreFull,
    "RateLimit": RateLimited,
    "OrderedLock": OutOfTurn,
}


def refusal_message(
    refused: Refused, needs: Needs, *, tries: int = 0, backward: bool = False
) -> str:
    """Return what was not to be had, and who has it; `tries` is how often a worker tried."""
    held = f", held by {', '.join(refused.holders)}" if refused.holders else ""
    detail = f" ({refused.detail})" if refused.detail else ""
    after = f" after {tries} tries" if tries else ""
    wait = needs.wait(refused.key, backward=backward)
    waited = f" within {wait:g} s" if wait and not tries else ""
    return (
        f"{needs.label}: {refused.primitive} {refused.key!r} was not to be had{waited}{after}"
        f"{held}{detail}."
    )


def contention_error(
    refused: Refused, needs: Needs, *, reactor: str | None, step: str | None, tries: int = 0
) -> ContentionError:
    """Return the error for a key that was not to be had; `tries` is how often a worker tried."""
    advice = (
        "`calandria keys` shows who has it; a higher snooze_max_attempts has runs wait longer."
        if tries
        else "Try again later, wait longer, or run in the background, where it would wait its turn."
    )
    return _ERRORS[refused.primitive](
        f"{refusal_message(refused, needs, tries=tries)} {advice}",
        reactor=reactor,
        step=step,
        key=refused.key,
        retry_after=refused.retry_after,
    )


def wait_key(refused: Refused) -> str:
    """Return what a parked run is noted to wait for."""
    return f"{TURN_PREFIX}{refused.key}" if refused.reason is Refusal.TURN else refused.key
