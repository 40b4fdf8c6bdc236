"""Owning a run while it executes here: its lease taken, kept alive, and let go of."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from calandria.definition.node_definition import ReactorDefinition
from calandria.definition.reactors import Reactor
from calandria.engine.events import (
    MapEvent,
)
from calandria.errors import (
    RunBusy,
    StorageError,
    UnknownRun,
)
from calandria.ports.middleware import RunInfo
from calandria.ports.run_store import (
    Changes,
    Lease,
    NewRun,
    StoredRun,
    TakenLease,
)
from calandria.results import Result
from calandria.runtime.conclusion import Concluder
from calandria.runtime.effects import Effect
from calandria.runtime.endings import LevelOutcome, Suspension, interrupted_in_worker
from calandria.runtime.environment import Environment
from calandria.runtime.execution import Execution
from calandria.runtime.levels import ReactorLevel
from calandria.runtime.lookup import stored_name
from calandria.runtime.needs import Needs
from calandria.runtime.observers import Observers
from calandria.runtime.outcomes import let_go
from calandria.runtime.session import Session
from calandria.runtime.values import secrets_in, shown
from calandria.statuses import FINISHED

if TYPE_CHECKING:
    from calandria.runtime.runtime import Runtime

logger = logging.getLogger("calandria.run")


@dataclass(eq=False)
class Job:
    """An execution ready to be driven, under its session."""

    environment: Environment
    execution: Execution
    parallel: bool
    concluder: Concluder
    inputs_digest: str = ""
    needs: Needs | None = None
    """What its reactor declares, if anything."""


def execute(
    environment: Environment, level: ReactorLevel, event: MapEvent
) -> Generator[Effect, Any, LevelOutcome | Suspension]:
    """Return the execution of nested work: a level that has no run of its own."""
    return Execution(environment, level, event).drive()


class Ownership:
    """Takes leases, drives executions under them, and lets go."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._services = runtime.services
        self._gates = runtime.gates

    def load(self, reactor: type[Reactor] | None, run_id: str) -> StoredRun:
        """Return a run's record; raises `UnknownRun`, also if it is of another reactor."""
        stored = self._services.store.load_run(run_id)
        if stored is None or (reactor is not None and stored.run.reactor != stored_name(reactor)):
            raise self.unknown(reactor, run_id)
        return stored

    def definition(self, reactor: type[Reactor] | None, stored: StoredRun) -> ReactorDefinition:
        """Return the definition of the reactor that was asked, or else of the run's own."""
        if reactor is not None:
            return reactor.definition()
        return self._runtime.definition_of(stored)

    def unknown(self, reactor: type[Reactor] | None, run_id: str) -> UnknownRun:
        """Return the error for a run that is not there."""
        of = f" of {reactor.definition().name}" if reactor is not None else ""
        return UnknownRun(f"There is no run {run_id!r}{of} in {self._runtime.storage_url}.")

    def take(self, reactor: type[Reactor] | None, run_id: str, wait: float = 0.0) -> TakenLease:
        """Take a run's lease, waiting `wait` seconds for it; raises `UnknownRun` or `RunBusy`."""
        clock = self._services.clock
        deadline = clock.monotonic() + wait
        while True:
            taken = self._services.store.take_lease(
                run_id, owner=self._runtime.owner, ttl=self._services.settings.lease_seconds
            )
            if isinstance(taken, TakenLease):
                return taken
            if taken is None:
                raise self.unknown(reactor, run_id)
            if clock.monotonic() >= deadline:
                raise RunBusy(
                    f"Run {run_id} is being executed by {taken.lease_owner}; its lease is live. "
                    "Wait until that process ends it or dies, then try again."
                )
            self._runtime.pause(0.02)

    def release(self, lease: Lease) -> None:
        """Let go of a lease under which nothing was done."""
        now = self._services.clock.now()
        self._services.store.commit(lease, Changes(release=True, now=now))

    def environment(
        self,
        session: Session,
        definition: ReactorDefinition,
        inputs: dict[str, Any],
        stored: NewRun,
        redacted: frozenset[str],
        *,
        taken_up: bool = False,
        parks: bool = False,
    ) -> Environment:
        """Return what an execution under `session` shares."""
        run = RunInfo(
            session.run_id,
            session.root_id,
            definition.name,
            shown(inputs, redacted),
            session.lease.epoch,
            taken_up,
        )
        return Environment(
            session=session,
            observers=Observers(self._runtime.middleware + definition.middleware),
            run=run,
            loop=self._runtime.loop,
            pool=self._runtime.pool,
            execute=execute,
            stored_reactor=stored.reactor,
            parent_id=stored.parent_id,
            parks=parks,
            enqueue=self._runtime.enqueue,
            released=self._runtime.released,
            performs_here=lambda: self._runtime.performs_here,
            secrets=secrets_in(inputs, redacted),
        )

    def drive(self, job: Job) -> Result[Any]:
        """Drive a job to its end in this thread; return what the run came to."""
        with self._owning(job):
            outcome = job.environment.drive(job.execution.drive(), parallel=job.parallel)
        return job.concluder.result(outcome)

    async def adrive(self, job: Job) -> Result[Any]:
        """Drive a job to its end on the running event loop."""
        with self._owning(job):
            outcome = await job.environment.adrive(job.execution.drive())
        return job.concluder.result(outcome)

    @contextlib.contextmanager
    def _owning(self, job: Job) -> Iterator[None]:
        """Keep the lease alive while the run executes, and see to it that no one is misled after.

        An interruption that reached no step (it came between two) still leaves the run `aborted`.
        """
        session = job.environment.session
        remove = self._runtime.keeper.removal(session)
        try:
            self._runtime.keeper.add(session)
            yield
        except Exception as error:
            session.interrupt(error)
            if session.lost:
                job.environment.observers.notify("lease_lost", job.environment.run)
            elif not isinstance(error, StorageError) and session.exists:
                with contextlib.suppress(StorageError):
                    self.release(session.lease)
            raise
        except BaseException as interruption:
            let_go(interruption)
            first = session.interruption is None
            session.interrupt(interruption)
            if first and not session.lost:
                self._abort(job, interruption)
            raise
        finally:
            remove()
            if not session.exists:
                self._gates.leave(session)

    def _abort(self, job: Job, interruption: BaseException) -> None:
        """Record that a run was interrupted between two commits of its own, or within one."""
        session = job.environment.session
        try:
            # only the storage knows what became of a commit that was interrupted
            stored = self._services.store.load_run(session.run_id)
            if stored is None or stored.lease_owner is None or stored.epoch != session.lease.epoch:
                return
            if job.environment.parks and stored.header.status not in FINISHED:
                suspension = interrupted_in_worker(interruption, session)
                changes = job.concluder.left_changes(suspension)
            elif stored.header.status in FINISHED:
                changes = Changes(release=True, now=self._services.clock.now())
            else:
                changes = job.concluder.aborted_changes(interruption)
            session.give_up(changes)
        except StorageError as error:
            logger.error("event=run.abort_failed run=%s error=%r", session.run_id, str(error))
