"""The embedded back end: jobs are rows of the run store, committed with what causes them."""

from __future__ import annotations

from collections.abc import Sequence

from calandria.jobs.wakeups import Wakeups
from calandria.ports.run_store import JobRequest


class EmbeddedJobs:
    """Wakes workers for jobs that the run store already has."""

    def __init__(self, wakeups: Wakeups) -> None:
        self.wakeups = wakeups

    def enqueue(self, jobs: Sequence[JobRequest]) -> None:
        """Wake workers: a job that is due later only shortens how long they sleep."""
        self.wakeups.notify(len(jobs))

    def close(self) -> None:
        """Let waiting threads go."""
        self.wakeups.wake_all()
