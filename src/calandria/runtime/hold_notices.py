"""What the trace and the middleware are told of coordination, and by which words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from calandria.ports.coordination import Hold, HoldKind, Refused
from calandria.ports.middleware import RunInfo, StepInfo

if TYPE_CHECKING:
    from calandria.runtime.journal import Journal
    from calandria.runtime.needs import Needs
    from calandria.runtime.observers import Observers

PRIMITIVE_WORDS: Mapping[str, str] = {
    "Lock": "lock",
    "Semaphore": "semaphore",
    "RateLimit": "rate_limit",
    "Period": "period",
    "OrderedLock": "ordered_lock",
}


def obtained(needs: Needs, *, backward: bool = False) -> Iterator[tuple[str, str]]:
    """Yield key and primitive of all that was taken, in the order of taking."""
    if not backward:
        yield from ((key, "ordered_lock") for key, _, _ in needs.turns)
        yield from ((key, "period") for key, _ in needs.periods)
        yield from ((rate.key, "rate_limit") for rate in needs.rates)
    for kind in (HoldKind.LOCK, HoldKind.SEMAPHORE):
        yield from sorted((hold.key, kind.value) for hold in needs.holds if hold.kind is kind)


def tell_entered(journal: Journal, run: RunInfo, needs: Needs, holds: Iterable[Hold]) -> None:
    """Tell that a run was let in at its own gates."""
    tokens = {hold.key: hold.token for hold in holds if hold.path == ""}
    for key, primitive in obtained(needs):
        if primitive in ("lock", "semaphore"):
            journal.event("hold.acquired", key=key, primitive=primitive, token=tokens.get(key))
        else:
            journal.event("hold.acquired", key=key, primitive=primitive)
        journal.notice("hold_acquired", whole(run), key, primitive)


def tell_left(journal: Journal, run: RunInfo, holds: Iterable[Hold], turns: Iterable[str]) -> None:
    """Tell that a run let go of what it still had, in reverse of the order of taking."""
    for hold in reversed(list(holds)):
        journal.event("hold.released", hold.path or None, key=hold.key, primitive=hold.kind.value)
        info = StepInfo(run, hold.path, 0, {}) if hold.path else whole(run)
        journal.notice("hold_released", info, hold.key, hold.kind.value)
    for key in turns:
        journal.event("hold.released", key=key, primitive="ordered_lock")
        journal.notice("hold_released", whole(run), key, "ordered_lock")


def whole(run: RunInfo) -> StepInfo:
    """Return what stands for a whole run where a hook takes a step: no path, no attempt."""
    return StepInfo(run, "", 0, run.inputs)


def tell_parked(observers: Observers, run: RunInfo, refused: Refused, waits_for: str) -> None:
    """Tell that a worker gave a run back that is not let in at its own gates."""
    observers.notify("hold_refused", whole(run), refused.key, PRIMITIVE_WORDS[refused.primitive])
    observers.notify("run_parked", run, waits_for)
