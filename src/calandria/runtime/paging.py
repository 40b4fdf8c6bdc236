"""Reading the records of a run a page at a time, however many there are."""

from __future__ import annotations

from collections.abc import Iterator

from calandria.ports.run_store import RunStore, StepRecord
from calandria.statuses import StepStatus

PAGE = 1000
"""How many records are held at a time."""


def steps_in(
    store: RunStore, run_id: str, scope: str, statuses: frozenset[StepStatus] = frozenset()
) -> Iterator[StepRecord]:
    """Yield the records directly in a scope, by position; with `statuses` only those."""
    after = -1
    while True:
        page = store.read_steps(run_id, scope, after=after, statuses=statuses, limit=PAGE)
        yield from page
        if len(page) < PAGE:
            return
        after = page[-1].position
