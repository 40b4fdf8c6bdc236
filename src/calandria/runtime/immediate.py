"""`jobs="immediate"`: each job is performed at once, in the thread that causes it. For tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from calandria.ports.run_store import JobRequest, TakenLease

if TYPE_CHECKING:
    from calandria.runtime.runtime import Runtime


class ImmediateJobs:
    """Performs jobs where they are caused; retries and waits are waited for there."""

    transactional = False

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def enqueue(self, jobs: Sequence[JobRequest]) -> None:
        """Perform each job now, delays left aside; one whose run is executing is not needed."""
        runtime = self._runtime
        for job in jobs:
            taken = runtime.store.take_lease(
                job.run_id, owner=runtime.owner, ttl=runtime.settings.lease_seconds
            )
            if isinstance(taken, TakenLease):
                runtime.runner.perform(taken, parks=False)

    def close(self) -> None:
        """Nothing to let go of."""
