"""One process's right to execute one run: its lease, its counters, and its commits."""

from __future__ import annotations

import itertools
import logging
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from calandria.errors import StaleLease, StorageError
from calandria.ports.clock import Clock
from calandria.ports.codec import Codec
from calandria.ports.coordination import Hold
from calandria.ports.run_store import Changes, Lease, RunStore
from calandria.runtime.hold_book import HoldBook
from calandria.runtime.needs import Needs
from calandria.runtime.settings import Settings

logger = logging.getLogger("calandria.lease")


@dataclass(frozen=True)
class Services:
    """What every execution of a runtime shares."""

    store: RunStore
    codec: Codec
    records: Codec
    """For what the library itself records, which no limit on values may keep out."""
    clock: Clock
    settings: Settings


class Session:
    """The ownership of a run while this process executes it.

    Safe to use from the threads of its steps. It is over when the lease was released or lost; a
    lost one records nothing more.
    """

    def __init__(
        self,
        services: Services,
        lease: Lease,
        *,
        root_id: str,
        last_sequence: int = 0,
    ) -> None:
        self.services = services
        self.lease = lease
        self.run_id = lease.run_id
        self.root_id = root_id
        self.cancel_reason: str | None = None
        self.lost = False
        self.interruption: BaseException | None = None
        """What interrupted the process while it executed the run, if anything did."""
        self.holds = HoldBook()
        """What the run holds, to be kept alive."""
        self.holds.on_loss = self._tell
        self.adopted: dict[str, list[Hold]] = {}
        """What the run held, by path, when this process took it up, and has not asked for again."""
        self.requests: dict[str, Needs] = {}
        """What was taken for each path, to be taken again if it is lost."""
        self.waits_for_keys = False
        """Whether a step of the run waits, in this process, for a key."""
        self.nudged = False
        """Whether something was released that one of its steps may wait for."""
        self.committed = False
        """Whether anything was recorded under this session."""
        self._over = False
        self._leaving = False
        self._storage_error: StorageError | None = None
        self._sequence = itertools.count(last_sequence + 1)
        # what is completed was begun, and its beginning is an event: no place taken is higher
        self._order = itertools.count(last_sequence + 1)
        self._lock = threading.Lock()
        self._losing = threading.Lock()
        self._listeners: set[Callable[[], None]] = set()
        self._create: Callable[[Changes], Lease] | None = None

    @classmethod
    def creating(
        cls, services: Services, lease: Lease, create: Callable[[Changes], Lease]
    ) -> Session:
        """Return the session of a run that its first commit will create."""
        session = cls(services, lease, root_id=lease.run_id)
        session._create = create
        return session

    @property
    def exists(self) -> bool:
        """Whether the run is recorded: false until its first commit."""
        return self._create is None

    @property
    def lets_go(self) -> bool:
        """Whether the lease was let go, or is at this moment: that another has it is no loss."""
        return self._leaving or self._over

    def stops(self, *, backward: bool) -> bool:
        """Tell whether bodies should stop: a lost lease, an interruption, or a cancel.

        A cancel does not stop what goes `backward`: compensates and undos.
        """
        if self.interruption is not None or self.lost:
            return True
        return not backward and self.cancel_reason is not None

    def next_sequence(self) -> int:
        """Return the number of the run's next event."""
        return next(self._sequence)

    def next_order(self) -> int:
        """Return the next place in the run's order of completions."""
        return next(self._order)

    def randomness(self) -> float:
        """Return a number from 0 to 1 for a delay's jitter."""
        return random.random()

    def commit(self, changes: Changes) -> None:
        """Write `changes` under the lease; a storage that fails is retried for one lease.

        Raises `StaleLease` when another process owns the run, `StorageError` when the storage
        stays out of reach; in both cases nothing was written.
        """
        self.check()  # also before the lock, which a fork may have copied while it was held
        with self._lock:
            self.check()
            self._leaving = changes.release
            try:
                reason = self._write(changes)
                self.committed = True
                self._over = changes.release
            finally:
                self._leaving = False
        if reason is not None:
            self.cancel(reason)

    def give_up(self, changes: Changes) -> None:
        """Write the last `changes`, without patience; nothing is recorded after them.

        Raises `StorageError`, `StaleLease` included, when they could not be written.
        """
        with self._lock:
            self._over = True
            self.services.store.commit(self.lease, changes)

    def _write(self, changes: Changes) -> str | None:
        if self._create is None:
            return self._commit_patiently(changes)
        self.lease = self._create(changes)
        self._create = None
        return None

    def _commit_patiently(self, changes: Changes) -> str | None:
        clock = self.services.clock
        deadline: float | None = None
        pause = 0.05
        while True:
            try:
                return self.services.store.commit(self.lease, changes)
            except StaleLease:
                self.lose()
                raise self._stale() from None
            except StorageError as error:
                now = clock.monotonic()
                if deadline is None:
                    deadline = now + self.services.settings.lease_seconds
                    logger.warning(
                        "event=storage.retrying run=%s error=%r", self.run_id, str(error)
                    )
                if now >= deadline:
                    self._storage_error = error
                    raise
                time.sleep(min(pause, max(deadline - now, 0)))
                pause = min(pause * 2, 1.0)

    def check(self) -> None:
        """Raise `StaleLease` if the lease was lost or let go, `StorageError` if a commit failed.

        What one commit could not record, a body around nested work must not turn into a failure
        of its own: nothing is rolled back that cannot be recorded.
        """
        if self.lost:
            raise self._stale()
        if self._storage_error is not None:
            raise self._storage_error
        if self._over:
            raise StaleLease(
                f"Run {self.run_id}: its execution here has ended. What still works for it, in a "
                "thread that outlived its step, records nothing; have the step wait for it."
            )

    def _stale(self) -> StaleLease:
        return StaleLease(
            f"Run {self.run_id}: another process took it over after this one's lease (epoch "
            f"{self.lease.epoch}) lapsed. Nothing more is recorded here; the run goes on there."
        )

    def cancel(self, reason: str) -> None:
        """Note that someone asked to cancel the run, and tell its running steps."""
        if self.cancel_reason is None:
            self.cancel_reason = reason
            self._tell()

    def lose(self) -> None:
        """Note that the lease was lost, say so once, and tell the running steps."""
        with self._losing:
            news, self.lost = not self.lost, True
        if news:
            logger.error(
                "event=lease.lost run=%s epoch=%d detail=%r",
                self.run_id,
                self.lease.epoch,
                "another process owns the run now; what this one was doing is not recorded",
            )
            self._tell()

    def interrupt(self, cause: BaseException) -> None:
        """Note that `cause` interrupted the execution of the run, and tell the running steps."""
        if self.interruption is None:
            self.interruption = cause
            self._tell()

    def nudge_if_waiting(self) -> None:
        """Note that something was released, and wake whoever drives the run if a step waits."""
        if self.waits_for_keys:
            self.nudged = True
            self._tell()

    def stops_at(self, path: str, *, backward: bool) -> bool:
        """Tell whether the body at a path should stop: see `stops`; or its protection lapsed."""
        return self.stops(backward=backward) or self.holds.lost_around(path) is not None

    def listen(self, listener: Callable[[], None]) -> None:
        """Call `listener`, from any thread, when the run is asked to stop."""
        self._listeners.add(listener)

    def unlisten(self, listener: Callable[[], None]) -> None:
        """Stop calling `listener`."""
        self._listeners.discard(listener)

    def _tell(self) -> None:
        for listener in tuple(self._listeners):
            listener()
