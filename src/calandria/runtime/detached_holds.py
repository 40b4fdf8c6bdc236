"""The protection of a step that is called on its own: an execution without a run."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from calandria.coordination.checks import check_declarations
from calandria.coordination.periods import bucket_of
from calandria.definition.unit import StepUnit
from calandria.ports.coordination import Granted, PeriodMark, Refusal, Refused, TurnEnd
from calandria.results import Skipped
from calandria.runtime.context import DetachedContext
from calandria.runtime.gates import (
    LONGEST_POLL,
    SHORTEST_POLL,
    current_execution,
    halting_reason,
    raise_contention,
    refuse_waiting_for_oneself,
)
from calandria.runtime.hold_book import HoldBook
from calandria.runtime.needs import Needs, needs_of

if TYPE_CHECKING:
    from calandria.runtime.runtime import Runtime


@contextlib.contextmanager
def protected(
    runtime: Runtime,
    unit: StepUnit,
    values: Mapping[str, Any],
    context: DetachedContext,
    *,
    backward: bool = False,
) -> Iterator[Skipped[Any] | None]:
    """Hold what a step declares while the block runs.

    Yields a `Skipped` instead of entering where a period or an ordered sequence says that the
    step is not to run. Raises `ContentionError`, having done nothing, `KeyUnusable`, or
    `CalandriaError` when the key is held by the very execution that asks.
    """
    if not unit.coordination:
        yield None
        return
    checked = check_declarations(unit.coordination, unit.contract.fields, unit.contract.redacted)
    redacted = unit.contract.redacted
    needs = needs_of(checked, values, redacted, runtime.settings, path=unit.name, label=unit.name)
    execution = context.idempotency_key
    refused = _take(runtime, needs, execution, context.book, backward=backward)
    if refused is not None:
        yield Skipped(None)
        return
    runtime.keeper.keep(context.book)
    outside = current_execution.set(execution)
    failed = True
    try:
        yield None
        failed = False
    finally:
        current_execution.reset(outside)
        runtime.keeper.let_be(context.book)
        context.book.remove(needs.path)
        _let_go(runtime, needs, execution, failed=failed, backward=backward)


def _take(
    runtime: Runtime, needs: Needs, execution: str, book: HoldBook, *, backward: bool
) -> Refused | None:
    clock, store = runtime.services.clock, runtime.gates.store
    began, pause = clock.monotonic(), SHORTEST_POLL
    while True:
        request = needs.request(execution, clock.now(), keep_turn=False, backward=backward)
        answer = store.acquire(request)
        if isinstance(answer, Granted):
            book.add(needs.path, answer.holds, needs.ttl)
            return None
        if halting_reason(answer) is not None:
            return answer
        refuse_waiting_for_oneself(answer, needs)
        left = needs.wait(answer.key, backward=backward) - (clock.monotonic() - began)
        if left <= 0 or answer.reason not in (Refusal.HELD, Refusal.RATE):
            raise_contention(answer, needs, needs.label)
        runtime.wait_for_release(min(pause, left))
        pause = min(pause * 2, LONGEST_POLL)


def _let_go(
    runtime: Runtime, needs: Needs, execution: str, *, failed: bool, backward: bool
) -> None:
    now = runtime.services.clock.now()
    marks: list[PeriodMark] = []
    ends: list[TurnEnd] = []
    if not backward:
        ends = [TurnEnd(key, needs.path, failed) for key, _, _ in needs.turns]
        if not failed:
            marks = [
                PeriodMark(key, bucket_of(every, now), execution, needs.path)
                for key, every in needs.periods
            ]
    runtime.gates.store.settle(execution, needs.path, marks=marks, turn_ends=ends, now=now)
    runtime.released()
