"""Spawned units: dispatched once, in the commit of the parent's own record; awaited by readers."""

from __future__ import annotations

import dataclasses
from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from calandria.coordination.primitives import OrderedLock
from calandria.definition.node_definition import NodeDefinition, ReactorDefinition
from calandria.engine.events import Outcome, Settled
from calandria.errors import CalandriaError, HandOffRefused, KeyUnusable
from calandria.plan.model import AWAITED
from calandria.ports.coordination import AcquireRequest
from calandria.ports.run_store import JobRequest, NewRun, RunHeader, StoredRun
from calandria.results import Failure, Success
from calandria.runtime.effects import Effect, Io
from calandria.runtime.levels import Level, MapLevel, ReactorLevel
from calandria.runtime.lookup import importable, loaded_reactor, stored_name
from calandria.runtime.needs import needs_of
from calandria.runtime.outcomes import failure_of
from calandria.runtime.outline import outline_text
from calandria.runtime.reach import unreachable
from calandria.runtime.slots import Slot
from calandria.runtime.stored_results import stored_result
from calandria.runtime.units import child_id
from calandria.runtime.values import Value
from calandria.statuses import FINISHED, RunStatus

if TYPE_CHECKING:
    from calandria.runtime.execution import Execution

Steps = Generator[Effect, Any, None]

GRACE = 0.02
"""Seconds a worker gives a unit to settle before it parks the run that waits for it."""
SHORTEST_POLL = 0.005
LONGEST_POLL = 0.25
"""Seconds between two looks, while the run cannot be parked."""


@dataclass(frozen=True, slots=True)
class LookAgain:
    """Time to see whether the unit that a step waits for has settled.

    `pause` is to the look after. By the monotonic clock: the wait ends at `deadline`, and the run
    may be parked for it from `grace_until` on; both are `None` until the first look.
    """

    name: str
    pause: float = SHORTEST_POLL
    deadline: float | None = None
    grace_until: float = 0.0


class Spawner:
    """Dispatches spawned units for an execution, and waits for those whose outcome is used."""

    def __init__(self, execution: Execution) -> None:
        self._execution = execution
        self._environment = execution.environment

    def dispatch(self, level: ReactorLevel, name: str, slot: Slot) -> None:
        """Create the unit's run and its job in the next commit; the step is done with that."""
        environment, journal = self._environment, self._execution.journal
        definition = level.definition_of(name)
        refusal = self._refusal(definition)
        if refusal is not None:
            failure = Failure(refusal, retryable=False)  # type: ignore[arg-type]
            self._execution.settler.fail(level, name, slot, failure, started=False)
            return
        run_id = child_id(environment.run.run_id, slot.path)
        of: ReactorDefinition | None = None
        if definition.reactor is not None:
            stored, of = stored_name(definition.reactor), definition.reactor.definition()
            try:
                request = self.positions(of, run_id, slot)
            except KeyUnusable as error:
                unusable = failure_of(error, retryable=False)
                self._execution.settler.fail(level, name, slot, unusable, started=False)
                return
            if request.turns:
                journal.coordination.positions.append(request)
        else:
            stored = f"{environment.stored_reactor}/{slot.path}"
        assert slot.inputs_text is not None
        journal.children.append(
            NewRun(
                id=run_id,
                reactor=stored,
                shape="" if of is None else of.shape,
                outline=outline_text(of, level.redacted(name)),
                inputs=slot.inputs_text,
                header=RunHeader(RunStatus.PENDING),
                created_at=environment.clock.now(),
                root_id=environment.run.root_id,
                parent_id=environment.run.run_id,
                parent_path=slot.path,
            )
        )
        journal.jobs.append(JobRequest(run_id))
        slot.finished_at = environment.clock.now()
        slot.result = Value.record(run_id, environment.codec)
        slot.unsaved_result = slot.result.text
        order = environment.session.next_order()
        self._execution.post(level, Settled(name, Outcome.SUCCEEDED, order))

    def key_conflict(self, level: ReactorLevel, name: str, slot: Slot) -> Failure | None:
        """Return why a unit cannot be dispatched: it needs a key that this execution holds.

        The unit would wait for its parent, and the parent, if it waits for the unit, for ever.
        """
        definition = level.definition_of(name)
        declared = definition.coordination
        if definition.reactor is not None:
            declared += definition.reactor.definition().coordination
        session = self._environment.session
        held = {hold.key: hold for hold in session.holds.all()}
        turns = {key: needs for needs in session.requests.values() for key, _, _ in needs.turns}
        if not declared or not (held or turns):
            return None
        label = f"{level.reactor_name}.{slot.path}"
        try:
            needs = needs_of(
                declared,
                slot.values if slot.values is not None else {},
                level.redacted(name),
                self._environment.session.services.settings,
                path=slot.path,
                label=label,
            )
        except CalandriaError as error:
            return failure_of(error, retryable=False)
        awaited = name + AWAITED in level.plan.positions
        for wanted in needs.holds:
            hold = held.get(wanted.key)
            if hold is None or (wanted.limit > 1 and not awaited):
                continue
            what = f"the {wanted.kind.value} {wanted.key!r}"
            return _hand_off_refused(label, what, hold.path, hold.label)
        for key, _, _ in needs.turns:
            if awaited and key in turns:
                holder = turns[key]
                return _hand_off_refused(label, f"a turn under {key!r}", holder.path, holder.label)
        return None

    def positions(self, reactor: ReactorDefinition, run_id: str, slot: Slot) -> AcquireRequest:
        """Return the request for a reactor's places in ordered sequences: taken at its dispatch.

        Raises `KeyUnusable` when a key cannot be computed.
        """
        needs = needs_of(
            [one for one in reactor.coordination if isinstance(one, OrderedLock)],
            slot.values if slot.values is not None else {},
            reactor.contract.redacted,
            self._environment.session.services.settings,
            path="",
            label=reactor.name,
        )
        return needs.request(run_id, self._environment.clock.now(), keep_turn=True)

    def _refusal(self, definition: NodeDefinition) -> CalandriaError | None:
        """Return why no worker could find the unit, which only nested work is still asked."""
        if self._environment.performs_here():
            return None
        reactor = definition.reactor
        if reactor is None:
            reactor = loaded_reactor(self._environment.stored_reactor)
        return None if reactor is None or importable(reactor) else unreachable(reactor)

    def look(self, level: ReactorLevel, again: LookAgain) -> Steps:
        """Settle an awaiting step if its unit has settled or time is up; else look again later."""
        name = again.name
        if name not in level.state.awaiting:
            return
        # the unit's run, and its job, must be in the storage before anyone looks
        yield from self._execution.journal.flush()
        spawned = level.slot(name.removesuffix(AWAITED))
        assert spawned.result is not None
        unit_id: str | None = spawned.result.peek()
        if unit_id is None:
            self._settle_with(level, name, None)
            return
        stored: StoredRun | None = yield Io(lambda: self._environment.store.load_run(unit_id))
        if stored is None or stored.header.status in FINISHED:
            self._settle_with(level, name, self._value_of(stored, unit_id))
            return
        now = self._environment.clock.monotonic()
        if again.deadline is None:
            deadline = now + self._time_left(spawned)
            again = LookAgain(name, again.pause, deadline, now + GRACE)
        assert again.deadline is not None
        if again.deadline <= now:
            self._time_out(level, name, spawned, unit_id)
            return
        later = dataclasses.replace(again, pause=min(again.pause * 2, LONGEST_POLL))
        self._execution.after(min(again.deadline - now, again.pause), level, later)

    def _value_of(self, stored: StoredRun | None, unit_id: str) -> Any:
        if stored is None:
            return Failure(f"run {unit_id} is not in the storage any more: it was pruned")
        result = stored_result(stored, self._environment.codec)
        if isinstance(result, Failure):
            return dataclasses.replace(result, exception=None)
        return result.value if isinstance(result, Success) else None

    def _settle_with(self, level: ReactorLevel, name: str, value: Any) -> None:
        slot = level.slot(name)
        slot.finished_at = self._environment.clock.now()
        slot.result = Value.record(value, self._environment.codec)
        slot.unsaved_result = slot.result.text
        order = self._environment.session.next_order()
        self._execution.post(level, Settled(name, Outcome.SUCCEEDED, order))

    def _time_left(self, spawned: Slot) -> float:
        settings = self._environment.session.services.settings
        if not self._environment.parks:
            return settings.wait_seconds
        # many processes may share this wait, so that only the wall clock can measure it
        waited = self._environment.clock.now() - (spawned.finished_at or spawned.started_at)
        return settings.park_seconds - max(waited, 0.0)

    def _time_out(self, level: ReactorLevel, name: str, spawned: Slot, unit_id: str) -> None:
        settings = self._environment.session.services.settings
        parks = self._environment.parks
        limit = settings.park_seconds if parks else settings.wait_seconds
        setting = "park_timeout" if parks else "wait_timeout"
        failure = Failure(
            f"{level.reactor_name}.{spawned.path}: the spawned unit (run {unit_id}) has not "
            f"settled within {limit:g} s ({setting}). It goes on; no worker may be running.",
            retryable=False,
            exception_class="WaitTimeout",
        )
        self._execution.settler.fail(level, name, level.slot(name), failure, started=True)


def _hand_off_refused(label: str, what: str, path: str, holder: str) -> Failure:
    refused = HandOffRefused(
        f"{label}: the unit to be spawned needs {what}, which this execution holds through "
        f"{path or 'its reactor'} ({holder}): the two would wait for each other. Spawn it after "
        "the key is let go of, use another key, or compose it, which re-enters."
    )
    return failure_of(refused, retryable=False)


def waits_for(levels: list[Level]) -> list[str]:
    """Return the units and retries that the open levels wait for, as a run's header says it."""
    units: list[str] = []
    retries: list[str] = []
    for level in levels:
        if isinstance(level, ReactorLevel):
            units += [level.path(name.removesuffix(AWAITED)) for name in level.state.awaiting]
            retries += [level.path(name) for name in level.state.waiting]
        elif isinstance(level, MapLevel) and level.retrying:
            assert level.in_hand is not None
            retries.append(level.in_hand.path)
    return [f"unit {path}" for path in sorted(units)] + [
        f"retry {path}" for path in sorted(retries)
    ]
