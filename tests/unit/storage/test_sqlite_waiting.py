"""Writers wait for one another, whoever they are; nobody is told that the file is busy."""

from __future__ import annotations

import multiprocessing
import sqlite3
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import pytest

from calandria.ports.run_store import Changes, RunFilter, RunStore
from calandria.storage import open_store
from calandria.storage.sql import sqlite
from calandria.storage.sql.sqlite_errors import until_free
from calandria.testing.conformance.harness import DEADLINE, NOW, event, leased, new_run

CROWD = 20


def _prepare_and_create(url: str, number: int) -> None:
    store = open_store(url)
    store.prepare()
    lease = leased(store, new_run(f"run-{number}"))
    for sequence in range(1, 6):
        store.commit(lease, Changes(events=[event(sequence)], now=NOW))
        assert len(store.list_runs(RunFilter())) >= 1
    store.close()


def test_a_crowd_of_threads_with_stores_of_their_own_makes_one_new_file(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    with ThreadPoolExecutor(CROWD) as pool:
        for done in [pool.submit(_prepare_and_create, url, number) for number in range(CROWD)]:
            done.result(timeout=DEADLINE)
    _check_crowd(url)


def test_a_crowd_of_processes_makes_one_new_file(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    with ProcessPoolExecutor(8, mp_context=multiprocessing.get_context("spawn")) as pool:
        for done in [pool.submit(_prepare_and_create, url, number) for number in range(CROWD)]:
            done.result(timeout=DEADLINE)
    _check_crowd(url)


def _check_crowd(url: str) -> None:
    store = open_store(url)
    store.prepare()
    assert len(store.list_runs(RunFilter())) == CROWD
    for number in range(CROWD):
        assert len(store.read_events(f"run-{number}")) == 5
    store.close()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make SQLite itself give up at once, so that only our own waiting is left."""
    monkeypatch.setattr(sqlite, "BUSY_TIMEOUT_MILLISECONDS", 1)


@pytest.mark.usefixtures("impatient")
def test_a_writer_waits_for_one_that_does_not_stand_in_line(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/runs.db")
    store.prepare()
    lease = leased(store)
    foreign = sqlite3.connect(tmp_path / "runs.db", isolation_level=None, check_same_thread=False)
    foreign.execute("BEGIN IMMEDIATE")
    with ThreadPoolExecutor(1) as pool:
        committed = pool.submit(store.commit, lease, Changes(events=[event(1)], now=NOW))
        with pytest.raises(TimeoutError):
            committed.result(timeout=0.2)
        # readers go on meanwhile
        assert list(store.read_events("run-1")) == []
        foreign.execute("COMMIT")
        committed.result(timeout=DEADLINE)
    assert len(store.read_events("run-1")) == 1
    foreign.close()
    store.close()


@pytest.mark.usefixtures("impatient")
def test_the_switch_to_a_log_waits_for_a_writer_of_the_old_kind(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    foreign = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    foreign.execute("CREATE TABLE other (x)")
    foreign.execute("BEGIN EXCLUSIVE")
    store = open_store(f"sqlite:///{path}")
    with ThreadPoolExecutor(1) as pool:
        prepared = pool.submit(store.prepare)
        with pytest.raises(TimeoutError):
            prepared.result(timeout=0.2)
        foreign.execute("COMMIT")
        prepared.result(timeout=DEADLINE)
    foreign.close()
    leased(store)
    store.close()


def test_waiting_tries_again_only_while_busy() -> None:
    answers = ["busy", "busy", "done"]

    def busy_twice() -> str:
        answer = answers.pop(0)
        if answer == "busy":
            error = sqlite3.OperationalError("database is locked")
            error.sqlite_errorcode = sqlite3.SQLITE_BUSY_SNAPSHOT
            raise error
        return answer

    assert until_free(busy_twice) == "done"

    def broken() -> str:
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode = sqlite3.SQLITE_IOERR
        raise error

    with pytest.raises(sqlite3.OperationalError, match="disk I/O"):
        until_free(broken)


def test_threads_of_one_store_share_it(tmp_path: Path) -> None:
    for url in ("memory://", f"sqlite:///{tmp_path}/runs.db"):
        store = open_store(url)
        store.prepare()
        with ThreadPoolExecutor(8) as pool:
            for done in [pool.submit(_write_and_read, store, number) for number in range(8)]:
                done.result(timeout=DEADLINE)
        assert len(store.list_runs(RunFilter())) == 8
        store.close()


def _write_and_read(store: RunStore, number: int) -> None:
    run_id = f"run-{number}"
    lease = leased(store, new_run(run_id))
    for sequence in range(1, 21):
        store.commit(lease, Changes(events=[event(sequence)], now=NOW))
        assert len(store.read_events(run_id)) == sequence
