"""What a bystander of a level can tell from the facts: the model the engine is checked against.

Written from `semantics.md`, and knowing nothing of the engine's state: only what it was told, what
it let be done, and what the journal says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from calandria.engine.commands import Ending
from calandria.engine.events import (
    MapEvent,
    Outcome,
    Reconciled,
    RollbackCutOff,
    RolledBack,
    Settled,
    Stopped,
    Stopping,
)
from calandria.engine.node_state import NodeState
from calandria.plan.model import Node, NodeKind
from calandria.statuses import StepRollback, StepStatus
from tests.property.engine_facts import (
    Action,
    Crashed,
    Did,
    Fact,
    Heard,
    Journal,
    Recorded,
    Resumed,
)

FAILED_ROLLBACKS = frozenset({StepRollback.UNDO_FAILED, StepRollback.COMPENSATE_FAILED})
DONE = frozenset({StepStatus.COMPLETED, StepStatus.SKIPPED})
GOES_ON = frozenset({Ending.COMPLETED, Ending.HALTED})
"""How a level may stand to end for another attempt to make sense."""


@dataclass
class Standing:
    """Where a level stands, by the facts so far."""

    node: Callable[[str], Node]
    recorded: Journal = field(default_factory=dict)
    in_flight: dict[str, Action] = field(default_factory=dict)
    ending: Ending = Ending.COMPLETED
    by_hand: bool = False
    failures: Counter[str] = field(default_factory=Counter)
    """For each step, how many attempts whose work had started failed."""
    worked: set[str] = field(default_factory=set)
    """Steps whose work had started, or may have before a crash."""
    remains: bool = False
    """A nested level said that it succeeded and left something that could not be rolled back."""

    def note(self, fact: Fact) -> None:
        """Move on by one fact."""
        match fact:
            case Did(action, name):
                # what only waits for a spawned unit takes no place, and nothing waits for it
                if self.node(name).kind is not NodeKind.AWAIT:
                    self.in_flight[name] = action
            case Heard(event):
                self.hear(event)
            case Recorded(name, _, after):
                self.recorded[name] = after
            case Crashed():
                self._forget()
            case Resumed(by_hand):
                self._resume(by_hand)
            case _:
                pass

    def _forget(self) -> None:
        for name, step in self.recorded.items():
            if step.status is StepStatus.STARTED:
                self.worked.add(name)
        self.in_flight.clear()

    def _resume(self, by_hand: bool) -> None:
        self.by_hand = by_hand
        self.remains = self.remains and not by_hand
        self.in_flight.clear()
        self.ending = Ending.UNDONE if by_hand else self.ending_so_far()

    def ending_so_far(self) -> Ending:
        """Return how the level would end by what is recorded of it."""
        statuses = {step.status for step in self.recorded.values()}
        if StepStatus.FAILED in statuses:
            return Ending.FAILED
        return Ending.HALTED if StepStatus.HALTED in statuses else Ending.COMPLETED

    def hear(self, event: MapEvent) -> None:
        """Move on by what the engine was told."""
        match event:
            case Settled(name, outcome, _, retryable, started):
                self.in_flight.pop(name, None)
                if started:
                    self.worked.add(name)
                if outcome is not Outcome.FAILED and event.incomplete:
                    self.remains = True
                self.came_to(name, outcome, retryable, started)
            case Reconciled(name, outcome):
                asked = self.in_flight.pop(name, None)
                assert asked is Action.RECONCILE
                if outcome is not None:
                    self.came_to(name, outcome, True, True)
            case RolledBack(name) | RollbackCutOff(name):
                self.in_flight.pop(name, None)
            case Stopped(why):
                self._stop(why)
            case _:
                pass

    def came_to(self, name: str, outcome: Outcome, retryable: bool, started: bool) -> None:
        """Note how an attempt ended."""
        if outcome is Outcome.HALTED and self.ending is Ending.COMPLETED:
            self.ending = Ending.HALTED
        if outcome is not Outcome.FAILED:
            return
        self.failures[name] += started
        again = retryable and self.failures[name] < self.node(name).retry.max_attempts
        if self.ending in GOES_ON and not again:
            self.ending = Ending.FAILED

    def _stop(self, why: Stopping) -> None:
        if why is Stopping.ABORTED:
            self.ending = Ending.ABORTED
        elif self.ending in GOES_ON:
            self.ending = Ending.CANCELLED


def duty(node: Node, step: NodeState, worked: bool) -> frozenset[StepRollback]:
    """Return where a full rollback may leave a step, from the tables of `semantics.md` 1 and 2."""
    nothing = frozenset({StepRollback.NONE})
    if node.kind in (NodeKind.SPAWN, NodeKind.AWAIT):
        return nothing
    undone = frozenset({StepRollback.UNDONE, StepRollback.UNDO_FAILED})
    compensated = frozenset({StepRollback.COMPENSATED, StepRollback.COMPENSATE_FAILED})
    if node.kind is not NodeKind.STEP:
        return undone if worked and step.status is not StepStatus.SKIPPED else nothing
    match step.status:
        case StepStatus.COMPLETED:
            return undone if node.undoes or step.nested else nothing
        case StepStatus.SKIPPED | StepStatus.HALTED:
            return undone if step.nested else nothing
        case _:
            return compensated if worked and (node.compensates or step.nested) else nothing
