"""`jobs="immediate"`: each job is performed at once, in the thread that causes it. For tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from calandria.ports.run_store import JobRequest, TakenLease

if TYPE_CHECKING:
    from calandria.runtime.runtime import Runtime


class ImmediateJobs:
    """Performs jobs where they are caused; retries and waits are waited for there."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._performing: set[str] = set()

    def enqueue(self, jobs: Sequence[JobRequest]) -> None:
        """Perform each job now, delays left aside; one whose run is executing is not needed."""
        runtime = self._runtime
        for job in jobs:
            if job.run_id in self._performing:
                # it was put down by what performs it: there is nobody else to leave it to
                continue
            taken = runtime.store.take_lease(
                job.run_id, owner=runtime.owner, ttl=runtime.settings.lease_seconds
            )
            if isinstance(taken, TakenLease):
                self._performing.add(job.run_id)
                try:
                    runtime.runner.perform(taken, parks=False)
                finally:
                    self._performing.discard(job.run_id)

    def close(self) -> None:
        """Nothing to let go of."""
