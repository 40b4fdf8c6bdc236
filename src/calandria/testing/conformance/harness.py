"""What the conformance tests stand on: a factory of stores, fixtures, and records to store."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeVar

import pytest

from calandria.ports.run_store import (
    Changes,
    Event,
    Lease,
    NewRun,
    RunHeader,
    RunStore,
    StepProgress,
    StepRecord,
)
from calandria.statuses import RunStatus, StepStatus
from calandria.storage import open_store

T = TypeVar("T")

TTL = 600.0
"""Seconds: a lease that does not lapse while a test runs."""
SHORT_TTL = 0.05
"""Seconds: a lease that lapses soon; tests wait for it by polling."""
DEADLINE = 30.0
"""Seconds after which a wait has failed."""
NOW = 1_800_000_000.123456
"""The wall clock in the records of these tests."""


class StoreFactory(Protocol):
    """Opens handles on one storage.

    Each call opens another handle, as another process would have, that the caller closes. Where
    the back end declares that it is for one process, it may return the one store every time.
    Must be picklable where it declares that several processes may use it.
    """

    def __call__(self) -> RunStore:
        """Return a store on the storage; not prepared."""
        ...


@dataclass(frozen=True)
class UrlFactory:
    """Opens handles on the storage at a URL that several processes can reach."""

    url: str

    def __call__(self) -> RunStore:
        """Return another handle."""
        return open_store(self.url)


class StoreTests:
    """The fixtures of every conformance class; `store_factory` is for the subclass to give."""

    @pytest.fixture
    def store(self, store_factory: StoreFactory) -> Iterator[RunStore]:
        """Give a store that is ready for use."""
        store = store_factory()
        store.prepare()
        yield store
        store.close()

    @pytest.fixture
    def other(self, store: RunStore, store_factory: StoreFactory) -> Iterator[RunStore]:
        """Give a second handle on the same storage."""
        other = store_factory()
        yield other
        other.close()


def new_run(
    run_id: str = "run-1",
    *,
    reactor: str = "Checkout",
    status: RunStatus = RunStatus.RUNNING,
    header: RunHeader | None = None,
    created_at: float = NOW,
    parent_id: str | None = None,
    root_id: str | None = None,
    idempotency_key: str | None = None,
    correlation_id: str | None = None,
    inputs: str = '{"order_id":"42"}',
) -> NewRun:
    """Return a run to create."""
    return NewRun(
        id=run_id,
        reactor=reactor,
        shape="shape-1",
        inputs=inputs,
        header=header or RunHeader(status),
        created_at=created_at,
        root_id=root_id or parent_id or run_id,
        parent_id=parent_id,
        parent_path=None if parent_id is None else "child",
        idempotency_key=idempotency_key,
        inputs_digest=None if idempotency_key is None else "digest-1",
        outline='{"charge":"step 1"}',
        correlation_id=correlation_id,
    )


def leased(store: RunStore, run: NewRun | None = None, *, ttl: float = TTL) -> Lease:
    """Create a run under a lease."""
    made = store.create_run(run or new_run(), Changes(now=NOW), owner="first", ttl=ttl)
    assert isinstance(made, Lease)
    return made


def finished(
    store: RunStore, run: NewRun, *, header: RunHeader | None = None, at: float = NOW
) -> Lease:
    """Create a run that is over and whose lease was let go."""
    lease = leased(store, run)
    end = header or RunHeader(RunStatus.COMPLETED, outcome='"done"', finished_at=at)
    store.commit(lease, Changes(header=end, release=True, now=at))
    return lease


def step(
    path: str,
    *,
    scope: str = "",
    position: int = 0,
    status: StepStatus = StepStatus.STARTED,
    progress: StepProgress | None = None,
) -> StepRecord:
    """Return a step's record."""
    return StepRecord(path, scope, position, "{}", NOW, progress or StepProgress(status, 1))


def event(sequence: int, kind: str = "step.started", path: str | None = None) -> Event:
    """Return a line of a trace."""
    return Event(sequence, NOW, kind, path)


def eventually(action: Callable[[], T | None]) -> T:
    """Return the first result of `action` that is not `None`; fail after `DEADLINE` seconds."""
    deadline = time.monotonic() + DEADLINE
    while (found := action()) is None:
        assert time.monotonic() < deadline, "the wait is over and nothing happened"
        time.sleep(0.005)
    return found
