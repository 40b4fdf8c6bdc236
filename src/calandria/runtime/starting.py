"""Starting a run: from a request to a job, or to a result that needs none."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from calandria.definition.execution import RunOptions
from calandria.definition.node_definition import ReactorDefinition
from calandria.definition.reactors import Reactor
from calandria.engine.events import (
    Began,
)
from calandria.engine.state import new_level
from calandria.errors import (
    EncodingError,
    IdempotencyConflict,
    KeyUnusable,
    RunBusy,
    ValidationError,
)
from calandria.ports.run_store import (
    Changes,
    JobRequest,
    KeyedRun,
    Lease,
    NewRun,
    RunHeader,
)
from calandria.ports.run_store import Event as StoredEvent
from calandria.results import Dispatched, Failure, Result
from calandria.runtime import conclusion
from calandria.runtime.conclusion import Concluder
from calandria.runtime.execution import Execution
from calandria.runtime.gates import (
    positions_of,
)
from calandria.runtime.hold_notices import tell_entered
from calandria.runtime.identifiers import digest, new_run_id
from calandria.runtime.levels import ReactorLevel
from calandria.runtime.lookup import stored_name
from calandria.runtime.needs import Needs
from calandria.runtime.nested import plan_is_parallel
from calandria.runtime.outline import outline_text
from calandria.runtime.ownership import Job, Ownership
from calandria.runtime.reach import check_reach
from calandria.runtime.session import Session
from calandria.runtime.stored_results import pruned_result
from calandria.runtime.values import record_inputs, shown
from calandria.statuses import FINISHED, RunStatus

if TYPE_CHECKING:
    from calandria.runtime.runtime import Runtime


class KeyTaken(Exception):
    """The idempotency key of a run that was about to be created belongs to another run."""

    def __init__(self, keyed: KeyedRun) -> None:
        super().__init__(keyed.run_id)
        self.keyed = keyed


class Starter:
    """Begins new runs, here or in a worker."""

    def __init__(
        self,
        runtime: Runtime,
        ownership: Ownership,
        recover: Callable[[type[Reactor], str], Result[Any]],
    ) -> None:
        """`recover` takes up a run under a used key whose process died."""
        self._runtime = runtime
        self._services = runtime.services
        self._gates = runtime.gates
        self._ownership = ownership
        self._recover = recover

    def begin(
        self, reactor: type[Reactor], values: dict[str, object], options: RunOptions
    ) -> Result[Any] | Job:
        """Return the job of a new run, or the result of a call that needs none."""
        definition = reactor.definition()
        self._runtime.learn(definition)
        codec = self._services.codec
        try:
            validated = definition.contract.validate(values)
            text, seen = record_inputs(validated, codec)
            needs = self._gates.needs(definition, seen)
        except (ValidationError, EncodingError, KeyUnusable) as error:
            return Failure(
                str(error),
                retryable=False,
                exception=error,
                exception_class=type(error).__qualname__,
                reactor=definition.name,
                inputs=shown(dict(values), definition.contract.redacted),
                validation_errors=getattr(error, "errors", {}),
            )
        if not self._runtime.performs_here:
            check_reach(reactor)
        key = options.idempotency_key
        inputs_digest = "" if key is None else digest(text)
        name = stored_name(reactor)
        if key is not None:
            keyed = self._services.store.find_key(name, key)
            if keyed is not None:
                return self.keyed(reactor, keyed, inputs_digest)
        new_run = self._new_run(reactor, definition, options, text, inputs_digest)
        if starts_in_worker(reactor):
            return self._dispatch(reactor, new_run, needs)
        session = self._creating_session(new_run)
        if needs is not None:
            let_in = False
            try:
                refused = self._gates.enter(session, needs)
                if refused is not None:
                    return self._gates.refusal(refused, needs, definition.name)
                let_in = True
            finally:
                if not let_in:
                    self._gates.hand_back(session.run_id, needs)
        redacted = definition.contract.redacted
        environment = self._ownership.environment(session, definition, seen, new_run, redacted)
        state = new_level(definition.plan, definition.plan.hand_off)
        level = ReactorLevel(definition, state, seen, redacted_inputs=redacted)
        concluder = Concluder(environment, definition)
        concluder.needs = needs
        execution = Execution(
            environment,
            level,
            Began(),
            begin_rollback=concluder.begin_rollback,
            conclude=concluder.conclude,
        )
        execution.journal.event("run.started")
        execution.journal.notice("lease_taken", environment.run)
        execution.journal.notice("run_started", environment.run)
        if needs is not None:
            tell_entered(execution.journal, environment.run, needs, session.holds.all())
        parallel = plan_is_parallel(definition.plan)
        return Job(environment, execution, parallel, concluder, inputs_digest)

    def _dispatch(
        self, reactor: type[Reactor], new_run: NewRun, needs: Needs | None
    ) -> Result[Any]:
        """Record a run for a worker to begin: nothing of it executes here."""
        new_run = conclusion.with_header(new_run, RunHeader(RunStatus.PENDING))
        now = new_run.created_at
        jobs = [JobRequest(new_run.id)]
        changes = Changes(
            events=[StoredEvent(1, now, "run.created")],
            jobs=jobs,
            now=now,
            coordination=positions_of(new_run.id, needs, now),
        )
        created = self._services.store.create_run(
            new_run, changes, owner=None, ttl=self._services.settings.lease_seconds
        )
        if isinstance(created, KeyedRun):
            return self.keyed(reactor, created, new_run.inputs_digest or "")
        self._runtime.enqueue(jobs)
        return Dispatched(new_run.id)

    def _new_run(
        self,
        reactor: type[Reactor],
        definition: ReactorDefinition,
        options: RunOptions,
        inputs: str,
        inputs_digest: str,
    ) -> NewRun:
        now = self._services.clock.now()
        run_id = new_run_id(now)
        return NewRun(
            id=run_id,
            reactor=stored_name(reactor),
            shape=definition.shape,
            inputs=inputs,
            header=RunHeader(RunStatus.RUNNING),
            created_at=now,
            root_id=run_id,
            idempotency_key=options.idempotency_key,
            inputs_digest=inputs_digest or None,
            correlation_id=options.correlation_id,
            outline=outline_text(definition),
        )

    def _creating_session(self, new_run: NewRun) -> Session:
        store, owner = self._services.store, self._runtime.owner
        ttl = self._services.settings.lease_seconds

        def create(changes: Changes) -> Lease:
            run = conclusion.with_header(new_run, changes.header)
            holder = None if changes.release else owner
            created = store.create_run(run, changes, owner=holder, ttl=ttl)
            if isinstance(created, KeyedRun):
                raise KeyTaken(created)
            return created if created is not None else Lease(run.id, owner, 0)

        return Session.creating(self._services, Lease(new_run.id, owner, 1), create)

    def keyed(self, reactor: type[Reactor], keyed: KeyedRun, inputs_digest: str) -> Result[Any]:
        """Return what a call under a used idempotency key gets."""
        if keyed.inputs_digest != inputs_digest:
            raise IdempotencyConflict(
                f"{reactor.definition().name}: run {keyed.run_id} was started under this "
                "idempotency key with other inputs. Use a new key for a new piece of work."
            )
        stored = self._services.store.load_run(keyed.run_id)
        if stored is None:
            return pruned_result(keyed, self._services.codec)
        if stored.header.status in FINISHED or stored.header.status is RunStatus.PAUSED:
            return self._runtime.result_of(stored)
        if stored.lease_live or stored.lease_owner is None:
            # someone executes it, or it was put down in good order for a worker to go on with
            return Dispatched(keyed.run_id)
        try:
            return self._recover(reactor, keyed.run_id)
        except RunBusy:
            return Dispatched(keyed.run_id)

    def let_be(self, begun: Result[Any] | Job) -> None:
        """Let go of what a run took whose caller was cancelled before it began."""
        if isinstance(begun, Job):
            self._gates.leave(begun.environment.session)


def starts_in_worker(reactor: type[Reactor]) -> bool:
    """Tell whether nothing of a reactor runs in the caller's process."""
    hand_off = reactor.definition().plan.hand_off
    return hand_off is not None and hand_off.at_once
