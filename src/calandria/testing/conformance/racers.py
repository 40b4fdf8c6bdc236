"""What each process or thread of a race does; picklable, so that it can start in a new process."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.synchronize import Barrier
from typing import TypeAlias

from calandria.errors import StaleLease
from calandria.ports.coordination import Granted, HoldKind, HoldRequest, RateRequest
from calandria.ports.jobs import JobStore
from calandria.ports.run_store import Changes, Event, KeyedRun, Lease, RunStore, TakenLease
from calandria.testing.conformance.coordination import ask, coordination_of, lock, turn
from calandria.testing.conformance.harness import DEADLINE, NOW, TTL, StoreFactory, new_run, step

COMMITS = 30
"""How many commits each worker makes."""
ENTRIES = 25
"""How often each racer enters."""
STARTS = 20
"""How many starts a window has room for."""

AnyBarrier: TypeAlias = Barrier | threading.Barrier

barrier: AnyBarrier | None = None
"""Where the racers of this process wait for one another; set before they start."""


def set_barrier(shared: Barrier) -> None:
    """Give a new process the barrier of its race."""
    global barrier
    barrier = shared


def at_the_line(store_factory: StoreFactory) -> RunStore:
    """Open a store and wait until every racer has one."""
    store = store_factory()
    assert barrier is not None
    barrier.wait(DEADLINE)
    return store


def leave(store: RunStore) -> None:
    """Close a store of this racer's own; one that racers share stays for the others."""
    if store.capabilities.multi_process:
        store.close()


@dataclass(frozen=True)
class Creator:
    """Creates a run under a key; returns whether it won, and the run the key leads to."""

    key: str

    def __call__(self, store_factory: StoreFactory, number: int) -> tuple[bool, str]:
        """Run the race."""
        store = at_the_line(store_factory)
        run = new_run(f"{self.key} {number}", idempotency_key=self.key)
        made = store.create_run(run, Changes(now=NOW), owner=str(number), ttl=TTL)
        leave(store)
        assert isinstance(made, Lease | KeyedRun)
        return isinstance(made, Lease), made.run_id


@dataclass(frozen=True)
class Taker:
    """Takes each lease it can; returns the runs it got."""

    run_ids: Sequence[str]

    def __call__(self, store_factory: StoreFactory, number: int) -> list[str]:
        """Run the race."""
        store = at_the_line(store_factory)
        won = [
            run_id
            for run_id in self.run_ids
            if isinstance(store.take_lease(run_id, owner=str(number), ttl=TTL), TakenLease)
        ]
        leave(store)
        return won


@dataclass(frozen=True)
class Usurper:
    """Takes the lease over and over, and commits until it is fenced; returns what it wrote."""

    run_id: str

    def __call__(self, store_factory: StoreFactory, number: int) -> list[int]:
        """Run the race."""
        store = at_the_line(store_factory)
        written: list[int] = []
        for _ in range(10):
            # a lease that lapses at once: every other racer may take it between any two commits
            taken = store.take_lease(self.run_id, owner=str(number), ttl=0)
            assert isinstance(taken, TakenLease)
            sequence = taken.last_sequence
            for _ in range(5):
                sequence += 1
                try:
                    line = Event(sequence, NOW, f"by {number}")
                    store.commit(taken.lease, Changes(events=[line], now=NOW))
                except StaleLease:
                    break
                written.append(sequence)
        leave(store)
        return written


@dataclass(frozen=True)
class Worker:
    """Carries a run of its own through many commits; returns its id."""

    name: str

    def __call__(self, store_factory: StoreFactory, number: int) -> str:
        """Run the race."""
        store = at_the_line(store_factory)
        run = new_run(f"{self.name} {number}")
        lease = store.create_run(run, Changes(now=NOW), owner=str(number), ttl=TTL)
        assert isinstance(lease, Lease)
        for place in range(1, COMMITS + 1):
            changes = Changes(
                steps=[step(f"s{place}", position=place)],
                events=[Event(place, NOW, "step.started")],
                now=NOW,
            )
            store.commit(lease, changes)
            assert len(store.read_steps(run.id, "")) == place
        leave(store)
        return run.id


@dataclass(frozen=True)
class Locker:
    """Enters one lock over and over; returns the tokens it was given."""

    key: str

    def __call__(self, store_factory: StoreFactory, number: int) -> list[int]:
        """Run the race."""
        store = at_the_line(store_factory)
        keys = coordination_of(store)
        tokens: list[int] = []
        deadline = time.monotonic() + DEADLINE
        while len(tokens) < ENTRIES and time.monotonic() < deadline:
            answer = keys.acquire(ask(str(number), lock(self.key)))
            if isinstance(answer, Granted):
                tokens.append(answer.holds[0].token)
                assert [hold.execution for hold in keys.holds() if hold.key == self.key] == [
                    str(number)
                ]
                keys.release(str(number), "step")
        leave(store)
        return tokens


@dataclass(frozen=True)
class Grabber:
    """Takes a place under each key it can; returns the keys it got."""

    wanted: Sequence[str]
    limit: int

    def __call__(self, store_factory: StoreFactory, number: int) -> list[str]:
        """Run the race."""
        store = at_the_line(store_factory)
        kind = HoldKind.LOCK if self.limit == 1 else HoldKind.SEMAPHORE
        won = [
            key
            for key in self.wanted
            if isinstance(
                coordination_of(store).acquire(
                    ask(str(number), HoldRequest(kind, key, self.limit, TTL))
                ),
                Granted,
            )
        ]
        leave(store)
        return won


@dataclass(frozen=True)
class Starter:
    """Starts as often as a window lets it; returns how often."""

    key: str

    def __call__(self, store_factory: StoreFactory, number: int) -> int:
        """Run the race."""
        store = at_the_line(store_factory)
        wanted = RateRequest(self.key, [(60, STARTS)])
        answers = [
            coordination_of(store).acquire(ask(str(number), rates=[wanted])) for _ in range(STARTS)
        ]
        leave(store)
        return sum(isinstance(answer, Granted) for answer in answers)


@dataclass(frozen=True)
class Queuer:
    """Has positions assigned to executions of its own."""

    key: str

    def __call__(self, store_factory: StoreFactory, number: int) -> None:
        """Run the race."""
        store = at_the_line(store_factory)
        for place in range(ENTRIES):
            coordination_of(store).assign(ask(f"{number}-{place}", turns=[turn(self.key)]))
        leave(store)


def claim_all(store_factory: StoreFactory, number: int) -> list[str]:
    """Claim jobs until none is left; returns the runs."""
    store = at_the_line(store_factory)
    jobs: JobStore = store.jobs  # type: ignore[attr-defined]
    won: list[str] = []
    while (found := jobs.claim_job(owner=str(number), ttl=TTL)).taken is not None:
        won.append(found.taken.lease.run_id)
    leave(store)
    return won


def prepare_and_create(store_factory: StoreFactory, number: int) -> str:
    """Prepare a storage that may be new, and create a run; returns its id."""
    store = at_the_line(store_factory)
    store.prepare()
    store.create_run(new_run(f"run-{number}"), Changes(now=NOW), owner=None, ttl=TTL)
    leave(store)
    return f"run-{number}"


def prune(store_factory: StoreFactory, number: int) -> int:
    """Prune in small bites until nothing is left; returns how many runs went."""
    store = at_the_line(store_factory)
    total = 0
    while pruned := store.prune(finished_before=NOW + 1, limit=3):
        total += pruned
    leave(store)
    return total
