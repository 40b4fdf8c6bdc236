"""What the tests of a coordination store stand on: requests, and the store behind a run store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from calandria.ports.coordination import (
    AcquireRequest,
    CoordinationStore,
    Granted,
    Hold,
    HoldKind,
    HoldRequest,
    PeriodRequest,
    RateRequest,
    Refusal,
    Refused,
    TurnRequest,
)
from calandria.ports.jobs import JobStore
from calandria.ports.run_store import Changes, JobRequest, RunHeader, RunStore, TakenLease
from calandria.statuses import RunStatus
from calandria.testing.conformance.harness import NOW, TTL, StoreTests, new_run

LATER = 3600.0
"""Seconds: how long a parked run of these tests would sleep if nobody woke it."""


class CoordinationTests(StoreTests):
    """The fixtures of the classes that test a coordination store."""

    @pytest.fixture
    def keys(self, store: RunStore) -> Iterator[CoordinationStore]:
        """Give the coordination store of a store that is ready for use."""
        yield coordination_of(store)


def coordination_of(store: RunStore) -> CoordinationStore:
    """Return the coordination store that keeps its keys beside a store's runs."""
    found: CoordinationStore = store.coordination  # type: ignore[attr-defined]
    return found


def lock(key: str = "k", *, ttl: float = TTL) -> HoldRequest:
    """Return a request for a lock."""
    return HoldRequest(HoldKind.LOCK, key, 1, ttl)


def place(key: str = "k", limit: int = 2, *, ttl: float = TTL) -> HoldRequest:
    """Return a request for a place in a semaphore."""
    return HoldRequest(HoldKind.SEMAPHORE, key, limit, ttl)


def turn(
    key: str = "k", *, strict: bool = True, poison: float = TTL, keep: bool = True
) -> TurnRequest:
    """Return a request for a turn."""
    return TurnRequest(key, strict, poison, keep)


def ask(
    execution: str,
    *holds: HoldRequest,
    path: str = "step",
    now: float = NOW,
    rates: Sequence[RateRequest] = (),
    periods: Sequence[PeriodRequest] = (),
    turns: Sequence[TurnRequest] = (),
) -> AcquireRequest:
    """Return a request of one piece of work."""
    return AcquireRequest(
        execution, path, f"Reactor.{path}", now, holds, rates=rates, periods=periods, turns=turns
    )


def granted(answer: Granted | Refused) -> Sequence[Hold]:
    """Return the holds of an answer that must be a grant."""
    assert isinstance(answer, Granted), answer
    return answer.holds


def refused(answer: Granted | Refused, reason: Refusal) -> Refused:
    """Return an answer that must be a refusal for this reason."""
    assert isinstance(answer, Refused), answer
    assert answer.reason is reason
    return answer


def parked(
    store: RunStore, run_id: str, key: str, holders: Sequence[str], *, now: float = NOW
) -> None:
    """Create a run that is parked for a key and would be looked at much later."""
    store.create_run(new_run(run_id), Changes(now=NOW), owner=None, ttl=0)
    note_wait(store, run_id, key, holders, now=now)
    park(store, run_id)


def note_wait(
    store: RunStore, run_id: str, key: str, holders: Sequence[str], *, now: float = NOW
) -> None:
    """Note that a run waits for a key, as one that is about to be parked."""
    wait = coordination_of(store).wait_for(
        run_id, key, label="Reactor.step", now=now, holders=holders
    )
    assert not wait.circle


def park(store: RunStore, run_id: str) -> None:
    """Put a run down as one that waits, with a job that is due much later."""
    taken = store.take_lease(run_id, owner="parking", ttl=TTL)
    assert isinstance(taken, TakenLease)
    header = RunHeader(RunStatus.RUNNING, waits_for="lock k", wake_at=NOW + LATER)
    store.commit(
        taken.lease,
        Changes(header=header, jobs=[JobRequest(run_id, LATER)], release=True, now=NOW),
    )


def woken(store: RunStore) -> list[str]:
    """Return the runs whose jobs are due, having claimed them."""
    jobs: JobStore = store.jobs  # type: ignore[attr-defined]
    found: list[str] = []
    while (claim := jobs.claim_job(owner="waking", ttl=TTL)).taken is not None:
        found.append(claim.taken.lease.run_id)
    return found
