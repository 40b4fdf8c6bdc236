"""The last save of a caller that hands over, and a worker that takes over: in either order."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from calandria import Dispatched, Runtime, Settings, StorageError, Success, runs
from calandria.ports.run_store import Changes, Lease, RunHeader
from calandria.statuses import RunStatus
from calandria.storage import open_store
from calandria.storage.sql.store import SqlRunStore
from tests.unit.background import reactors
from tests.unit.background.conftest import QUICK
from tests.unit.background.helping import eventually, kinds


class Wrapped:
    """A run store whose commits pass through `around`; everything else is the store's own."""

    def __init__(self, store: SqlRunStore) -> None:
        self.store = store
        self.around: Callable[[Lease, Changes, Callable[[], Any]], Any] = lambda _l, _c, go: go()

    def commit(self, lease: Lease, changes: Changes) -> str | None:
        found: str | None = self.around(lease, changes, lambda: self.store.commit(lease, changes))
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)


@pytest.fixture
def wrapped(tmp_path: Path) -> Iterator[Wrapped]:
    store = open_store(f"sqlite:///{tmp_path}/runs.db", sqlite_synchronous="OFF")
    assert isinstance(store, SqlRunStore)
    yield Wrapped(store)


@pytest.fixture
def runtime(wrapped: Wrapped) -> Iterator[Runtime]:
    with Runtime(wrapped, settings=QUICK) as opened:
        yield opened


def hands_over(changes: Changes) -> bool:
    return changes.release and bool(changes.jobs)


def check(runtime: Runtime, run_id: str, notes: list[str]) -> None:
    run = runtime.find(run_id)
    assert run.wait(10) == Success("second")
    assert notes == ["first", "second"]
    assert kinds(run).count("step.started second") == 1
    assert kinds(run)[-1] == "run.completed"
    sequences = [entry.sequence for entry in run.trace]
    assert sequences == list(range(1, len(sequences) + 1))
    notes.clear()


def the_worker_is_there_before_the_caller_returns(
    runtime: Runtime, wrapped: Wrapped, notes: list[str]
) -> None:
    """The caller is held right after its last save until the worker has ended the run."""

    def around(lease: Lease, changes: Changes, go: Callable[[], Any]) -> Any:
        found = go()
        if hands_over(changes):
            eventually(lambda: wrapped.store.load_run(lease.run_id) is not None)
            runtime.enqueue(changes.jobs)
            eventually(lambda: over(wrapped, lease.run_id))
        return found

    wrapped.around = around
    result = reactors.Split.run()
    assert isinstance(result, Dispatched)
    check(runtime, result.run_id, notes)


def over(wrapped: Wrapped, run_id: str) -> bool:
    stored = wrapped.store.load_run(run_id)
    return stored is not None and stored.header.status is RunStatus.COMPLETED


def the_worker_comes_before_the_last_save(
    runtime: Runtime, wrapped: Wrapped, notes: list[str]
) -> None:
    """The caller is held right before its last save: no worker may have the run before it."""
    looked: list[str | None] = []

    def around(lease: Lease, changes: Changes, go: Callable[[], Any]) -> Any:
        if hands_over(changes):
            # a job from elsewhere, as a sweep or a duplicate would make: the lease is in its way
            claim = wrapped.store.jobs.claim_job(owner="intruder", ttl=5)
            looked.append(None if claim.taken is None else claim.taken.lease.run_id)
        return go()

    wrapped.around = around
    result = reactors.Split.run()
    assert isinstance(result, Dispatched)
    check(runtime, result.run_id, notes)
    assert looked == [None]


def the_worker_has_the_run_when_a_lapsed_caller_saves(
    runtime: Runtime, wrapped: Wrapped, notes: list[str]
) -> None:
    """The caller's lease lapses right before its last save: the save is refused whole."""
    stolen: list[str] = []

    def around(lease: Lease, changes: Changes, go: Callable[[], Any]) -> Any:
        if hands_over(changes) and not stolen:
            stolen.append(lease.run_id)
            wrapped.store.renew_leases([lease], ttl=0)
            wrapped.store.jobs.sweep(pending_after=30, now=runtime.services.clock.now())
            runtime.wakeups.notify(1)
            eventually(lambda: over(wrapped, lease.run_id))
        return go()

    wrapped.around = around
    with pytest.raises(StorageError, match="another process took it over"):
        reactors.Split.run()
    # what the caller had not saved (its step's end) was repeated by the worker
    run = runtime.find(stolen[0])
    assert run.wait(10) == Success("second")
    assert notes[0] == "first" and notes.count("second") == 1
    assert run.status is RunStatus.COMPLETED and kinds(run)[-1] == "run.completed"
    notes.clear()


ORDERS = [
    the_worker_is_there_before_the_caller_returns,
    the_worker_comes_before_the_last_save,
    the_worker_has_the_run_when_a_lapsed_caller_saves,
]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    "times", [3, pytest.param(100, marks=[pytest.mark.slow, pytest.mark.timeout(600)])]
)
def test_no_progress_is_lost(
    runtime: Runtime, wrapped: Wrapped, notes: list[str], order: Any, times: int
) -> None:
    runtime.start_worker(1)
    for _ in range(times):
        order(runtime, wrapped, notes)


def test_the_state_is_saved_before_the_lease_is_let_go(
    runtime: Runtime, wrapped: Wrapped, notes: list[str]
) -> None:
    saves: list[tuple[bool, RunHeader | None, int]] = []

    def around(_: Lease, changes: Changes, go: Callable[[], Any]) -> Any:
        saves.append((changes.release, changes.header, len(changes.jobs)))
        return go()

    wrapped.around = around
    reactors.Split.run()
    # one commit: what was done, how the run stands, its job, and the end of the lease
    assert [(release, jobs) for release, _, jobs in saves] == [(True, 1)]
    (run,) = runs()
    assert [step.path for step in run.steps()] == ["first"]


def test_a_storage_that_goes_away_and_comes_back(
    runtime: Runtime, wrapped: Wrapped, notes: list[str]
) -> None:
    away = threading.Event()
    refused: list[str] = []

    class Flickering:
        """The store and its job table, out of reach while `away` is set."""

        def __init__(self, inner: Any) -> None:
            self._inner = inner

        def __getattr__(self, name: str) -> Any:
            found = getattr(self._inner, name)
            if name == "jobs":
                return Flickering(found)
            if not callable(found) or name in ("close", "prepare"):
                return found

            def call(*arguments: Any, **named: Any) -> Any:
                if away.is_set():
                    refused.append(name)
                    raise StorageError("the storage is out of reach")
                return found(*arguments, **named)

            return call

    # what a worker let go is found again once its lease has lapsed
    settings = Settings(lease_ttl=1, sweep_interval=0.1)
    with Runtime(Flickering(wrapped.store), settings=settings) as flickering:
        worker = flickering.start_worker(2)
        first = [reactors.Split.options(runtime=flickering).run() for _ in range(5)]
        away.set()
        eventually(lambda: "claim_job" in refused)
        with pytest.raises(StorageError):
            reactors.Whole.options(runtime=flickering).run()
        away.clear()
        for result in first:
            assert isinstance(result, Dispatched)
            assert flickering.find(result.run_id).wait(10) == Success("second")
        assert worker.alive
    assert sorted(notes) == ["first"] * 5 + ["second"] * 5
