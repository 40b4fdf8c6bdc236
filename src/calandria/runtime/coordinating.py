"""Taking what a step needs before its work, and letting go of it after, for one execution."""

from __future__ import annotations

import dataclasses
import functools
import logging
from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from calandria.coordination.periods import mark_in
from calandria.coordination.primitives import Primitive
from calandria.engine.events import Blocked, Outcome, RollbackCutOff, Settled, Unblocked
from calandria.errors import CalandriaError, Deadlock, HoldLost, StorageError
from calandria.plan.model import NodeKind
from calandria.ports.coordination import (
    AcquireRequest,
    CoordinationStore,
    Granted,
    Refusal,
    Refused,
    TurnEnd,
    Wait,
)
from calandria.results import Failure, RollbackFailure
from calandria.runtime.effects import Effect, Io
from calandria.runtime.hold_notices import PRIMITIVE_WORDS, obtained
from calandria.runtime.levels import Level
from calandria.runtime.needs import (
    KINDS,
    Needs,
    contention_error,
    needs_of,
    refusal_message,
    wait_key,
)
from calandria.runtime.outcomes import failure_of
from calandria.runtime.slots import Slot
from calandria.runtime.values import Value

if TYPE_CHECKING:
    from calandria.runtime.execution import Execution

logger = logging.getLogger("calandria.coordination")

Answer = Generator[Effect, Any, bool]

LONGEST_WAIT_IN_WORKER = 1.0
"""Seconds a worker waits for a key before it parks the run."""
SHORTEST_SNOOZE = 0.06
"""Seconds: a run that waits for nothing but keys is parked at least so long."""
SHORTEST_POLL = 0.002
LONGEST_POLL = 0.1


@dataclass(slots=True)
class Contention:
    """A step that waits for a key."""

    refused: Refused
    needs: Needs
    deadline: float
    """By the monotonic clock; in a worker the run parks after it, elsewhere the step fails."""
    pause: float = SHORTEST_POLL

    def describe(self) -> str:
        """Return what is waited for, as a run's header says it."""
        return f"{KINDS[self.refused.primitive]} {self.refused.key} ({self.needs.label})"


@dataclass(frozen=True, slots=True)
class TryAgain:
    """Time to try again to take what a step needs."""

    name: str


class Coordinator:
    """Takes and lets go for the steps of an execution."""

    def __init__(self, execution: Execution) -> None:
        self._execution = execution
        self._environment = execution.environment
        self._session = execution.environment.session
        self._contentions: dict[tuple[Level, str], Contention] = {}

    @property
    def store(self) -> CoordinationStore:
        """The coordination of the run's storage."""
        return self._environment.coordination

    def declared(self, level: Level, name: str) -> tuple[Primitive, ...]:
        """Return what a step declares: its own, and for a compose what its reactor does."""
        kind = level.kind_of(name)
        definition = level.definition_of(name)
        if kind is NodeKind.STEP:
            return definition.coordination
        if kind is NodeKind.COMPOSE and definition.reactor is not None:
            return definition.coordination + definition.reactor.definition().coordination
        return ()

    # going forward

    def concerns(self, level: Level, name: str, slot: Slot) -> bool:
        """Tell whether a step has anything to take: its own, or what was lost around it."""
        lost = self._session.holds.lost_around(slot.path) is not None
        return lost or bool(self.declared(level, name))

    def take(self, level: Level, name: str, slot: Slot, *, admitted: bool) -> Answer:
        """Take what a step needs; false if it cannot begin now, or has ended with that.

        With `admitted` the attempt began before, in a process that died: quotas let it pass.
        """
        needs = self._needs(level, name, slot)
        if isinstance(needs, Failure):
            self._execution.settler.fail(level, name, slot, needs, started=False)
            return False
        if needs:
            slot.needs = needs
        journal = self._execution.journal
        if journal.ends_something or journal.marks_steps:
            yield from journal.flush()
        try:
            lost = yield from self._retake_lost(slot.path)
            if lost is not None:
                self._contend(level, name, slot, *lost)
                return False
            if not needs:
                self._no_longer_waits(level, name)
                return True
            answer = yield from self._acquire(needs, admitted=admitted)
        except StorageError as error:
            failure = failure_of(error, retryable=False)
            self._execution.settler.fail(level, name, slot, failure, started=False)
            return False
        if isinstance(answer, Granted):
            slot.needs = self._session.requests[slot.path]
            self._granted(level, name, slot, needs, answer, backward=False)
            return True
        self._refused(level, name, slot, needs, answer)
        return False

    def _needs(self, level: Level, name: str, slot: Slot) -> Needs | Failure:
        label = f"{level.reactor_name}.{slot.path}"
        try:
            return needs_of(
                self.declared(level, name),
                slot.values if slot.values is not None else {},
                level.redacted(name),
                self._session.services.settings,
                path=slot.path,
                label=label,
            )
        except CalandriaError as error:
            return failure_of(error, retryable=False)

    def _acquire(
        self, needs: Needs, *, backward: bool = False, admitted: bool = False
    ) -> Generator[Effect, Any, Granted | Refused]:
        """Ask for what is needed; a storage that fails is asked again for one lease."""
        now = self._environment.clock.now()
        request = needs.request(
            self._session.run_id, now, keep_turn=True, backward=backward, admitted=admitted
        )
        answer = yield from self._ask_patiently(request)
        if isinstance(answer, Granted):
            self._session.holds.add(needs.path, answer.holds, needs.ttl)
            self._session.requests[needs.path] = dataclasses.replace(needs, granted_at=now)
        return answer

    def _ask_patiently(self, request: AcquireRequest) -> Generator[Effect, Any, Granted | Refused]:
        clock, pause = self._environment.clock, LONGEST_POLL
        deadline = clock.monotonic() + self._session.services.settings.lease_seconds
        while True:
            try:
                answer: Granted | Refused = yield Io(functools.partial(self.store.acquire, request))
                return answer
            except StorageError:
                left = deadline - clock.monotonic()
                if left <= 0 or self._session.stops(backward=False):
                    raise
                yield Io(functools.partial(self._environment.pause, min(pause, left)))
                pause = min(pause * 2, LONGEST_WAIT_IN_WORKER)

    def _retake_lost(self, path: str) -> Generator[Effect, Any, tuple[Needs, Refused] | None]:
        """Compete again for holds around a path that lapsed: never on unprotected."""
        for outer in sorted(self._session.holds.lost_paths(), key=len):
            needs = self._session.requests.get(outer)
            if needs is None or outer == path or self._session.holds.lost_around(path) is None:
                continue
            answer = yield from self._acquire(needs, backward=True)
            if isinstance(answer, Refused):
                return needs, answer
        return None

    def _no_longer_waits(self, level: Level, name: str) -> None:
        self._contentions.pop((level, name), None)
        self._session.waits_for_keys = bool(self._contentions)

    def _granted(
        self,
        level: Level,
        name: str,
        slot: Slot,
        needs: Needs,
        granted: Granted,
        *,
        backward: bool,
    ) -> None:
        self._no_longer_waits(level, name)
        if self._session.adopted.pop(slot.path, None) is not None:
            # it was acquired by the process that died
            return
        journal = self._execution.journal
        tokens = {hold.key: {"token": hold.token} for hold in granted.holds}
        for key, primitive in obtained(needs, backward=backward):
            token = tokens.get(key, {}) if primitive in ("lock", "semaphore") else {}
            journal.event("hold.acquired", slot.path, key=key, primitive=primitive, **token)
            journal.step_notice("hold_acquired", level, name, slot, key, primitive)

    def _refused(self, level: Level, name: str, slot: Slot, needs: Needs, refused: Refused) -> None:
        if refused.reason in (Refusal.PERIOD, Refusal.CHAIN_FAILED, Refusal.STALE):
            self._skip(level, name, slot, refused)
            return
        if refused.reason is Refusal.MIXED:
            failure = Failure(
                f"{needs.label}: {refused.primitive} {refused.key!r} cannot be taken: "
                f"{refused.detail}.",
                retryable=False,
                exception_class="CalandriaError",
            )
            self._execution.settler.fail(level, name, slot, failure, started=False)
            return
        self._contend(level, name, slot, needs, refused)

    def _contend(self, level: Level, name: str, slot: Slot, needs: Needs, refused: Refused) -> None:
        journal = self._execution.journal
        contention = self._contentions.get((level, name))
        now = self._environment.clock.monotonic()
        if contention is None:
            wait = needs.wait(refused.key)
            if self._environment.parks:
                wait = min(wait, LONGEST_WAIT_IN_WORKER)
            contention = Contention(refused, needs, now + wait)
            self._contentions[level, name] = contention
            self._session.waits_for_keys = True
            primitive = PRIMITIVE_WORDS[refused.primitive]
            journal.event("hold.refused", slot.path, key=refused.key, primitive=primitive)
            journal.step_notice("hold_refused", level, name, slot, refused.key, primitive)
        contention.refused, contention.needs = refused, needs
        if now >= contention.deadline and not self._environment.parks:
            self.give_up(level, name, tries=0)
            return
        self._execution.post(level, Blocked(name))
        if now < contention.deadline:
            self._poll(level, name, contention, now)

    def _poll(self, level: Level, name: str, contention: Contention, now: float) -> None:
        pause = contention.pause
        contention.pause = min(pause * 2, LONGEST_POLL)
        self._execution.after(min(pause, contention.deadline - now), level, TryAgain(name))

    def _skip(self, level: Level, name: str, slot: Slot, refused: Refused) -> None:
        reason = "period" if refused.reason is Refusal.PERIOD else refused.reason.value
        journal, primitive = self._execution.journal, PRIMITIVE_WORDS[refused.primitive]
        journal.event(f"step.{reason}", slot.path, key=refused.key)
        journal.step_notice("hold_refused", level, name, slot, refused.key, primitive)
        slot.started_at = slot.finished_at = self._environment.clock.now()
        slot.result = Value.record(None, self._environment.codec)
        slot.unsaved_result = slot.result.text
        order = self._session.next_order()
        self._execution.post(level, Settled(name, Outcome.SKIPPED, order, started=False))

    def try_again(self, level: Level, name: str) -> None:
        """Let a blocked step try again."""
        if (level, name) in self._contentions:
            self._execution.post(level, Unblocked(name))

    def give_up(self, level: Level, name: str, *, tries: int, circle: str = "") -> None:
        """Fail a step that cannot have its key: after `tries`, or because of a circle of waits."""
        contention = self._contentions.pop((level, name))
        slot = level.slot(name)
        refused, needs = contention.refused, contention.needs
        if not self._environment.parks and slot.needs is not None:
            # nothing was done in this position, and nobody will come back for it
            self._execution.journal.coordination.turn_ends += [
                TurnEnd(key, slot.path, failed=False, handed_back=True)
                for key, _, _ in slot.needs.turns
            ]
        error = contention_error(
            refused, needs, reactor=level.reactor_name, step=slot.path, tries=tries
        )
        if circle:
            error = Deadlock(
                f"{needs.label}: waiting for {refused.primitive} {refused.key!r} would close a "
                f"circle of runs that wait for each other: {circle}. Have them take their keys in "
                "one order.",
                reactor=level.reactor_name,
                step=slot.path,
                key=refused.key,
            )
        failure = failure_of(error, retryable=False)
        self._execution.settler.fail(level, name, slot, failure, started=False)

    # stepping aside

    @property
    def waiting(self) -> list[tuple[Level, str, Contention]]:
        """The steps that wait for keys."""
        return [(level, name, found) for (level, name), found in self._contentions.items()]

    def forget(self, level: Level) -> None:
        """Drop the waits of a level that goes no further."""
        for key in [key for key in self._contentions if key[0] is level]:
            del self._contentions[key]

    def delays(self) -> list[float]:
        """Return in how many seconds each of them is to be tried again by a parked run."""
        settings = self._session.services.settings
        return [
            max(
                contention.refused.retry_after
                if contention.refused.retry_after is not None
                else settings.snooze_seconds(self._session.randomness()),
                SHORTEST_SNOOZE,
            )
            for contention in self._contentions.values()
        ]

    def note_waits(self) -> Answer:
        """Note what the run is about to be parked for; true if a step failed instead.

        It fails when it was parked for its key too often in a row (an ordered turn is waited for
        without limit), and when waiting would close a circle.
        """
        limit = self._session.services.settings.snooze_max_attempts
        gave_up = False
        for level, name, contention in self.waiting:
            refused = contention.refused
            wait: Wait = yield Io(
                functools.partial(
                    self.store.wait_for,
                    self._session.run_id,
                    wait_key(refused),
                    label=contention.needs.label,
                    now=self._environment.clock.now(),
                    holders=refused.holders,
                )
            )
            if wait.circle:
                self.give_up(level, name, tries=0, circle=" -> ".join(wait.circle))
                gave_up = True
            elif wait.tries > limit and refused.reason is not Refusal.TURN:
                if contention.needs.path == "":
                    # what is wanted is the run's own, which was let in: it goes on waiting
                    self._warn_of_long_wait(wait.tries, refused)
                    continue
                run_id = self._session.run_id
                yield Io(functools.partial(self.store.stop_waiting, run_id, refused.key))
                self.give_up(level, name, tries=limit)
                gave_up = True
        return gave_up

    def _warn_of_long_wait(self, tries: int, refused: Refused) -> None:
        if tries == self._session.services.settings.snooze_max_attempts + 1:
            logger.warning(
                "event=resume.waiting run=%s key=%r tries=%d",
                self._session.run_id,
                refused.key,
                tries - 1,
            )

    # going backward

    def take_back(self, level: Level, name: str, slot: Slot) -> Answer:
        """Take a step's locks and semaphores again for its compensate or undo.

        Waits for at most its `rollback_wait`; not to be had by then, the action is reported as
        failed, and false is the answer.
        """
        needs = self._needs(level, name, slot)
        if isinstance(needs, Failure):
            self._not_taken_back(level, name, slot, needs.error, None)
            return False
        if needs:
            slot.needs = needs
        if not needs.holds and self._session.holds.lost_around(slot.path) is None:
            return True
        yield from self._execution.journal.flush()
        clock, began = self._environment.clock, self._environment.clock.monotonic()
        pause = SHORTEST_POLL
        while True:
            try:
                refused = yield from self._ask_back(level, name, slot, needs)
            except StorageError as error:
                self._not_taken_back(level, name, slot, str(error), None)
                return False
            if refused is None:
                return True
            wanted, answer = refused
            if self._session.stops(backward=True):
                self._execution.notice_stop()
                self._execution.post(level, RollbackCutOff(name))
                return False
            left = wanted.wait(answer.key, backward=True) - (clock.monotonic() - began)
            if left <= 0:
                message = refusal_message(answer, wanted, backward=True)
                self._not_taken_back(level, name, slot, message, answer.key)
                return False
            yield Io(functools.partial(self._environment.pause, min(pause, left)))
            pause = min(pause * 2, LONGEST_POLL)

    def _ask_back(
        self, level: Level, name: str, slot: Slot, needs: Needs
    ) -> Generator[Effect, Any, tuple[Needs, Refused] | None]:
        """Take what going backward needs, what was lost around it first; `None` if it is taken."""
        lost = yield from self._retake_lost(slot.path)
        if lost is not None or not needs.holds:
            return lost
        answer = yield from self._acquire(needs, backward=True)
        if isinstance(answer, Refused):
            return needs, answer
        self._granted(level, name, slot, needs, answer, backward=True)
        return None

    def _not_taken_back(
        self, level: Level, name: str, slot: Slot, message: str, key: str | None
    ) -> None:
        state = level.node_state(name)
        kind = "undo" if state.rollback.value == "undoing" else "compensate"
        failure = RollbackFailure(
            slot.path, kind, "coordination_unavailable", key=key, message=message
        )
        self._execution.journal.mark(level, name, state, slot)
        self._execution.settler.rolled_back(level, name, slot, [failure], retryable=False)

    # taking up

    def adopt(self, level: Level, name: str, slot: Slot) -> None:
        """Keep alive what a cut-off attempt holds while it is asked whether it landed."""
        if not self.declared(level, name):
            return
        needs = self._needs(level, name, slot)
        if isinstance(needs, Failure) or not needs:
            return
        slot.needs = needs
        holds = self._session.adopted.get(slot.path, [])
        self._session.holds.add(slot.path, holds, needs.ttl)
        self._session.requests[slot.path] = needs

    # letting go

    def release(self, level: Level, name: str, slot: Slot) -> None:
        """Let go of what a path holds, in the commit that records the end of its work."""
        held = [hold for hold in self._session.holds.all() if hold.path == slot.path]
        if self._session.holds.remove(slot.path):
            self._session.requests.pop(slot.path, None)
            self._execution.journal.coordination.releases.append(slot.path)
            for hold in reversed(held):
                self._tell_released(level, name, slot, hold.key, hold.kind.value)

    def _tell_released(self, level: Level, name: str, slot: Slot, key: str, primitive: str) -> None:
        journal = self._execution.journal
        journal.event("hold.released", slot.path, key=key, primitive=primitive)
        journal.step_notice("hold_released", level, name, slot, key, primitive)

    def leave_marks(self, slot: Slot) -> None:
        """Leave the marks of work that succeeded, in the commit that records it."""
        assert slot.needs is not None
        at = slot.started_at if slot.needs.granted_at is None else slot.needs.granted_at
        for key, every in slot.needs.periods:
            # the bucket of time that was free when it was let in, however long it worked
            mark = mark_in(every, at, key=key, run_id=self._session.run_id, path=slot.path)
            self._execution.journal.coordination.marks.append(mark)

    def end_turns(self, level: Level, name: str, slot: Slot, *, failed: bool) -> None:
        """End the turns of work that is over, its rollback included."""
        assert slot.needs is not None
        for key, _, _ in slot.needs.turns:
            end = TurnEnd(key, slot.path, failed)
            self._execution.journal.coordination.turn_ends.append(end)
            self._tell_released(level, name, slot, key, "ordered_lock")

    def lost(self, slot: Slot) -> HoldLost | None:
        """Return the error for work whose protection lapsed while it ran."""
        hold = self._session.holds.lost_around(slot.path)
        if hold is None:
            return None
        return HoldLost(
            f"{slot.path}: the {hold.kind.value} {hold.key!r} lapsed while the work ran and went "
            "to another execution; what it did is not taken as done. Give a longer ttl."
        )
