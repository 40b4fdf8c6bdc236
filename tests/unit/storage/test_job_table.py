"""What a look at the job table costs and finds, jobs of another boot included."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from calandria.ports.run_store import Changes, JobRequest
from calandria.storage.sql.sqlite import SqliteDatabase
from calandria.storage.sql.statements import STATEMENTS, Statement
from calandria.storage.sql.store import SqlRunStore
from calandria.testing.conformance.harness import TTL, new_run

A_WEEK = 7 * 24 * 3600.0


@dataclass
class SetClock:
    """A lease clock that stands where it is set."""

    boot_id: str = "boot-1"
    seconds: float = 1000.0

    def now(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
def database(clock: SetClock) -> Iterator[SqliteDatabase]:
    database = SqliteDatabase("memory://", None, clock=clock)
    yield database
    database.close()


@pytest.fixture
def store(database: SqliteDatabase) -> SqlRunStore:
    store = SqlRunStore(database)
    store.prepare()
    return store


def enqueue(store: SqlRunStore, run_id: str, delay: float = 0.0) -> None:
    changes = Changes(jobs=[JobRequest(run_id, delay)])
    store.create_run(new_run(run_id), changes, owner=None, ttl=TTL)


def claim(store: SqlRunStore) -> tuple[str | None, float | None]:
    found = store.jobs.claim_job(owner="worker", ttl=TTL)
    return None if found.taken is None else found.taken.lease.run_id, found.next_due


@pytest.mark.parametrize("name", ["find_due_job", "next_job", "soonest_job"])
def test_jobs_that_are_not_due_cost_a_look_nothing(
    database: SqliteDatabase, store: SqlRunStore, name: str
) -> None:
    statement = STATEMENTS[name]
    values: dict[str, str | int | float | None] = dict.fromkeys(statement.names, 1)
    with database.read() as session:
        rows = session.rows(Statement(f"EXPLAIN QUERY PLAN {statement.source}"), values)
    plan = [str(row[-1]) for row in rows]
    looks = [line for line in plan if " calandria_jobs" in line or " j " in line]
    assert looks
    assert all("INDEX calandria_jobs_due (due_boot" in line for line in looks), plan
    assert not any("TEMP B-TREE" in line for line in plan), plan


def test_the_job_due_longest_is_taken_first(store: SqlRunStore, clock: SetClock) -> None:
    enqueue(store, "run-late", 20)
    enqueue(store, "run-soon", 10)
    enqueue(store, "run-never", A_WEEK)
    assert claim(store) == (None, 10)
    clock.seconds += 30
    assert claim(store) == ("run-soon", 0)
    assert claim(store) == ("run-late", A_WEEK - 30)
    assert claim(store) == (None, A_WEEK - 30)


def test_a_job_of_another_boot_is_due_at_once(store: SqlRunStore, clock: SetClock) -> None:
    enqueue(store, "run-old", A_WEEK)
    clock.boot_id, clock.seconds = "boot-0", 5.0
    enqueue(store, "run-new")
    # Then a worker that takes one of them is told that the other is due
    assert claim(store) == ("run-old", 0)
    assert claim(store) == ("run-new", None)
    assert claim(store) == (None, None)


def test_a_claimer_told_of_more_looks_again_when_it_is_gone(
    store: SqlRunStore, clock: SetClock
) -> None:
    enqueue(store, "run-1")
    enqueue(store, "run-2")
    assert claim(store) == ("run-1", 0)
    # as another process's worker would
    store.take_lease("run-2", owner="other", ttl=TTL)
    assert claim(store) == (None, None)
    enqueue(store, "run-3")
    assert claim(store)[0] == "run-3"
