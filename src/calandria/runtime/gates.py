"""A run's own gates: what its reactor declares, taken before anything of the run happens."""

from __future__ import annotations

import contextvars
import dataclasses
import logging
import math
import weakref
from typing import TYPE_CHECKING, Any, NoReturn

from calandria.definition.node_definition import ReactorDefinition
from calandria.errors import CalandriaError
from calandria.ports.coordination import (
    CoordinationStore,
    Granted,
    Refusal,
    Refused,
    TurnEnd,
    Wait,
)
from calandria.ports.run_store import CoordinationChanges
from calandria.results import Failure, Halt
from calandria.runtime.needs import (
    KINDS,
    Needs,
    check_rate_limits,
    contention_error,
    needs_of,
    wait_key,
)
from calandria.runtime.outcomes import failure_of
from calandria.runtime.session import Session

if TYPE_CHECKING:
    from calandria.runtime.runtime import Runtime

logger = logging.getLogger("calandria.coordination")

SHORTEST_POLL = 0.002
LONGEST_POLL = 0.1

_executions: contextvars.ContextVar[tuple[str, ...]] = contextvars.ContextVar(
    "calandria_executions", default=()
)
"""The executions whose steps are running in this context, the outermost first."""


class Gates:
    """Takes and lets go of what whole reactors declare."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._checked: weakref.WeakSet[ReactorDefinition] = weakref.WeakSet()

    @property
    def store(self) -> CoordinationStore:
        """The coordination of the runtime's storage; raises `CalandriaError` if it has none."""
        found: CoordinationStore | None = getattr(self._runtime.store, "coordination", None)
        if found is None:
            raise CalandriaError(
                f"{self._runtime.storage_url} keeps no coordination: use a SQL storage."
            )
        return found

    def check(self, definition: ReactorDefinition) -> None:
        """Raise `CalandriaError` if a reactor uses a rate limit that is not registered."""
        if definition not in self._checked:
            check_rate_limits(definition, self._runtime.settings)
            self._checked.add(definition)

    def needs(self, definition: ReactorDefinition, inputs: dict[str, Any]) -> Needs | None:
        """Return what a reactor needs, `None` for nothing; raises `KeyUnusable`."""
        if not definition.coordination:
            return None
        return needs_of(
            definition.coordination,
            inputs,
            definition.contract.redacted,
            self._runtime.settings,
            path="",
            label=definition.name,
        )

    def enter(
        self,
        session: Session,
        needs: Needs,
        *,
        longest_wait: float = math.inf,
        backward: bool = False,
        admitted: bool = False,
    ) -> Refused | None:
        """Take what a run needs, waiting for it; `None` when it was taken.

        It waits as long as is declared, but for at most `longest_wait` seconds. What the run holds
        already, as after a crash, is taken again at once, and a run that was `admitted` before is
        asked for no rate limit and no period again. A position in a sequence is kept in any case:
        see `hand_back`. Raises `CalandriaError` when the key is held by the very execution whose
        step asks, which would wait for itself.
        """
        clock = self._runtime.services.clock
        began, pause = clock.monotonic(), SHORTEST_POLL
        while True:
            now = self._runtime.services.clock.now()
            request = needs.request(
                session.run_id, now, keep_turn=True, backward=backward, admitted=admitted
            )
            answer = self.store.acquire(request)
            if isinstance(answer, Granted):
                session.holds.add("", answer.holds, needs.ttl)
                session.requests[""] = dataclasses.replace(needs, granted_at=now)
                session.adopted.pop("", None)
                return None
            refuse_waiting_for_oneself(answer, needs)
            if answer.reason not in (Refusal.HELD, Refusal.RATE):
                return answer
            limit = min(needs.wait(answer.key, backward=backward), longest_wait)
            left = limit - (clock.monotonic() - began)
            if left <= 0:
                return answer
            self._runtime.wait_for_release(min(pause, left))
            pause = min(pause * 2, LONGEST_POLL)

    def leave(self, session: Session) -> None:
        """Let go of what a run took whose record was never made."""
        needs = session.requests.pop("", None)
        if needs is not None:
            session.holds.remove("")
            self.hand_back(session.run_id, needs)

    def hand_back(self, run_id: str, needs: Needs) -> None:
        """Let go of what a run that is not let in has, as if it had never asked."""
        now = self._runtime.services.clock.now()
        ends = [TurnEnd(key, "", failed=False, handed_back=True) for key, _, _ in needs.turns]
        self.store.settle(run_id, "", marks=[], turn_ends=ends, now=now)
        self._runtime.released()

    def turn_ends(self, needs: Needs | None, *, failed: bool) -> list[TurnEnd]:
        """Return the ends of a run's own positions in ordered sequences."""
        return [] if needs is None else [TurnEnd(key, "", failed) for key, _, _ in needs.turns]

    def adopt(self, session: Session) -> None:
        """Take over the live holds of a run that is taken up; drop those that protect no work."""
        run_id = session.run_id
        holds = self.store.adopt(run_id, now=self._runtime.services.clock.now())
        if not holds:
            return
        for hold in holds:
            if hold.path in session.adopted or self._still_works(run_id, hold.path):
                session.adopted.setdefault(hold.path, []).append(hold)
        self.store.drop(run_id, keep=list(session.adopted))

    def _still_works(self, run_id: str, path: str) -> bool:
        if path == "":
            return True
        record = self._runtime.store.read_step(run_id, path)
        return record is not None and record.progress.status.value == "started"

    def refusal(self, refused: Refused, needs: Needs, reactor: str) -> Halt:
        """Return the result of a call that was not let in; raises `ContentionError`."""
        reason = halting_reason(refused)
        if reason is None:
            raise_contention(refused, needs, reactor)
        return Halt(reason)

    def ending(self, run_id: str, refused: Refused, needs: Needs) -> Failure | None:
        """Return how a run fails that a worker could not let in; `None` while it goes on waiting.

        Notes the wait. An ordered turn is waited for without limit.
        """
        if refused.reason is Refusal.MIXED:
            return dataclasses.replace(
                failure_of(mixed_error(refused, needs), retryable=False), reactor=needs.label
            )
        wait = self._note_wait(run_id, refused, needs)
        limit = self._runtime.settings.snooze_max_attempts
        if wait.circle:
            circle = " -> ".join(wait.circle)
            return Failure(
                f"{needs.label}: waiting for {refused.key!r} would close a circle of runs that "
                f"wait for each other: {circle}.",
                retryable=False,
                exception_class="Deadlock",
                reactor=needs.label,
            )
        if wait.tries > limit and refused.reason is not Refusal.TURN:
            error = contention_error(refused, needs, reactor=needs.label, step=None, tries=limit)
            return dataclasses.replace(failure_of(error, retryable=False), reactor=needs.label)
        return None

    def note_admitted_wait(self, run_id: str, refused: Refused, needs: Needs) -> None:
        """Note the wait of a run that has begun: it goes on, and is said once to take long."""
        wait = self._note_wait(run_id, refused, needs)
        if wait.tries == self._runtime.settings.snooze_max_attempts:
            logger.warning(
                "event=resume.waiting run=%s key=%r tries=%d", run_id, refused.key, wait.tries
            )

    def _note_wait(self, run_id: str, refused: Refused, needs: Needs) -> Wait:
        now = self._runtime.services.clock.now()
        key, holders = wait_key(refused), refused.holders
        return self.store.wait_for(run_id, key, label=needs.label, now=now, holders=holders)


def positions_of(run_id: str, needs: Needs | None, now: float) -> CoordinationChanges | None:
    """Return what gives a run its places in ordered sequences in the commit that creates it."""
    if needs is None or not needs.turns:
        return None
    return CoordinationChanges(positions=[needs.request(run_id, now, keep_turn=True)], now=now)


def enter_execution(execution: str) -> contextvars.Token[tuple[str, ...]]:
    """Note that a step of this execution runs in this context from now on."""
    return _executions.set((*_executions.get(), execution))


def leave_execution(outside: contextvars.Token[tuple[str, ...]]) -> None:
    """Note that the step has ended that `enter_execution` announced."""
    _executions.reset(outside)


def describe_wait(refused: Refused, needs: Needs) -> str:
    """Return what a run waits for at its gates, as its header says it."""
    return f"{KINDS[refused.primitive]} {refused.key} ({needs.label})"


def halting_reason(refused: Refused) -> str | None:
    """Return why a run ends before its first step, if a refusal means that; else `None`."""
    match refused.reason:
        case Refusal.PERIOD:
            return "period"
        case Refusal.CHAIN_FAILED | Refusal.STALE:
            return str(refused.reason.value)
        case _:
            return None


def raise_contention(
    refused: Refused, needs: Needs, reactor: str | None, step: str | None = None
) -> NoReturn:
    """Raise the error for a gate that was not to be had."""
    if refused.reason is Refusal.MIXED:
        raise mixed_error(refused, needs)
    raise contention_error(refused, needs, reactor=reactor, step=step)


def mixed_error(refused: Refused, needs: Needs) -> CalandriaError:
    """Return the error for a key that is a lock's and a semaphore's."""
    return CalandriaError(
        f"{needs.label}: {refused.primitive} {refused.key!r} cannot be taken: {refused.detail}."
    )


def refuse_waiting_for_oneself(refused: Refused, needs: Needs) -> None:
    """Raise `CalandriaError` if who asks is inside the execution that holds the key."""
    if refused.reason is Refusal.HELD and not set(_executions.get()).isdisjoint(refused.holders):
        raise CalandriaError(
            f"{needs.label}: {refused.primitive} {refused.key!r} is held by the execution whose "
            "step asks for it, so it would wait for itself. Use self.context.call(...) or, in a "
            "step of a reactor, self.context.run(...), which work inside that execution."
        )
