"""The next commit: what an execution has decided and not yet written."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

from calandria.engine.node_state import NodeState
from calandria.ports.coordination import AcquireRequest, PeriodMark, TurnEnd
from calandria.ports.middleware import StepInfo
from calandria.ports.run_store import (
    Changes,
    CoordinationChanges,
    Event,
    JobRequest,
    NewRun,
    RunHeader,
    StepRecord,
    StepUpdate,
)
from calandria.runtime.effects import Effect, Io
from calandria.runtime.environment import Environment, event_data
from calandria.runtime.levels import Level
from calandria.runtime.slots import Slot
from calandria.runtime.values import shown


@dataclass(slots=True)
class PendingCoordination:
    """What the next commit changes of the run's coordination."""

    releases: list[str] = field(default_factory=list)
    marks: list[PeriodMark] = field(default_factory=list)
    unmarks: list[str] = field(default_factory=list)
    unmark_all_but: list[str] | None = None
    turn_ends: list[TurnEnd] = field(default_factory=list)
    extend_holds: float | None = None
    ends: bool = False
    positions: list[AcquireRequest] = field(default_factory=list)

    def __bool__(self) -> bool:
        changed = self.releases or self.marks or self.unmarks or self.turn_ends
        return bool(changed or self.ends or self.positions)

    def take(self, now: float) -> CoordinationChanges | None:
        """Return what was collected, if anything was, and begin anew."""
        if not self and self.extend_holds is None and self.unmark_all_but is None:
            return None
        changes = CoordinationChanges(
            self.releases,
            self.marks,
            self.unmarks,
            self.unmark_all_but,
            self.turn_ends,
            self.extend_holds,
            now,
            self.ends,
            self.positions,
        )
        self.releases, self.marks, self.unmarks, self.turn_ends = [], [], [], []
        self.ends, self.positions = False, []
        self.extend_holds = self.unmark_all_but = None
        return changes


class Journal:
    """Collects records, events and notices; `flush` commits them as one and then tells them.

    A step is only marked when it changes: what is written of it is how it stands at the flush.
    """

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._marked: dict[Slot, tuple[Level, str, NodeState]] = {}
        self._events: list[Event] = []
        self._notices: list[tuple[Any, ...]] = []
        self.header: RunHeader | None = None
        self.release = False
        self.children: list[NewRun] = []
        self.jobs: list[JobRequest] = []
        self.coordination = PendingCoordination()
        self.ends_something = False
        """Whether what is to be written includes the end of an action that was performed."""

    def mark(self, level: Level, name: str, state: NodeState, slot: Slot) -> None:
        """Write this step's record at the next flush."""
        self._marked[slot] = (level, name, state)

    def event(self, kind: str, path: str | None = None, **data: Any) -> None:
        """Add a line to the run's trace."""
        environment = self._environment
        self._events.append(
            Event(
                environment.session.next_sequence(),
                environment.clock.now(),
                kind,
                path,
                event_data(environment.records, data) if data else None,
            )
        )

    def forget_events(self) -> None:
        """Drop the lines of the trace, and the notices, that were not written yet."""
        self._events = []
        self._notices = []

    @property
    def marks_steps(self) -> bool:
        """Whether the next commit writes the record of any step."""
        return bool(self._marked)

    def notice(self, hook: str, *arguments: Any) -> None:
        """Tell the middleware once the next flush has committed."""
        if self._environment.observers:
            self._notices.append((hook, *arguments))

    def step_notice(
        self,
        hook: str,
        level: Level,
        name: str,
        slot: Slot,
        *arguments: Any,
        seconds: float | None = None,
    ) -> None:
        """Tell the middleware about a step once the next flush has committed."""
        if self._environment.observers:
            values = slot.values if slot.values is not None else {}
            info = StepInfo(
                self._environment.run,
                slot.path,
                level.node_state(name).attempts,
                shown(values, level.redacted(name)),
                seconds,
            )
            self._notices.append((hook, info, *arguments))

    def flush(self) -> Generator[Effect, Any, None]:
        """Commit what was collected, if anything was, and tell the middleware."""
        written = self._marked or self._events or self.header is not None or self.release
        if written or self.coordination:
            changes = self._changes()
            session = self._environment.session
            yield Io(lambda: session.commit(changes))
            if changes.coordination is not None:
                yield Io(self._environment.released)
            if changes.jobs:
                yield Io(lambda: self._environment.enqueue(changes.jobs))
        if self._notices:
            notices, self._notices = self._notices, []
            for notice in notices:
                self._environment.observers.notify(*notice)

    def _changes(self) -> Changes:
        now = self._environment.clock.now()
        steps: list[StepRecord] = []
        updates: list[StepUpdate] = []
        for slot, (level, name, state) in self._marked.items():
            progress = slot.progress(state)
            if slot.recorded:
                updates.append(StepUpdate(slot.path, progress))
                continue
            slot.recorded = True
            steps.append(
                StepRecord(
                    slot.path,
                    level.scope,
                    level.position(name),
                    slot.inputs_text,
                    slot.started_at,
                    progress,
                )
            )
        changes = Changes(
            header=self.header,
            steps=steps,
            updates=updates,
            events=self._events,
            children=self.children,
            jobs=self.jobs,
            release=self.release,
            now=now,
            coordination=self.coordination.take(now),
        )
        self._marked = {}
        self._events = []
        self.children = []
        self.jobs = []
        self.header = None
        self.ends_something = False
        return changes
