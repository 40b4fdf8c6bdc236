"""The protection of a step that is called on its own: an execution without a run."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any

from calandria.coordination.checks import check_declarations
from calandria.coordination.periods import mark_in
from calandria.definition.unit import StepUnit
from calandria.errors import HoldLost
from calandria.ports.coordination import Granted, Refusal, Refused, TurnEnd
from calandria.results import Halt, Skipped, Success
from calandria.runtime.context import DetachedContext
from calandria.runtime.effects import StepOutcome
from calandria.runtime.gates import (
    LONGEST_POLL,
    SHORTEST_POLL,
    halting_reason,
    raise_contention,
    refuse_waiting_for_oneself,
)
from calandria.runtime.needs import Needs, needs_of
from calandria.runtime.outcomes import failure_of

if TYPE_CHECKING:
    from calandria.runtime.runtime import Runtime


class Protection:
    """Holds what a step declares from `enter` to `leave`.

    `skipped` is true after `enter` where a period or an ordered sequence says that the step is not
    to run.
    """

    def __init__(
        self,
        runtime: Runtime,
        unit: StepUnit,
        values: Mapping[str, Any],
        context: DetachedContext,
        *,
        backward: bool = False,
    ) -> None:
        self._runtime = runtime
        self._unit = unit
        self._values = values
        self._context = context
        self._book = context.book
        self._execution = context.execution
        self._path = context.path
        self._backward = backward
        self._needs: Needs | None = None
        self.skipped = False

    def enter(self) -> None:
        """Take what the step declares.

        Raises `ContentionError`, having done nothing, `KeyUnusable`, `CalandriaError` when the key
        is held by the very execution that asks, or `CancelledError` once the context is stopped.
        """
        unit = self._unit
        if not unit.coordination:
            return
        redacted = unit.contract.redacted
        checked = check_declarations(unit.coordination, unit.contract.fields, redacted)
        needs = needs_of(
            checked,
            self._values,
            redacted,
            self._runtime.settings,
            path=self._path,
            label=unit.name,
        )
        try:
            self.skipped = self._take(needs) is not None
        except BaseException:
            self._end(needs, [TurnEnd(key, needs.path, False, True) for key, _, _ in needs.turns])
            raise

    def _take(self, needs: Needs) -> Refused | None:
        clock, store = self._runtime.services.clock, self._runtime.gates.store
        began, pause = clock.monotonic(), SHORTEST_POLL
        while True:
            now = clock.now()
            answer = store.acquire(
                needs.request(self._execution, now, keep_turn=True, backward=self._backward)
            )
            if isinstance(answer, Granted):
                self._keep(dataclasses.replace(needs, granted_at=now), answer)
                return None
            if halting_reason(answer) is not None:
                self._end(needs, [TurnEnd(key, needs.path, False) for key, _, _ in needs.turns])
                return answer
            refuse_waiting_for_oneself(answer, needs)
            left = needs.wait(answer.key, backward=self._backward) - (clock.monotonic() - began)
            if left <= 0 or answer.reason not in (Refusal.HELD, Refusal.RATE):
                raise_contention(answer, needs, reactor=None, step=self._unit.name)
            if self._context.stopped:
                raise CancelledError
            self._runtime.wait_for_release(min(pause, left))
            pause = min(pause * 2, LONGEST_POLL)

    def _keep(self, needs: Needs, granted: Granted) -> None:
        self._needs = needs
        self._book.add(needs.path, granted.holds, needs.ttl)
        if needs.turns and not self._backward:
            patience = min(timeout for _, _, timeout in needs.turns)
            self._book.beat(needs.path, self._execution, patience)
        self._runtime.keeper.keep(self._book)

    def judge(self, outcome: StepOutcome) -> StepOutcome:
        """Return what a body came to: a failure if its protection lapsed while it ran."""
        if self._needs is None or self._backward or not self._book.lost_paths():
            return outcome
        lost = self._book.lost_around(self._needs.path)
        assert lost is not None
        return failure_of(
            HoldLost(
                f"{self._unit.name}: the {lost.kind.value} {lost.key!r} lapsed while the work ran "
                "and went to another execution; what it did is not taken as done. Give a longer "
                "ttl."
            )
        )

    def leave(self, outcome: StepOutcome | None) -> None:
        """Let go of it all, and leave what the work's end leaves; `None` if it was interrupted."""
        needs = self._needs
        if needs is None:
            return
        self._runtime.keeper.let_be(self._book)
        self._book.remove(needs.path)
        if self._backward:
            self._end(needs, [])
            return
        well = isinstance(outcome, (Success, Skipped, Halt))
        ends = [TurnEnd(key, needs.path, not well) for key, _, _ in needs.turns]
        self._end(needs, ends, marks=isinstance(outcome, Success))

    def _end(self, needs: Needs, ends: list[TurnEnd], *, marks: bool = False) -> None:
        runtime, now = self._runtime, self._runtime.services.clock.now()
        at = now if needs.granted_at is None else needs.granted_at
        left = [
            mark_in(every, at, key=key, run_id=self._execution, path=needs.path)
            for key, every in needs.periods
            if marks
        ]
        runtime.gates.store.settle(self._execution, needs.path, marks=left, turn_ends=ends, now=now)
        runtime.released()
