"""The execution of a run: the one loop that performs what the engine decides.

    take an event, decide, commit, perform; what comes of it is the next event

Levels that are open form a tree; the loop serves all of them. It is a generator of effects, so
that the same code runs in a thread and on an event loop.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import deque
from collections.abc import Callable, Generator
from typing import Any, TypeAlias

from calandria.engine.commands import (
    BeginRollback,
    Command,
    Compensate,
    Ending,
    FindOutstanding,
    Finish,
    GiveUp,
    GiveUpRollback,
    HandOver,
    Reconcile,
    RetryLater,
    RollbackLater,
    RunStep,
    Undo,
    UndoAll,
)
from calandria.engine.events import (
    Exhausted,
    Found,
    MapEvent,
    NoneLeft,
    Outcome,
    Reconciled,
    RetryDue,
    RollbackRetryDue,
    RolledBack,
    Settled,
    SourceFailed,
    Stopped,
    Stopping,
)
from calandria.plan.model import NodeKind
from calandria.results import Failure, RollbackFailure
from calandria.runtime import bodies
from calandria.runtime.bodies import Flight
from calandria.runtime.coordinating import Coordinator, TryAgain
from calandria.runtime.effects import Body, Effect, Interruption, Next, Settlement, Start
from calandria.runtime.endings import LevelOutcome, Suspension, interrupted_in_worker
from calandria.runtime.environment import Environment
from calandria.runtime.finishing import Finisher
from calandria.runtime.journal import Journal
from calandria.runtime.levels import Level, MapLevel, ReactorLevel
from calandria.runtime.nested import NestedLevel
from calandria.runtime.opening import Opener
from calandria.runtime.outcomes import failure_of_function
from calandria.runtime.preparation import Ready, prepare
from calandria.runtime.settling import Settler
from calandria.runtime.slots import Slot, encode_failure
from calandria.runtime.spawning import LookAgain, Spawner, waits_for
from calandria.runtime.values import Value, load_inputs
from calandria.statuses import StepRollback

Steps = Generator[Effect, Any, None]
QueueEvent: TypeAlias = MapEvent | LookAgain | TryAgain

SHORTEST_PARK = 0.05
"""Seconds: a shorter wait is not worth giving the run back for."""

Conclude = Callable[[Journal, LevelOutcome | Suspension], None]


class Execution:
    """Drives one level, and all that open below it, to an end."""

    def __init__(
        self,
        environment: Environment,
        root: ReactorLevel,
        first: MapEvent,
        *,
        begin_rollback: Callable[[Journal, Level], None] | None = None,
        conclude: Conclude | None = None,
    ) -> None:
        """`begin_rollback` and `conclude` add to the commits that turn and end the outermost."""
        self.environment = environment
        self.session = environment.session
        self.journal = Journal(environment)
        self.root = root
        self.queue: deque[tuple[Level, QueueEvent]] = deque([(root, first)])
        self.levels: dict[Level, None] = {root: None}
        self.outcome: LevelOutcome | Suspension | None = None
        self._begin_rollback = begin_rollback
        self._conclude = conclude
        self._starting: list[Body] = []
        self._in_flight = 0
        self._timers: list[tuple[float, int, Level, QueueEvent]] = []
        self._tie = itertools.count()
        self._told: set[Stopping] = set()
        self.opener = Opener(self)
        self.settler = Settler(self)
        self._finisher = Finisher(self)
        self._spawner = Spawner(self)
        self.coordinator = Coordinator(self)
        if isinstance(root, NestedLevel) and root.announce is not None:
            self.journal.mark(*root.announce)

    def drive(self) -> Generator[Effect, Any, LevelOutcome | Suspension]:
        """Yield effects until the outermost level has ended; return what it came to."""
        while True:
            yield from self._serve_queue()
            if self.outcome is not None:
                self.outcome = self._left_for_others(self.outcome)
                if self._conclude is not None:
                    self._conclude(self.journal, self.outcome)
                yield from self.journal.flush()
                return self.outcome
            parks = yield from self._parks()
            if parks:
                continue
            yield from self.journal.flush()
            if self.notice_stop():
                self._call_off_starts()
                continue
            yield from self._start_bodies()
            yield from self._await_next()

    def _left_for_others(self, outcome: LevelOutcome | Suspension) -> LevelOutcome | Suspension:
        """In a worker an interruption does not end the run: another attempt is made elsewhere."""
        cause = self.session.interruption
        aborted = isinstance(outcome, LevelOutcome) and outcome.ending is Ending.ABORTED
        if cause is None or not aborted or not self.environment.parks:
            return outcome
        return interrupted_in_worker(cause, self.session)

    def post(self, level: Level, event: QueueEvent) -> None:
        """Let the engine see `event` in its turn."""
        self.queue.append((level, event))

    def open(self, level: Level, event: MapEvent) -> None:
        """Take a further level into the loop."""
        self.levels[level] = None
        self.post(level, event)

    def end(self, level: Level) -> None:
        """Let go of a level that has ended."""
        self.coordinator.forget(level)
        self.levels.pop(level, None)

    def after(self, delay: float, level: Level, event: QueueEvent) -> None:
        """Post `event` in `delay` seconds."""
        due = self.environment.clock.monotonic() + max(delay, 0.0)
        heapq.heappush(self._timers, (due, next(self._tie), level, event))

    def start(self, body: Body) -> None:
        """Perform `body` once what was decided with it is committed."""
        self._starting.append(body)

    def _serve_queue(self) -> Steps:
        while self.queue:
            level, event = self.queue.popleft()
            if level not in self.levels:
                continue
            if isinstance(event, LookAgain):
                assert isinstance(level, ReactorLevel)
                yield from self._spawner.look(level, event)
                continue
            if isinstance(event, TryAgain):
                self.coordinator.try_again(level, event.name)
                continue
            commands = self._decide(level, event)
            for command in commands:
                yield from self._perform(level, command)

    def _decide(self, level: Level, event: MapEvent) -> list[Command]:
        if not isinstance(event, (Settled, RolledBack, Reconciled)):
            return level.advance(event)
        # taken before the engine goes on: a map's next element takes the place of this one
        state, slot = level.node_state(event.name), level.slot(event.name)
        commands = level.advance(event)
        self.settler.note(level, event, state, slot)
        return commands

    def _perform(self, level: Level, command: Command) -> Steps:
        match command:
            case RunStep(name, attempt, recovery):
                yield from self._run_step(level, name, attempt, recovery)
            case HandOver():
                self.outcome = Suspension()
            case Finish():
                yield from self._finisher.finish(level, command)
            case RetryLater(name, delay):
                self._retry_later(level, name, delay)
            case Compensate(name):
                yield from self._go_back(level, name, "compensate")
            case Undo(name):
                yield from self._go_back(level, name, "undo")
            case BeginRollback(dropped):
                self._turn(level, dropped)
            case RollbackLater(name, delay):
                level.slot(name).due_at = self.environment.clock.now() + delay
                self.after(delay, level, RollbackRetryDue(name))
            case Reconcile(name):
                self._reconcile(level, name)
            case FindOutstanding():
                yield from self._find(level, command)
            case UndoAll():
                self._undo_all(level)
            case GiveUp(name):
                self._give_up(level, name)
            case GiveUpRollback(name):
                self._give_up_rollback(level, name)

    # going forward

    def _run_step(self, level: Level, name: str, attempt: int, recovery: bool) -> Steps:
        slot, state = level.slot(name), level.node_state(name)
        if isinstance(level, MapLevel) and not slot.recorded and level.taken != name:
            taken = yield from self._take_element(level, name)
            if not taken:
                return
        kind = level.kind_of(name)
        if slot.inputs_text is not None:
            slot.values = load_inputs(slot.inputs_text, self.environment.codec)
        elif kind is not NodeKind.AWAIT and not (recovery and kind is NodeKind.MAP):
            definition = level.definition_of(name)
            if self.journal.ends_something and (
                definition.runs_user_code or self.journal.coordination
            ):
                yield from self.journal.flush()
            ready = prepare(self.environment, level, name, slot)
            if ready is not Ready.READY:
                self._not_started(level, name, slot, ready)
                return
        if self.coordinator.concerns(level, name, slot):
            taken = yield from self.coordinator.take(level, name, slot, admitted=recovery)
            if not taken:
                return
        if not slot.recorded:
            slot.started_at = self.environment.clock.now()
        slot.due_at = slot.finished_at = None
        self.journal.mark(level, name, state, slot)
        self._note_start(level, name, slot, attempt, recovery)
        match kind:
            case NodeKind.STEP:
                self.start(bodies.run_body(self.environment, level, name, state, slot))
            case NodeKind.SPAWN:
                assert isinstance(level, ReactorLevel)
                refusal = self._spawner.key_conflict(level, name, slot)
                if refusal is not None:
                    self.settler.fail(level, name, slot, refusal, started=False)
                    return
                self._spawner.dispatch(level, name, slot)
            case NodeKind.AWAIT:
                self.post(level, LookAgain(name))
            case NodeKind.COMPOSE | NodeKind.MAP:
                yield from self.opener.open_forward(level, name, slot, restored=recovery)

    def _note_start(
        self, level: Level, name: str, slot: Slot, attempt: int, recovery: bool
    ) -> None:
        data: dict[str, Any] = {}
        if attempt > 1:
            data["attempt"] = attempt
        if recovery:
            data["recovery"] = level.node_state(name).recoveries
        self.journal.event("step.started", slot.path, **data)
        self.journal.step_notice("step_started", level, name, slot)

    def _not_started(self, level: Level, name: str, slot: Slot, ready: Failure | Ready) -> None:
        slot.started_at = slot.finished_at = self.environment.clock.now()
        if isinstance(ready, Failure):
            self.settler.fail(level, name, slot, ready, started=False)
            return
        slot.result = Value.record(None, self.environment.codec)
        slot.unsaved_result = slot.result.text
        order = self.session.next_order()
        self.journal.step_notice("step_skipped", level, name, slot)
        self.post(level, Settled(name, Outcome.SKIPPED, order, started=False))

    def _take_element(self, level: MapLevel, name: str) -> Generator[Effect, Any, bool]:
        """Take the next element of the map's source; tell whether there was one."""
        if self.journal.ends_something and level.definition.runs_user_code:
            yield from self.journal.flush()
        try:
            if level.source is None:
                level.source = level.open_source()
            level.current, level.taken = next(level.source), name
        except StopIteration:
            yield from self._all_taken(level, int(name))
        except BaseException as error:
            self.settler.source_failed(level, failure_of_function(error))
            self.post(level, SourceFailed())
        else:
            return True
        return False

    def _all_taken(self, level: MapLevel, length: int) -> Steps:
        """Make the map's value, by `.collect` where it is declared, before the map ends."""
        yield from self.journal.flush()
        try:
            level.value = self._finisher.map_value(level, length)
        except BaseException as error:
            self.settler.source_failed(level, failure_of_function(error))
            self.post(level, SourceFailed())
        else:
            self.post(level, Exhausted())

    def _retry_later(self, level: Level, name: str, delay: float | None) -> None:
        slot, now = level.slot(name), self.environment.clock.now()
        if delay is None:
            delay = 0.0 if slot.due_at is None else max(slot.due_at - now, 0.0)
            state = level.node_state(name)
            longest = level.node(name).retry.delay_after(state.attempts, 1.0)
            if delay > longest:
                # the wall clock was set back: the time it shows now is what counts from here on
                delay, slot.due_at = longest, now + longest
                self.journal.mark(level, name, state, slot)
        else:
            slot.due_at = now + delay
            assert slot.failure is not None
            self.journal.step_notice("step_retried", level, name, slot, slot.failure, delay)
        self.after(delay, level, RetryDue(name))

    def _reconcile(self, level: Level, name: str) -> None:
        slot, state = level.slot(name), level.node_state(name)
        slot.values = load_inputs(slot.inputs_text, self.environment.codec)
        self.coordinator.adopt(level, name, slot)
        self.journal.mark(level, name, state, slot)
        self.journal.event("step.reconciling", slot.path)
        self.start(bodies.reconcile_body(self.environment, level, name, state, slot))

    def _give_up(self, level: Level, name: str) -> None:
        slot = level.slot(name)
        failure = Failure(
            f"{level.reactor_name}.{slot.path}: the process executing it died "
            f"{level.node_state(name).recoveries} times in this step; it is not tried again.",
            retryable=False,
            exception_class="Crashed",
        )
        self.settler.fail(level, name, slot, failure, started=True)

    # going backward

    def _turn(self, level: Level, dropped: tuple[str, ...]) -> None:
        for name in dropped:
            self.journal.mark(level, name, level.node_state(name), level.slot(name))
        if level is self.root:
            if self._begin_rollback is not None:
                self._begin_rollback(self.journal, level)
        elif level.parent is not None and level.failure is not None and not level.undoing:
            # so that a level restored from the journal knows why it was going backward
            around, slot = level.parent, level.parent.slot(level.key)
            slot.unsaved_error = encode_failure(level.failure, self.environment.records)
            self.journal.mark(around, level.key, around.node_state(level.key), slot)

    def _go_back(self, level: Level, name: str, action: Any) -> Steps:
        slot, state = level.slot(name), level.node_state(name)
        slot.due_at = None
        if self.coordinator.concerns(level, name, slot):
            slot.values = load_inputs(slot.inputs_text, self.environment.codec)
            taken = yield from self.coordinator.take_back(level, name, slot)
            if not taken:
                return
        self.journal.mark(level, name, state, slot)
        self.journal.event(f"{action}.started", slot.path)
        if level.kind_of(name) is not NodeKind.STEP:
            self.journal.step_notice("undo_started", level, name, slot)
            yield from self.opener.open_backward(level, name, slot)
            return
        body = bodies.backward_body(self.environment, level, name, state, slot, action)
        hook = "undo_started" if action == "undo" else "compensation_started"
        self.journal.step_notice(hook, level, name, slot)
        self.start(body)

    def _give_up_rollback(self, level: Level, name: str) -> None:
        slot, state = level.slot(name), level.node_state(name)
        undoing = state.rollback.value == "undoing"
        kind = "undo" if undoing else "compensate"
        message = f"the process executing it died {state.recoveries} times in this {kind}"
        failure = RollbackFailure(slot.path, kind, "crashed", message=message)
        self.settler.rolled_back(level, name, slot, [failure], retryable=False)

    def _find(self, level: Level, command: FindOutstanding) -> Steps:
        assert isinstance(level, MapLevel)
        yield from self.journal.flush()
        found = yield from self.opener.find(level, command)
        self.post(level, NoneLeft() if found is None else Found(*found))

    def _undo_all(self, level: Level) -> None:
        assert isinstance(level, MapLevel)
        around, name = level.around, level.key
        slot, state = around.slot(name), around.node_state(name)
        # the start of the map's own undo counts as one
        calls = state.rollback_attempts - (state.rollback is StepRollback.UNDOING)
        if calls > self.environment.max_recoveries:
            message = f"the process executing it died {calls} times in this undo_all"
            failure = RollbackFailure(level.scope, "undo_all", "crashed", message=message)
            self.settler.undone_in_bulk(level, [failure])
            return
        state.rollback_attempts += 1
        self.journal.mark(around, name, state, slot)
        self.journal.event("undo_all.started", level.scope)
        self.journal.step_notice("undo_started", around, name, slot)
        self.start(bodies.undo_all_body(self.environment, level))

    # bodies, timers and stops

    def _start_bodies(self) -> Steps:
        starting, self._starting = self._starting, []
        for body in starting:
            self._in_flight += 1
            yield Start(body)

    def _parks(self) -> Generator[Effect, Any, bool]:
        """Step aside, where that is possible, if there is nothing to do but to wait."""
        waits = self.coordinator.waiting
        if not self.environment.parks or self._in_flight or self._starting:
            return False
        if not self._timers and not waits:
            return False
        if any(isinstance(event, TryAgain) for _, _, _, event in self._timers):
            # a key is still waited for here, which takes a second at most
            return False
        now = self.environment.clock.monotonic()
        due = [self._wakes_at(*timer, now) for timer in self._timers]
        delay = min([at - now for at in due] + self.coordinator.delays())
        if not SHORTEST_PARK < delay < math.inf:
            return False
        gave_up = yield from self.coordinator.note_waits()
        if not gave_up:
            for_keys = [contention.describe() for _, _, contention in waits]
            waiting = [*for_keys, *waits_for(list(self.levels))] or ["retry of a rollback"]
            self.outcome = Suspension(", ".join(waiting), delay)
        return True

    @staticmethod
    def _wakes_at(due: float, _: int, level: Level, event: QueueEvent, now: float) -> float:
        """Return when a parked run must be woken for a timer: a unit that settles wakes it."""
        if not isinstance(event, LookAgain):
            return due
        if isinstance(level, ReactorLevel) and event.name not in level.state.awaiting:
            return math.inf
        return due if event.deadline is None or now < event.grace_until else event.deadline

    def _await_next(self) -> Steps:
        timeout: float | None = None
        if self._timers:
            timeout = max(self._timers[0][0] - self.environment.clock.monotonic(), 0.0)
        elif not self._in_flight and not self.coordinator.waiting:
            raise RuntimeError(f"run {self.session.run_id}: nothing is under way, nothing due")
        try:
            settlement: Settlement | None = yield Next(timeout)
        except Interruption as interruption:
            if self.session.interruption is not None:
                raise interruption.cause from None
            self.session.interrupt(interruption.cause)
            self.notice_stop()
            return
        self.session.check()
        self.notice_stop()
        if self.session.nudged:
            self.session.nudged = False
            for level, name, _ in self.coordinator.waiting:
                self.post(level, TryAgain(name))
        now = self.environment.clock.monotonic()
        while self._timers and self._timers[0][0] <= now:
            _, _, level, event = heapq.heappop(self._timers)
            self.post(level, event)
        if settlement is not None:
            self._in_flight -= 1
            flight: Flight = settlement.body.tag
            self.settler.settle(flight, settlement)

    def notice_stop(self) -> bool:
        """Tell the levels of an interruption or a cancel; true if it is news."""
        session = self.session
        if session.interruption is not None:
            why = Stopping.ABORTED
        elif session.cancel_reason is not None:
            why = Stopping.CANCELLED
        else:
            return False
        if why in self._told:
            return False
        self._told.add(why)
        for level in tuple(self.levels):
            self.queue.appendleft((level, Stopped(why)))
        return True

    def _call_off_starts(self) -> None:
        """Settle what was recorded as started and will not begin, as never started."""
        aborting = self.session.interruption is not None
        kept: list[Body] = []
        for body in self._starting:
            flight: Flight = body.tag
            if flight.action == "run":
                failure = Failure(
                    f"{flight.level.reactor_name}.{flight.slot.path}: the run was stopped before "
                    "this attempt began.",
                    retryable=False,
                    exception_class="Cancelled",
                )
                self.settler.fail(flight.level, flight.name, flight.slot, failure, started=False)
            elif aborting:
                self.settler.cut_off(flight)
            else:
                kept.append(body)
        self._starting = kept
