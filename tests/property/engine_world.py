"""A small world for the decision core: bodies that end, timers, stops and crashes, by choice.

A `World` drives one level or map as a runner would: it hands over an event, commits what the
state says, performs the commands, and lets what came of them be the next events. It can die at
any of these points; then only the journal is left. What happened is written down as facts, for
the checks in `engine_checks`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from calandria.engine.commands import (
    BeginRollback,
    Command,
    Compensate,
    Finish,
    GiveUp,
    GiveUpRollback,
    Reconcile,
    RetryLater,
    RollbackLater,
    RunStep,
    Undo,
)
from calandria.engine.events import (
    MapEvent,
    Outcome,
    Reconciled,
    RetryDue,
    RollbackCutOff,
    RollbackRetryDue,
    RolledBack,
    Settled,
    Stopped,
    Stopping,
    TakenUp,
    UndoAsked,
)
from calandria.engine.node_state import NodeState
from calandria.plan.model import Node, NodeKind
from tests.property.engine_facts import (
    MOST_MOVES,
    OUTCOMES,
    Action,
    Budget,
    Choices,
    Crashed,
    Did,
    Ended,
    Fact,
    Handed,
    Heard,
    Journal,
    Recorded,
    Resumed,
    Script,
    Turned,
    Verdict,
)


class ProcessDied(Exception):
    """Everything but the journal is gone."""


@dataclass
class Process:
    """What a crash takes away."""

    running: dict[str, Did] = field(default_factory=dict)
    ended: list[MapEvent] = field(default_factory=list)
    timers: list[MapEvent] = field(default_factory=list)
    stopped: Stopping | None = None
    finish: Finish | None = None
    handing_over: bool = False


class World(ABC):
    """Drives one level or map to its end, crash after crash."""

    def __init__(self, scripts: Mapping[str, Script], choices: Choices, budget: Budget) -> None:
        self.scripts = scripts
        self.choices = choices
        self.budget = budget
        self.crashes_left = budget.crashes
        self.stops_left = budget.stops
        self.parks_left = budget.parks
        self.journal: Journal = {}
        self.history: list[Fact] = []
        self.process = Process()
        self.rollbacks = 0
        self.remains = False
        """A nested level that did not fail left something that could not be rolled back."""
        self._landed: dict[str, bool] = {}
        self._last_order = 0

    @abstractmethod
    def node(self, name: str) -> Node:
        """Return the plan's node for a step."""

    @abstractmethod
    def tell(self, event: MapEvent) -> list[Command]:
        """Let the engine decide about `event`."""

    @abstractmethod
    def in_memory(self) -> Mapping[str, NodeState]:
        """Return what the engine's state holds of each step: the next commit writes it."""

    @abstractmethod
    def begin(self) -> MapEvent:
        """Make a new state and return its first event."""

    @abstractmethod
    def restore(self) -> None:
        """Make the state that the journal folds to."""

    def wanted(self, name: str) -> bool:
        """Tell whether what goes on for a step is still of use to the level."""
        return True

    def perform_other(self, command: Command) -> None:
        """Perform a command that only this kind of world knows."""
        raise AssertionError(f"unexpected {command}")

    def on_committed(self, event: MapEvent) -> None:
        """Note what else than the steps' states a commit holds."""
        match event:
            case Settled(outcome=outcome, incomplete=True) if outcome is not Outcome.FAILED:
                self.remains = True
            case UndoAsked():
                self.remains = False
            case _:
                pass

    def run(self) -> Finish:
        """Run the level from its beginning to its end."""
        return self._through_crashes(self.begin())

    def take_up(self) -> Finish:
        """Restore the level and let it go on from where the journal says it is."""
        return self._through_crashes(self._resume(by_hand=False))

    def undo(self) -> Finish:
        """Restore the level and undo it by hand."""
        self.rollbacks += 1
        return self._through_crashes(self._resume(by_hand=True))

    def _through_crashes(self, event: MapEvent) -> Finish:
        by_hand = isinstance(event, UndoAsked)
        while True:
            try:
                return self._live(event)
            except ProcessDied:
                self._note_what_landed()
                self.history.append(Crashed())
                if self.budget.undone_after_crash:
                    by_hand = by_hand or self.choices.chance(8)
                event = self._resume(by_hand=by_hand)

    def _resume(self, *, by_hand: bool) -> MapEvent:
        self.process = Process()
        self._last_order = max((step.order or 0 for step in self.journal.values()), default=0)
        self.restore()
        self.history.append(Resumed(by_hand))
        limit = self.budget.max_recoveries
        return UndoAsked(limit) if by_hand else TakenUp(limit)

    def _note_what_landed(self) -> None:
        for name in self.process.running:
            self._landed[name] = self.choices.chance(2)
        for event in self.process.ended:
            if isinstance(event, Settled):
                self._landed[event.name] = event.outcome is not Outcome.CUT_OFF

    def _live(self, event: MapEvent) -> Finish:
        self.deliver(event)
        for _ in range(MOST_MOVES):
            if self.process.finish is not None:
                return self.process.finish
            if self.process.handing_over or self._parks():
                # another process takes the level up, as a job tells it to; a second job, too
                self.history.append(Handed(self.process.handing_over))
                self.deliver(self._resume(by_hand=False))
                continue
            self._move()
        raise AssertionError("the level does not come to an end")

    def deliver(self, event: MapEvent) -> None:
        """Tell the engine, commit, perform: dying in between is possible everywhere."""
        commands = self.tell(event)
        self._maybe_die()
        self._commit(event)
        for command in commands:
            self._maybe_die()
            self._perform(command)

    def _commit(self, event: MapEvent) -> None:
        self.history.append(Heard(event))
        for name, step in self.in_memory().items():
            before = self.journal.get(name)
            if before != step:
                self.journal[name] = replace(step)
                self.history.append(Recorded(name, before, replace(step)))
        self.on_committed(event)

    def _maybe_die(self) -> None:
        if self.crashes_left and self.choices.chance(7):
            self.crashes_left -= 1
            raise ProcessDied

    def maybe_stopping(self) -> Stopping | None:
        """Return why the level is to stop now, if it is."""
        if self.stops_left and self.choices.chance(7):
            self.stops_left -= 1
            why = self.choices.pick([Stopping.CANCELLED, Stopping.ABORTED])
            if self.process.stopped is not Stopping.ABORTED:
                self.process.stopped = why
            return why
        return None

    def _parks(self) -> bool:
        """Tell whether the process steps aside: possible when there is nothing but waiting."""
        here = self.process
        waits_only = all(
            self.node(name).kind is NodeKind.AWAIT and self.wanted(name) for name in here.running
        )
        idle = waits_only and not here.ended and (here.running or here.timers)
        # what a person has undone is not parked: it is done in that person's process
        if not idle or here.stopped is not None or not self.parks_left or self.rollbacks:
            return False
        self.parks_left -= 1
        return True

    def _move(self) -> None:
        self._maybe_die()
        stopping = self.maybe_stopping()
        if stopping is not None:
            self.deliver(Stopped(stopping))
            return
        here = self.process
        possible: list[MapEvent | Did] = [*here.ended, *here.running.values(), *here.timers]
        assert possible, "nothing in flight, nothing due, and no end"
        chosen = possible[0] if self.budget.in_order else self.choices.pick(possible)
        if isinstance(chosen, (Did, Settled)) and not self.wanted(chosen.name):
            here.running.pop(chosen.name, None)
            here.ended = [event for event in here.ended if event != chosen]
            return
        if isinstance(chosen, Did):
            del here.running[chosen.name]
            here.ended.append(self._end_of(chosen))
            return
        (here.ended if chosen in here.ended else here.timers).remove(chosen)
        self.deliver(chosen)

    def _perform(self, command: Command) -> None:
        match command:
            case RunStep(name, attempt, recovery):
                self.do(Did(Action.RUN, name, attempt, recovery))
                self._begin_nested_work(name, attempt)
            case Reconcile(name):
                self.do(Did(Action.RECONCILE, name, self.journal[name].attempts))
            case GiveUp(name):
                self.do(Did(Action.GIVE_UP, name))
            case Compensate(name):
                self.do(Did(Action.COMPENSATE, name, self.journal[name].rollback_attempts))
            case Undo(name):
                self.do(Did(Action.UNDO, name, self.journal[name].rollback_attempts))
            case GiveUpRollback(name):
                self.do(Did(Action.GIVE_UP_ROLLBACK, name))
            case RetryLater(name):
                self.process.timers.append(RetryDue(name))
            case RollbackLater(name):
                self.process.timers.append(RollbackRetryDue(name))
            case BeginRollback():
                self.history.append(Turned())
            case Finish(ending, incomplete):
                assert self.process.finish is None, "a second end"
                self.process.finish = command
                self.history.append(Ended(ending, incomplete))
            case _:
                self.perform_other(command)

    def do(self, did: Did) -> None:
        self.history.append(did)
        self.process.running[did.name] = did

    def _begin_nested_work(self, name: str, attempt: int) -> None:
        script = self.scripts[name]
        idle = script.verdict(attempt) is Verdict.NEVER_START or not script.nested
        if idle or self.node(name).kind is not NodeKind.STEP:
            return
        step = self.in_memory()[name]
        before, step.nested = replace(step), True
        self.journal[name] = replace(step)
        self.history.append(Recorded(name, before, replace(step)))

    def _end_of(self, did: Did) -> MapEvent:
        stopped = self.process.stopped
        match did.action:
            case Action.RUN:
                return self._end_of_run(did, stopped is not None and self.choices.chance(2))
            case Action.RECONCILE:
                return self._end_of_reconcile(did)
            case Action.GIVE_UP:
                return Settled(did.name, Outcome.FAILED, retryable=False)
            case Action.GIVE_UP_ROLLBACK:
                return RolledBack(did.name, ok=False, retryable=False)
            case Action.COMPENSATE | Action.UNDO | Action.UNDO_ALL:
                if stopped is Stopping.ABORTED and self.choices.chance(2):
                    return RollbackCutOff(did.name)
                return self.end_of_backward(did)

    def _end_of_run(self, did: Did, cut_off: bool) -> Settled:
        script = self.scripts[did.name]
        if cut_off:
            self._landed[did.name] = self.choices.chance(2)
            return Settled(did.name, Outcome.CUT_OFF)
        verdict = script.verdict(did.attempt)
        started = verdict is not Verdict.NEVER_START
        is_step = self.node(did.name).kind is NodeKind.STEP
        return Settled(
            did.name,
            OUTCOMES[verdict],
            order=self._next_order(OUTCOMES[verdict]),
            retryable=verdict is Verdict.FAIL,
            started=started,
            incomplete=script.incomplete and started and not is_step,
            nested=script.nested and started and is_step,
        )

    def _end_of_reconcile(self, did: Did) -> Reconciled:
        verdict = self.scripts[did.name].verdict(did.attempt)
        if not self._landed.get(did.name) or verdict in (
            Verdict.FAIL_FOR_GOOD,
            Verdict.NEVER_START,
        ):
            return Reconciled(did.name, None)
        return Reconciled(did.name, OUTCOMES[verdict], self._next_order(OUTCOMES[verdict]))

    def end_of_backward(self, did: Did) -> MapEvent:
        """Return what comes of a compensate or undo that runs to its end."""
        script = self.scripts[did.name]
        bad = did.attempt <= script.bad_rollbacks and not (script.heals and self.rollbacks)
        return RolledBack(did.name, ok=not bad, retryable=not script.hopeless)

    def _next_order(self, outcome: Outcome) -> int | None:
        if outcome is Outcome.FAILED:
            return None
        self._last_order += 1
        return self._last_order
