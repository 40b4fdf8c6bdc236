"""A forked child gets connections of its own, and neither locks nor files of its parent's."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from calandria.errors import StorageError
from calandria.ports.run_store import Changes, RunFilter, RunStore
from calandria.storage import open_store
from calandria.storage.sql import sqlite
from calandria.storage.sql.sqlite import SqliteDatabase
from calandria.storage.sql.store import SqlRunStore
from calandria.testing.conformance.harness import DEADLINE, NOW, event, leased, new_run


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RunStore]:
    store = open_store(f"sqlite:///{tmp_path}/runs.db")
    store.prepare()
    yield store
    store.close()


def in_child(action: Callable[[], None]) -> int:
    """Run `action` in a forked child; return its exit status: 0 if it raised nothing."""
    with warnings.catch_warnings():
        # newer Pythons warn of any fork while threads run, which is what is tested here
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        status = 1
        try:
            action()
            status = 0
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def test_a_child_writes_through_the_store_it_inherited(store: RunStore) -> None:
    lease = leased(store)

    def write() -> None:
        store.commit(lease, Changes(events=[event(1)], now=NOW))
        assert len(store.read_events("run-1")) == 1
        store.close()

    assert in_child(write) == 0
    assert len(store.read_events("run-1")) == 1
    store.commit(lease, Changes(events=[event(2)], now=NOW))


def test_a_parent_that_closes_does_not_take_the_log_from_its_child(
    store: RunStore, tmp_path: Path
) -> None:
    lease = leased(store)
    reading, writing = os.pipe()

    def write_after_the_parent_closed() -> None:
        os.close(writing)
        store.commit(lease, Changes(events=[event(1)], now=NOW))
        os.read(reading, 1)
        store.commit(lease, Changes(events=[event(2)], now=NOW))
        os._exit(0)

    def close_and_let_go() -> None:
        os.close(reading)
        store.load_run("run-1")
        store.close()
        os.close(writing)

    child = os.fork()
    if child == 0:
        try:
            write_after_the_parent_closed()
        finally:
            os._exit(1)
    close_and_let_go()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    again = open_store(f"sqlite:///{tmp_path}/runs.db")
    assert [each.sequence for each in again.read_events("run-1")] == [1, 2]
    again.close()


def test_forks_amid_writers_and_readers_neither_hang_nor_lose(store: RunStore) -> None:
    stop = threading.Event()
    written: dict[str, int] = {}

    def keep_busy(run_id: str) -> None:
        lease = leased(store, new_run(run_id))
        sequence = 0
        while not stop.is_set():
            sequence += 1
            store.commit(lease, Changes(events=[event(sequence)], now=NOW))
            store.list_runs(RunFilter())
        written[run_id] = sequence

    threads = [threading.Thread(target=keep_busy, args=(f"busy-{n}",)) for n in range(3)]
    for thread in threads:
        thread.start()
    try:
        for number in range(10):

            def create(run_id: str = f"child-{number}") -> None:
                leased(store, new_run(run_id))

            assert in_child(create) == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join(DEADLINE)
    assert len(store.list_runs(RunFilter())) == 13
    for run_id, count in written.items():
        events = store.read_events(run_id, limit=10**6)
        assert [each.sequence for each in events] == list(range(1, count + 1))


def test_a_store_in_memory_goes_on_in_both_apart() -> None:
    store = open_store("memory://")
    store.prepare()
    lease = leased(store)

    def write() -> None:
        store.commit(lease, Changes(events=[event(1)], now=NOW))
        assert len(store.read_events("run-1")) == 1

    assert in_child(write) == 0
    assert list(store.read_events("run-1")) == []
    store.close()


def test_a_fork_in_a_transaction_is_refused_in_the_child_and_harmless_in_the_parent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "FORK_PATIENCE", 0.05)
    database = SqliteDatabase("the test's file", str(tmp_path / "runs.db"))
    store = SqlRunStore(database)
    store.prepare()

    def write() -> None:
        with pytest.raises(StorageError, match=r"forked in the midst.*spawn"):
            leased(store)
        with pytest.raises(StorageError, match="forked in the midst"):
            store.load_run("run-1")

    with database.write() as session:
        assert in_child(write) == 0
        assert session.has_table("calandria_runs")
    leased(store)
    assert store.load_run("run-1") is not None
    store.close()
