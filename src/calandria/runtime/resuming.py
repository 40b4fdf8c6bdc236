"""Resuming a run: from a lease just taken to a job that goes on with it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from calandria.definition.node_definition import ReactorDefinition
from calandria.engine.events import (
    MapEvent,
    ReturnFailed,
    Stopped,
    Stopping,
    TakenUp,
    UndoAsked,
)
from calandria.errors import (
    CalandriaError,
    DecodingError,
)
from calandria.ports.run_store import (
    StoredRun,
    TakenLease,
)
from calandria.runtime import conclusion, crash_loops
from calandria.runtime.conclusion import Concluder
from calandria.runtime.execution import Execution
from calandria.runtime.fitting import Fit, fit_of
from calandria.runtime.nested import plan_is_parallel
from calandria.runtime.outline import read_outline
from calandria.runtime.ownership import Job, Ownership
from calandria.runtime.restoring import (
    DefinitionChanged,
    definition_changed,
    restore_reactor,
)
from calandria.runtime.session import Session
from calandria.runtime.values import load_inputs
from calandria.statuses import RunStatus

if TYPE_CHECKING:
    from calandria.runtime.runtime import Runtime

logger = logging.getLogger("calandria.run")

LEFT_TO_OTHERS = (DefinitionChanged, DecodingError)
"""What keeps a worker from going on with a run; one with another version may be able to."""

MOST_NOTED = 10_000


class Resumer:
    """Opens runs again from the journal."""

    def __init__(self, runtime: Runtime, ownership: Ownership) -> None:
        self._runtime = runtime
        self._services = runtime.services
        self._gates = runtime.gates
        self._ownership = ownership
        self._noted: set[tuple[str, str]] = set()
        """Runs whose changed definition was reported: once a process is enough."""

    def resume(
        self,
        definition: ReactorDefinition,
        taken: TakenLease,
        event: MapEvent,
        *,
        parks: bool = False,
    ) -> Job:
        """Return the job that goes on with a run under a lease just taken."""
        self._runtime.learn(definition)
        stored = taken.stored
        session = Session(
            self._services,
            taken.lease,
            root_id=stored.run.root_id,
            last_sequence=taken.last_sequence,
        )
        session.cancel_reason = stored.cancel_requested
        redacted = definition.contract.redacted | read_outline(stored.run.outline).redacted
        deaths = crash_loops.record_death(session, taken) if taken.abandoned else 0
        try:
            fit = self._fit(definition, stored, event)
            inputs = load_inputs(stored.run.inputs, self._services.codec)
            environment = self._ownership.environment(
                session, definition, inputs, stored.run, redacted, taken_up=True, parks=parks
            )
            level = restore_reactor(environment, definition, inputs, redacted_inputs=redacted)
        except CalandriaError as error:
            if not (parks and isinstance(error, LEFT_TO_OTHERS)):
                self._ownership.release(taken.lease)
            raise
        level.state.max_recoveries = environment.max_recoveries
        if isinstance(event, UndoAsked):
            environment.by_hand = True
            # what could not be undone before is tried again: only what is left this time counts
            level.rollback_failures = []
        elif isinstance(event, Stopped):
            session.cancel_reason = stored.cancel_requested
        concluder = Concluder(environment, definition)
        concluder.resuming(stored.header)
        level.failure = concluder.failure_before or level.failure
        if isinstance(event, TakenUp) and crash_loops.gives_up(session, taken, deaths):
            level.failure = crash_loops.crash_failure(definition.name, deaths)
            event = ReturnFailed()
        execution = Execution(
            environment,
            level,
            event,
            begin_rollback=concluder.begin_rollback,
            conclude=concluder.conclude,
        )
        if taken.last_sequence > 1:
            # a run that was never begun has left nothing to take over
            self._gates.adopt(session)
        concluder.take_up(execution.journal)
        if not taken.abandoned:
            execution.journal.event(crash_loops.TAKEN_UP, epoch=taken.lease.epoch)
        if fit.rewired:
            execution.journal.event("run.definition_changed", steps=list(fit.rewired))
        execution.journal.notice("lease_taken", environment.run)
        execution.journal.notice("run_started", environment.run)
        parallel = plan_is_parallel(definition.plan)
        needs = concluder.needs = self._gates.needs(definition, inputs)
        return Job(environment, execution, parallel, concluder, needs=needs)

    def _fit(self, definition: ReactorDefinition, stored: StoredRun, event: MapEvent) -> Fit:
        """Compare a run with its definition before anything of it runs; report changes once.

        Raises `DefinitionChanged` for a run that could not go on.
        """
        fit = fit_of(self._services.store, stored, definition)
        if fit.lost and not isinstance(event, UndoAsked):
            raise definition_changed(stored.run.id, definition.name, fit.lost)
        noted = (stored.run.id, definition.shape)
        if not fit.rewired or noted in self._noted:
            return Fit()
        if len(self._noted) >= MOST_NOTED:
            self._noted.clear()
        self._noted.add(noted)
        logger.warning(
            "event=run.definition_changed run=%s reactor=%s steps=%r detail=%r",
            stored.run.id,
            stored.run.reactor,
            list(fit.rewired),
            "their wiring, target or contract is another than when the run did them",
        )
        return fit

    def going_on(self, taken: TakenLease) -> MapEvent:
        """Return the event with which a run that was taken goes on."""
        limit = self._services.settings.max_recoveries
        header = taken.stored.header
        if header.status is RunStatus.ROLLING_BACK and header.trigger == conclusion.UNDO:
            return UndoAsked(limit)
        rolling_back = header.status is RunStatus.ROLLING_BACK
        if taken.stored.cancel_requested is not None and not rolling_back:
            return Stopped(Stopping.CANCELLED)
        return TakenUp(limit)
