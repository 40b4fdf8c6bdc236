"""Letting a run that was taken up in at its own gates, or putting it down again."""

from __future__ import annotations

import dataclasses
import logging
import math
import random
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from calandria.ports.coordination import Hold
from calandria.ports.run_store import (
    Changes,
    CoordinationChanges,
    JobRequest,
    Lease,
    RunHeader,
    TakenLease,
)
from calandria.ports.run_store import Event as StoredEvent
from calandria.results import Failure, Halt
from calandria.runtime.coordinating import LONGEST_WAIT_IN_WORKER
from calandria.runtime.gates import (
    describe_wait,
    halting_reason,
    raise_contention,
)
from calandria.runtime.hold_notices import tell_entered, tell_parked
from calandria.runtime.needs import Needs
from calandria.runtime.ownership import Job, Ownership
from calandria.statuses import FINISHED, RunStatus

if TYPE_CHECKING:
    from calandria.runtime.runtime import Runtime

logger = logging.getLogger("calandria.run")

_GOING_BACK = FINISHED | {RunStatus.ROLLING_BACK, RunStatus.PAUSED}
"""Statuses from which a run that is taken up goes backward."""


class Admission:
    """Takes what a run's reactor declares, for runs that are gone on with."""

    def __init__(self, runtime: Runtime, ownership: Ownership) -> None:
        self._runtime = runtime
        self._services = runtime.services
        self._gates = runtime.gates
        self._ownership = ownership

    def enter_again(self, job: Job, taken: TakenLease) -> Halt | None:
        """Take what the run's reactor declares again; a `Halt` is the end of the run.

        Raises `ContentionError`, the lease let go.
        """
        if job.needs is None:
            return None
        backward = taken.stored.header.status in _GOING_BACK
        admitted = _admitted(taken)
        try:
            refused = self._gates.enter(
                job.environment.session, job.needs, backward=backward, admitted=admitted
            )
            reason = None if refused is None else halting_reason(refused)
            if refused is not None and reason is None:
                raise_contention(refused, job.needs, job.environment.run.reactor)
        except BaseException:
            self._ownership.release(taken.lease)
            raise
        if reason is not None:
            self._conclude_at_gates(job, taken, Halt(reason))
            return Halt(reason, run_id=taken.lease.run_id)
        if not admitted:
            self._tell_entered(job, job.needs)
        return None

    @staticmethod
    def _tell_entered(job: Job, needs: Needs) -> None:
        environment = job.environment
        tell_entered(job.execution.journal, environment.run, needs, environment.session.holds.all())

    def pass_gates(self, job: Job, taken: TakenLease, *, parks: bool) -> bool:
        """Take what the run's reactor declares, in a worker; false if the run was put down."""
        if job.needs is None:
            return True
        session, header = job.environment.session, taken.stored.header
        backward = header.status is RunStatus.ROLLING_BACK
        longest = LONGEST_WAIT_IN_WORKER if parks else math.inf
        # a run that has begun is never failed for waiting at its own gates
        admitted = _admitted(taken)
        refused = self._gates.enter(
            session, job.needs, longest_wait=longest, backward=backward, admitted=admitted
        )
        if refused is None:
            if not admitted:
                self._tell_entered(job, job.needs)
            return True
        reason = halting_reason(refused)
        ending: Halt | Failure | None = None if reason is None else Halt(reason)
        if ending is None and not admitted:
            ending = self._gates.ending(session.run_id, refused, job.needs)
        if ending is not None:
            self._conclude_at_gates(job, taken, ending)
            return False
        if admitted:
            self._gates.note_admitted_wait(session.run_id, refused, job.needs)
        waits_for = describe_wait(refused, job.needs)
        self._put_down_taken(taken.lease, header, waits_for, refused.retry_after, session.adopted)
        if waits_for != header.waits_for:
            tell_parked(job.environment.observers, job.environment.run, refused, waits_for)
        return False

    def _conclude_at_gates(self, job: Job, taken: TakenLease, ending: Halt | Failure) -> None:
        """Record the end of a run that is not let in, or not any more."""
        session, now = job.environment.session, self._services.clock.now()
        header = job.concluder.unbegun(ending)
        events = [StoredEvent(session.next_sequence(), now, f"run.{header.status.value}")]
        parent = taken.stored.run.parent_id
        jobs = [] if parent is None else [JobRequest(parent)]
        changes = Changes(
            header=dataclasses.replace(header, finished_at=now),
            events=events,
            jobs=jobs,
            release=True,
            now=now,
            coordination=CoordinationChanges(
                turn_ends=self._gates.turn_ends(job.needs, failed=isinstance(ending, Failure)),
                now=now,
                ends=True,
            ),
        )
        self._services.store.commit(taken.lease, changes)
        self._runtime.released()
        self._runtime.enqueue(jobs)
        run, observers = job.environment.run, job.environment.observers
        if isinstance(ending, Halt):
            observers.notify("run_halted", run, ending.reason)
        else:
            observers.notify("run_failed", run, ending)

    def put_down(self, taken: TakenLease, waits_for: str, why: str) -> None:
        """Leave a run to a worker that can go on with it; say so once."""
        header = taken.stored.header
        if header.waits_for != waits_for:
            logger.warning(
                "event=run.left run=%s waits_for=%r why=%r", taken.lease.run_id, waits_for, why
            )
        self._put_down_taken(taken.lease, header, waits_for)

    def _put_down_taken(
        self,
        lease: Lease,
        header: RunHeader,
        waits_for: str | None,
        delay: float | None = None,
        held: Mapping[str, Sequence[Hold]] = MappingProxyType({}),
    ) -> None:
        """Give a run back unchanged, to be looked at again after a while."""
        now = self._services.clock.now()
        if delay is None:
            delay = self._services.settings.snooze_seconds(random.random())
        wake_at = None if waits_for is None else now + delay
        header = dataclasses.replace(header, waits_for=waits_for, wake_at=wake_at)
        jobs = [JobRequest(lease.run_id, delay)]
        lives = [hold.expires_in for holds in held.values() for hold in holds]
        # nobody renews what a parked run holds: it must outlast the wait
        kept = CoordinationChanges(extend_holds=delay + max(lives), now=now) if lives else None
        changes = Changes(header=header, jobs=jobs, release=True, now=now, coordination=kept)
        self._services.store.commit(lease, changes)
        self._runtime.enqueue(jobs)


def _admitted(taken: TakenLease) -> bool:
    """Tell whether a run has begun: its own gates are behind it."""
    return taken.last_sequence > 1
