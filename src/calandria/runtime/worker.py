"""A worker: threads that take runs whose job is due, and a sweep that finds those without one."""

from __future__ import annotations

import logging
import os
import random
import socket
import threading
from typing import TYPE_CHECKING

from calandria.errors import CalandriaError, StaleLease, StorageError
from calandria.jobs.wakeups import Wakeups
from calandria.ports.jobs import JobStore, WorkerReport
from calandria.ports.run_store import TakenLease
from calandria.runtime.outcomes import WorkerStopping

if TYPE_CHECKING:
    from calandria.runtime.runtime import Runtime

logger = logging.getLogger("calandria.worker")

SLOW_POLL = 5.0
"""Seconds between two looks at the job table when nobody wakes the worker."""
REPORT_INTERVAL = 10.0
LONGEST_BACKOFF = 5.0
LONGEST_WAIT = 0.5
"""Seconds that a thread which is to handle signals waits at a stretch."""


class Worker:
    """Performs the jobs of a runtime in `threads` threads until it is stopped.

    A worker takes a run's lease together with its job, and goes on with the run until it has
    ended, waits, or fails. One that dies loses nothing: its leases lapse, and a sweep, in any
    worker, puts the runs back to work.
    """

    def __init__(self, runtime: Runtime, threads: int = 4) -> None:
        if threads < 1:
            raise CalandriaError(f"a worker needs at least one thread, not {threads}.")
        self._runtime = runtime
        self._jobs: JobStore = runtime.job_store
        self._wakeups: Wakeups = runtime.wakeups
        self._thread_count = threads
        self._threads: list[threading.Thread] = []
        self._attendant: threading.Thread | None = None
        self._stopping = threading.Event()
        self._stopped = threading.Event()
        self._attend_now = threading.Event()
        self._running: dict[str, None] = {}
        self._performed = 0
        self._started_at = 0.0

    @property
    def running(self) -> tuple[str, ...]:
        """The ids of the runs it executes now."""
        return tuple(self._running)

    @property
    def performed(self) -> int:
        """How many jobs it has performed."""
        return self._performed

    @property
    def alive(self) -> bool:
        """Whether any of its threads still runs."""
        threads = [*self._threads, *([self._attendant] if self._attendant else [])]
        return any(thread.is_alive() for thread in threads)

    def start(self) -> Worker:
        """Start the threads; raises `StorageError` if the storage is not there."""
        self._runtime.prepare()
        self._wakeups.listen()
        self._started_at = self._runtime.services.clock.now()
        self._threads = [
            threading.Thread(target=self._serve, name=f"calandria-worker-{number}", daemon=True)
            for number in range(self._thread_count)
        ]
        self._attendant = threading.Thread(target=self._attend, name="calandria-sweep", daemon=True)
        self._runtime.workers.add(self)
        for thread in (*self._threads, self._attendant):
            thread.start()
        return self

    def stop(self, timeout: float | None = None) -> bool:
        """Take no further run, wait for those under way, and tell whether all of them ended.

        After `timeout` seconds (`None`: no limit) the steps still running are told to stop
        (`context.cancelled`). Their runs are given back when they do, or, if the process ends
        first, taken up elsewhere once their leases lapse.
        """
        self._stopping.set()
        self._wakeups.wake_all()
        self._attend_now.set()
        clock = self._runtime.services.clock
        deadline = None if timeout is None else clock.monotonic() + timeout
        for thread in self._threads:
            self._join(thread, deadline)
        drained = not any(thread.is_alive() for thread in self._threads)
        self._stopped.set()
        self._attend_now.set()
        if self._attendant is not None:
            # it must not report once the worker is forgotten; it may be waiting for the storage
            self._attendant.join(LONGEST_BACKOFF)
        if not drained:
            for run_id in self.running:
                session = self._runtime.keeper.session(run_id)
                if session is not None:
                    session.interrupt(WorkerStopping("the worker was stopped"))
        if self in self._runtime.workers:
            self._runtime.workers.discard(self)
            self._wakeups.close()
        try:
            self._jobs.remove_worker(self._runtime.owner)
        except StorageError as error:
            logger.warning("event=worker.report_failed error=%r", str(error))
        return drained

    def _join(self, thread: threading.Thread, deadline: float | None) -> None:
        clock = self._runtime.services.clock
        while thread.is_alive():
            left = LONGEST_WAIT if deadline is None else deadline - clock.monotonic()
            if left <= 0:
                return
            # Python sees a signal that comes just before a wait at the end of the wait
            thread.join(min(left, LONGEST_WAIT))

    def _serve(self) -> None:
        backoff = 0.05
        while not self._stopping.is_set():
            try:
                wait = self._take_one()
                backoff = 0.05
            except StorageError as error:
                logger.warning("event=worker.storage_unavailable error=%r", str(error))
                wait = None
                self._stopping.wait(backoff)
                backoff = min(backoff * 2, LONGEST_BACKOFF)
            except Exception:
                # this thread must outlive whatever happens: no one would start another
                logger.exception("event=worker.failed")
                wait = None
                self._stopping.wait(backoff)
                backoff = min(backoff * 2, LONGEST_BACKOFF)
            if wait is not None:
                self._wakeups.wait(wait, self._stopping)

    def _take_one(self) -> float | None:
        """Perform one job; return how long to wait for the next if there was none."""
        settings = self._runtime.settings
        claim = self._jobs.claim_job(owner=self._runtime.owner, ttl=settings.lease_seconds)
        if claim.taken is None:
            # nobody wakes a worker when the lease of a run with a job lapses
            longest = min(SLOW_POLL, settings.sweep_seconds)
            due = longest if claim.next_due is None else min(claim.next_due, longest)
            return max(due, 0.001)
        if claim.next_due is not None:
            # while this thread is busy, another one is to see to the next job, or to its due time
            self._wakeups.wake_one()
        self._running[claim.taken.lease.run_id] = None
        try:
            self._perform(claim.taken)
        finally:
            self._running.pop(claim.taken.lease.run_id, None)
            self._performed += 1
        return None

    def _perform(self, taken: TakenLease) -> None:
        run_id = taken.lease.run_id
        try:
            self._runtime.runner.perform(taken)
        except StaleLease:
            # the session has said so: whoever owns the run now goes on with it
            return
        except StorageError as error:
            logger.error("event=worker.let_go run=%s error=%r", run_id, str(error))
        except Exception:
            logger.exception("event=worker.failed run=%s", run_id)
        except BaseException as interruption:
            # a step raised it: the run is left for another attempt, and the worker goes on
            logger.error("event=worker.interrupted run=%s by=%r", run_id, interruption)

    def _attend(self) -> None:
        """Report and sweep, each in its own rhythm; while the worker drains, only report."""
        interval = self._runtime.settings.sweep_seconds
        clock = self._runtime.services.clock
        # spread, so that workers started together do not sweep together
        next_sweep = clock.monotonic() + interval * random.uniform(0.1, 1.0)
        next_report = clock.monotonic()
        while not self._stopped.is_set():
            draining = self._stopping.is_set()
            now = clock.monotonic()
            try:
                if now >= next_report or self._attend_now.is_set():
                    self._attend_now.clear()
                    self._report()
                    next_report = now + REPORT_INTERVAL
                if now >= next_sweep and not draining:
                    self._runtime.sweep()
                    # never later than an interval: a dead process is missed for so long at most
                    next_sweep = now + interval * random.uniform(0.8, 1.0)
            except StorageError as error:
                logger.warning("event=worker.storage_unavailable error=%r", str(error))
                next_sweep = max(next_sweep, now + min(interval, 1.0))
                next_report = max(next_report, now + 1.0)
            next_time = next_report if draining else min(next_sweep, next_report)
            self._attend_now.wait(max(next_time - clock.monotonic(), 0.01))

    def forget(self) -> None:
        """In a forked child: the threads, and what they do, are the parent's."""
        self._threads = []
        self._attendant = None
        self._running = {}

    def _report(self) -> None:
        self._wakeups.listen_again()
        now = self._runtime.services.clock.now()
        self._jobs.report_worker(
            WorkerReport(
                owner=self._runtime.owner,
                host=socket.gethostname(),
                process=os.getpid(),
                threads=self._thread_count,
                started_at=self._started_at,
                seen_at=now,
                running=self.running,
                performed=self._performed,
                draining=self._stopping.is_set(),
            )
        )
