"""Storage that is damaged, full, gone, or fails for a while, seen by someone who runs reactors."""

from __future__ import annotations

import os
import random
import resource
import signal
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from calandria import Failure, RunStatus, SchemaOutdated, StorageError, Success, runs
from calandria.ports.run_store import Changes, Lease
from calandria.storage import open_store
from tests.crash.acting import Around, Chain, Deeds, Site, fail_here, patiently
from tests.crash.children import alone, until

LEASE = 0.3


class FailingStore:
    """Fails the commits that `fails` says true of, by their number from 1."""

    def __init__(self, url: str, fails: Callable[[int], bool]) -> None:
        self._store = open_store(url, sqlite_synchronous="OFF")
        self._fails = fails
        self._lock = threading.Lock()
        self.tries = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def commit(self, lease: Lease, changes: Changes) -> str | None:
        with self._lock:
            self.tries += 1
            number = self.tries
        if self._fails(number):
            raise StorageError("failing://: the cable is out. Plug it in.")
        return self._store.commit(lease, changes)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    Deeds.by_path = {}
    return Site(tmp_path)


def test_a_storage_that_comes_back_costs_nothing(site: Site) -> None:
    store = FailingStore(site.url, lambda number: number in (1, 2, 4))
    with site.runtime(storage=store, lease=20):
        assert Chain.run() == Success("first")
    assert site.begun("run") == ["a", "b", "c"]
    assert store.tries == 6


def test_a_storage_that_stays_away_leaves_the_step_in_doubt(site: Site) -> None:
    broken = [False]

    def cut_the_cable(context: Any) -> None:
        broken[0] = True

    Deeds.by_path = {("run", "b"): cut_the_cable}
    store = FailingStore(site.url, lambda number: broken[0])
    with site.runtime(storage=store, lease=LEASE), pytest.raises(StorageError, match="cable"):
        Chain.run()
    assert site.begun("compensate") == site.begun("undo") == []
    Deeds.by_path = {}
    with site.runtime() as runtime:
        (run,) = runs(runtime=runtime)
        assert run.status is RunStatus.RUNNING
        assert patiently(run.recover) == Success("first")
    assert site.begun("run") == ["a", "b", "b", "c"]


def test_a_storage_that_fails_within_nested_work_does_not_fail_the_step(site: Site) -> None:
    """It is back when the step ends, which must not be rolled back for it."""
    broken = [False]

    def cut_the_cable(context: Any) -> None:
        broken[0] = True

    def plug_it_in(number: int) -> bool:
        was_broken = broken[0]
        if was_broken and number > first_failure + 3:
            broken[0] = False
        return was_broken

    first_failure = 4
    Deeds.by_path = {("run", "outer/~1:tests.crash.acting:Plain"): cut_the_cable}
    store = FailingStore(site.url, plug_it_in)
    with site.runtime(storage=store, lease=LEASE), pytest.raises(StorageError, match="cable"):
        Around.run()
    assert site.begun("compensate") == site.begun("undo") == []
    Deeds.by_path = {}
    with site.runtime() as runtime:
        (run,) = runs(runtime=runtime)
        assert patiently(run.recover) == Success("first")


def test_a_storage_that_stays_away_in_a_rollback(site: Site) -> None:
    broken = [False]

    def cut_the_cable(context: Any) -> None:
        broken[0] = True

    Deeds.by_path = {("run", "c"): fail_here, ("undo", "b"): cut_the_cable}
    store = FailingStore(site.url, lambda number: broken[0])
    with site.runtime(storage=store, lease=LEASE), pytest.raises(StorageError, match="cable"):
        Chain.run()
    Deeds.by_path = {}
    with site.runtime() as runtime:
        (run,) = runs(runtime=runtime)
        assert run.status is RunStatus.ROLLING_BACK
        result = patiently(run.recover)
        assert isinstance(result, Failure) and result.error == "broken on purpose"
        assert result.rollback_failures == []
    assert site.begun("undo") == ["b", "b", "a"]
    assert site.begun("compensate") == ["c"]


def test_renewals_that_fail_are_taken_up_again(site: Site) -> None:
    """A lease whose renewals failed for a moment is held on to afterwards."""
    failing = [True]
    renewals = [0, 0]

    class Renewing(FailingStore):
        def renew_leases(self, leases: Any, *, ttl: float) -> Any:
            renewals[0] += 1
            if failing[0]:
                raise RuntimeError("not even a storage error")
            found = self._store.renew_leases(leases, ttl=ttl)
            renewals[1] += 1
            return found

    def outlast(context: Any) -> None:
        until(lambda: renewals[0] >= 2, "no second renewal was tried")
        failing[0] = False
        until(lambda: renewals[1] >= 2, "renewing ended with the first error")

    Deeds.by_path = {("run", "b"): outlast}
    with site.runtime(storage=Renewing(site.url, lambda number: False), lease=LEASE):
        assert Chain.run() == Success("first")


# files


def _used(site: Site) -> None:
    with site.runtime():
        for _ in range(30):
            assert Chain.run().ok
    with sqlite3.connect(site.database) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()


def _run_is_refused(site: Site, match: str, error: type[StorageError] = StorageError) -> None:
    begun = len(site.log())
    with site.runtime(lease=LEASE), pytest.raises(error, match=match) as caught:
        Chain.run()
    assert str(site.database) in str(caught.value)
    assert len(site.log()) == begun, "a step ran that was not recorded"


def test_a_missing_directory(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.database = tmp_path / "absent" / "runs.db"
    site.url = f"sqlite:///{site.database}"
    _run_is_refused(site, "does not exist. Create it")


def test_a_file_that_is_no_database(site: Site) -> None:
    site.database.write_text("Dear diary, " * 1000)
    _run_is_refused(site, "not a SQLite database")


def test_a_damaged_header(site: Site) -> None:
    _used(site)
    with site.database.open("r+b") as file:
        file.write(random.Random(1).randbytes(100))
    _run_is_refused(site, "not a SQLite database|damaged")


def test_damage_in_the_middle_is_told_and_runs_nothing_unrecorded(site: Site) -> None:
    _used(site)
    size = site.database.stat().st_size
    with site.database.open("r+b") as file:
        file.seek(4096)
        file.write(random.Random(2).randbytes(size - 8192))
    _run_is_refused(site, "damaged|not a SQLite")


def test_a_truncated_file(site: Site) -> None:
    _used(site)
    os.truncate(site.database, site.database.stat().st_size // 3)
    _run_is_refused(site, "damaged")


def test_a_newer_schema(site: Site) -> None:
    _used(site)
    with sqlite3.connect(site.database) as connection:
        (table,) = connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE '%schema%'"
        ).fetchone()
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        newer = [99 if "version" in name or "number" in name else 0 for name in columns]
        marks = ", ".join("?" for _ in columns)
        connection.execute(f"INSERT INTO {table} VALUES ({marks})", newer)
    connection.close()
    _run_is_refused(site, "newer", SchemaOutdated)


def test_a_file_deleted_under_a_run(site: Site) -> None:
    def delete(context: Any) -> None:
        site.database.unlink()

    Deeds.by_path = {("run", "b"): delete}
    with site.runtime(lease=LEASE), pytest.raises(StorageError, match="deleted or replaced"):
        Chain.run()
    assert site.begun("run") == ["a", "b"]
    assert site.begun("undo") == site.begun("compensate") == []
    assert not site.database.exists()


def test_a_file_replaced_between_runs(site: Site) -> None:
    with site.runtime(lease=LEASE):
        assert Chain.run().ok
        os.rename(site.database, site.folder / "old.db")
        site.database.touch()
        with pytest.raises(StorageError, match="deleted or replaced"):
            Chain.run()
    assert site.begun("run") == ["a", "b", "c"]


def _full_disk(folder: Path) -> None:
    """The file may not grow in mid-run, and may again when the run is recovered."""
    site = Site(folder)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill(context: Any) -> None:
        largest = max(file.stat().st_size for file in folder.iterdir() if "runs.db" in file.name)
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest, before[1]))

    Deeds.by_path = {("run", "b"): fill}
    with site.runtime(lease=LEASE):
        try:
            Chain.run()
            raise AssertionError("a full disk went unnoticed")
        except StorageError as error:
            assert str(site.database) in str(error), error
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert site.begun("run") == ["a", "b"]
    Deeds.by_path = {}
    with site.runtime() as runtime:
        (run,) = runs(runtime=runtime)
        assert run.status is RunStatus.RUNNING
        assert patiently(run.recover) == Success("first")
    assert site.begun("run") == ["a", "b", "b", "c"]
    assert site.begun("compensate") == []


def test_a_disk_that_is_full_in_mid_run(tmp_path: Path) -> None:
    alone(_full_disk, tmp_path)
