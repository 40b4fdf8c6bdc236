"""Coordination keys as people look at them: who holds which, who waits for it, whose turn it is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from calandria.ports.coordination import (
    TURN_PREFIX,
    CoordinationStore,
    Hold,
    SequencePosition,
    Waiter,
)

if TYPE_CHECKING:
    from calandria.runtime.runtime import Runtime


@dataclass
class KeyView:
    """Everything about one key: who holds it, the runs parked for it, its ordered sequence.

    `turn_waiters` are parked for their turn in the sequence, `waiters` for a lock, a semaphore or
    a rate limit. Holders are oldest first, the longest wait comes first.
    """

    key: str
    holds: list[Hold] = field(default_factory=list)
    waiters: list[Waiter] = field(default_factory=list)
    turn_waiters: list[Waiter] = field(default_factory=list)
    positions: list[SequencePosition] = field(default_factory=list)

    def concerns(self, run_id: str) -> bool:
        """Tell whether a run holds the key, waits for it, or has a position under it."""
        waiting = (waiter.run_id for waiter in (*self.waiters, *self.turn_waiters))
        return run_id in {
            *(hold.execution for hold in self.holds),
            *waiting,
            *(position.execution for position in self.positions),
        }


def key_views(runtime: Runtime, *, prefix: str = "", run_id: str | None = None) -> list[KeyView]:
    """Return the keys that are held, waited for or ordered, by key.

    Args:
        runtime: whose storage to look into.
        prefix: only keys that begin with it.
        run_id: only keys that this run holds, waits for or has a position under, with everybody
            else who does.
    """
    runtime.prepare()
    store = runtime.gates.store
    views: dict[str, KeyView] = {}
    _collect(views, store)
    return [
        view
        for name, view in sorted(views.items())
        if name.startswith(prefix) and (run_id is None or view.concerns(run_id))
    ]


def _collect(views: dict[str, KeyView], store: CoordinationStore) -> None:
    for hold in store.holds():
        _view(views, hold.key).holds.append(hold)
    for waiter in store.waiters():
        if waiter.key.startswith(TURN_PREFIX):
            _view(views, waiter.key.removeprefix(TURN_PREFIX)).turn_waiters.append(waiter)
        else:
            _view(views, waiter.key).waiters.append(waiter)
    for key in store.sequence_keys():
        positions = store.sequence(key)
        # positions that were passed may outlast the batch, until the next one or until pruning
        if any(position.state in ("waiting", "active") for position in positions):
            _view(views, key).positions.extend(positions)


def _view(views: dict[str, KeyView], key: str) -> KeyView:
    return views.setdefault(key, KeyView(key))
