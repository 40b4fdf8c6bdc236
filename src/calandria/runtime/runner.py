"""Running, taking up, undoing and cancelling runs."""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING, Any

from calandria.definition.execution import RunOptions
from calandria.definition.reactors import Reactor
from calandria.engine.events import (
    Stopped,
    Stopping,
    UndoAsked,
)
from calandria.errors import (
    DefinitionError,
    RunBusy,
    RunStateError,
)
from calandria.ports.run_store import (
    TakenLease,
)
from calandria.results import Result
from calandria.runtime import conclusion
from calandria.runtime.admission import Admission
from calandria.runtime.ownership import Job, Ownership
from calandria.runtime.resuming import LEFT_TO_OTHERS, Resumer
from calandria.runtime.starting import KeyTaken, Starter, starts_in_worker
from calandria.runtime.units import stored_definition
from calandria.statuses import FINISHED, RunStatus

if TYPE_CHECKING:
    from calandria.runtime.runtime import Runtime

logger = logging.getLogger("calandria.run")


class Runner:
    """Runs reactors for a runtime."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._services = runtime.services
        self._gates = runtime.gates
        self._ownership = Ownership(runtime)
        self._starter = Starter(runtime, self._ownership, self.recover)
        self._resumer = Resumer(runtime, self._ownership)
        self._admission = Admission(runtime, self._ownership)

    def run(
        self, reactor: type[Reactor], values: dict[str, object], options: RunOptions
    ) -> Result[Any]:
        """Run a reactor in this thread and return what it came to."""
        begun = self._starter.begin(reactor, values, options)
        if not isinstance(begun, Job):
            return begun
        try:
            return self._ownership.drive(begun)
        except KeyTaken as taken:
            return self._starter.keyed(reactor, taken.keyed, begun.inputs_digest)

    async def arun(
        self, reactor: type[Reactor], values: dict[str, object], options: RunOptions
    ) -> Result[Any]:
        """Run a reactor on the running event loop and return what it came to."""
        blocks = options.idempotency_key is not None or reactor.definition().coordination
        if not blocks and not starts_in_worker(reactor):
            begun = self._starter.begin(reactor, values, options)
        else:
            begun = await self._runtime.in_thread(
                self._starter.begin, reactor, values, options, undo=self._starter.let_be
            )
        if not isinstance(begun, Job):
            return begun
        try:
            return await self._ownership.adrive(begun)
        except KeyTaken as taken:
            return await self._runtime.in_thread(
                self._starter.keyed, reactor, taken.keyed, begun.inputs_digest
            )

    def recover(self, reactor: type[Reactor] | None, run_id: str) -> Result[Any]:
        """Take up a run whose process died, and return what it came to.

        A run that has ended, or is paused, is left as it is. Raises `UnknownRun`, or `RunBusy`
        while another process executes it.
        """
        stored = self._ownership.load(reactor, run_id)
        if stored.header.status in FINISHED or stored.header.status is RunStatus.PAUSED:
            return self._runtime.result_of(stored)
        definition = self._ownership.definition(reactor, stored)
        taken = self._ownership.take(reactor, run_id)
        status = taken.stored.header.status
        if status in FINISHED or status is RunStatus.PAUSED:
            self._ownership.release(taken.lease)
            return self._runtime.result_of(taken.stored)
        job = self._resumer.resume(definition, taken, self._resumer.going_on(taken))
        return self._admission.enter_again(job, taken) or self._ownership.drive(job)

    def perform(self, taken: TakenLease, *, parks: bool = True) -> None:
        """Go on with a run that a worker has just taken, as far as it goes without waiting.

        A run that has ended or is paused is put down again; so is one whose reactor is not known
        here, to be looked at later by a worker that knows it.
        """
        status = taken.stored.header.status
        if status in FINISHED or status is RunStatus.PAUSED:
            self._ownership.release(taken.lease)
            return
        try:
            definition = stored_definition(taken.stored.run.reactor)
        except DefinitionError as error:
            self._admission.put_down(taken, f"definition {taken.stored.run.reactor}", str(error))
            return
        if definition is None:
            waits_for = f"reactor {taken.stored.run.reactor}"
            self._admission.put_down(taken, waits_for, "it is not loaded here")
            return
        try:
            event = self._resumer.going_on(taken)
            job = self._resumer.resume(definition, taken, event, parks=parks)
        except LEFT_TO_OTHERS as error:
            self._admission.put_down(taken, f"definition {taken.stored.run.reactor}", str(error))
            return
        if not self._admission.pass_gates(job, taken, parks=parks):
            return
        self._ownership.drive(job)
        interruption = job.environment.session.interruption
        if interruption is not None:
            logger.warning(
                "event=run.interrupted run=%s by=%r detail=%r",
                taken.lease.run_id,
                interruption,
                "left for another attempt",
            )

    def undo(self, reactor: type[Reactor] | None, run_id: str) -> Result[Any]:
        """Undo what is outstanding of a run that has ended or stopped, newest first.

        Raises `UndoIncomplete` if something is left, `UnknownRun`, `RunBusy` if another process
        holds it for longer than `undo_wait`, or `RunStateError` if its status rules it out.
        """
        definition = self._ownership.definition(reactor, self._ownership.load(reactor, run_id))
        settings = self._services.settings
        taken = self._ownership.take(reactor, run_id, wait=settings.undo_wait_seconds)
        header = taken.stored.header
        refusal = conclusion.undo_refusal(taken.stored)
        if refusal is not None:
            self._ownership.release(taken.lease)
            raise RunStateError(refusal)
        if conclusion.nothing_outstanding(header):
            self._ownership.release(taken.lease)
            return self._runtime.result_of(taken.stored)
        job = self._resumer.resume(definition, taken, UndoAsked(settings.max_recoveries))
        job.concluder.undoing(header)
        self._admission.enter_again(job, taken)
        result = self._ownership.drive(job)
        job.concluder.raise_if_incomplete(run_id)
        return result

    def cancel(self, reactor: type[Reactor] | None, run_id: str, reason: str) -> None:
        """Ask the run's owner to stop it; a run without a live owner is stopped here.

        Raises `UnknownRun`, or `RunStateError` on a run that has ended or is rolling back.
        """
        stored = self._ownership.load(reactor, run_id)
        if not stored.lease_live:
            # without a live owner it is stopped here, which takes its reactor
            self._ownership.definition(reactor, stored)
        requested = self._services.store.request_cancel(run_id, reason)
        if requested is None:
            raise self._ownership.unknown(reactor, run_id)
        status = requested.header.status
        if status in FINISHED or status is RunStatus.ROLLING_BACK:
            raise RunStateError(
                f"Run {run_id} is {status.value}: it cannot be cancelled. "
                "Use undo to reverse what it did."
            )
        session = self._runtime.keeper.session(run_id)
        if session is not None:
            session.cancel(reason)
        elif not requested.lease_live:
            self._cancel_here(reactor, run_id)

    def _cancel_here(self, reactor: type[Reactor] | None, run_id: str) -> None:
        with contextlib.suppress(RunBusy):
            taken = self._ownership.take(reactor, run_id)
            status = taken.stored.header.status
            if status in FINISHED or status is RunStatus.ROLLING_BACK:
                self._ownership.release(taken.lease)
                return
            definition = self._ownership.definition(reactor, taken.stored)
            job = self._resumer.resume(definition, taken, Stopped(Stopping.CANCELLED))
            self._ownership.drive(job)
