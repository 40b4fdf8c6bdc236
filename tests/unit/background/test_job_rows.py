"""Job rows that are damaged, late, doubled or of no use: harmless, and cleared away."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from calandria import Failure, Runtime, Settings, Success, WaitTimeout
from calandria.ports.run_store import Lease
from calandria.statuses import RunStatus
from tests.unit.background import reactors
from tests.unit.background.helping import eventually, run_of


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[Runtime]:
    settings = Settings(sweep_interval=0.05, lease_ttl=5)
    with Runtime(f"sqlite:///{tmp_path}/runs.db", settings=settings) as opened:
        opened.prepare()
        yield opened


def sql(tmp_path: Path, statement: str, *values: Any) -> list[Any]:
    connection = sqlite3.connect(tmp_path / "runs.db", isolation_level=None, timeout=10)
    try:
        return connection.execute(statement, values).fetchall()
    finally:
        connection.close()


def add_job(tmp_path: Path, run_id: object, due: object, boot: object = "boot") -> None:
    sql(tmp_path, "INSERT OR REPLACE INTO calandria_jobs VALUES (?, ?, ?)", run_id, due, boot)


@pytest.mark.parametrize("due", [0.0, -1e300, 1e300, "garbage", b"\x00\xff", "", "inf"])
@pytest.mark.parametrize("run_id", ["no such run", "", b"\x00\xff"])
def test_a_job_for_no_run_is_cleared_away(
    tmp_path: Path, runtime: Runtime, notes: list[str], run_id: object, due: object
) -> None:
    add_job(tmp_path, run_id, due)
    worker = runtime.start_worker(1)
    eventually(lambda: not sql(tmp_path, "SELECT * FROM calandria_jobs"))
    assert run_of(runtime, reactors.Whole.run()).wait(10) == Success("first")
    assert worker.alive and worker.performed == 1


@pytest.mark.parametrize("due", [1e300, "garbage", b"\x00\xff", ""])
def test_a_run_whose_job_is_damaged_is_found_by_the_sweep(
    tmp_path: Path, runtime: Runtime, notes: list[str], due: object
) -> None:
    run = run_of(runtime, reactors.Whole.run())
    sql(tmp_path, "UPDATE calandria_jobs SET due = ?", due)
    runtime.start_worker(1)
    assert run.wait(10) == Success("first")
    assert notes == ["first"]


def test_an_idle_worker_does_not_spin_on_a_damaged_row(tmp_path: Path, runtime: Runtime) -> None:
    add_job(tmp_path, "no such run", "garbage", _boot(runtime))
    found = runtime.job_store.claim_job(owner="w", ttl=1)
    assert (found.taken, found.next_due) == (None, None)


def _boot(runtime: Runtime) -> str:
    found: str = runtime.services.store._database._clock.boot_id  # type: ignore[attr-defined]
    return found


def test_a_late_job_for_a_run_that_has_ended_changes_nothing(
    tmp_path: Path, runtime: Runtime, notes: list[str]
) -> None:
    runtime.start_worker(1)
    run = run_of(runtime, reactors.Whole.run())
    run.wait(10)
    trace, epoch = list(run.trace), run.epoch
    add_job(tmp_path, run.id, 0.0)
    eventually(lambda: not sql(tmp_path, "SELECT * FROM calandria_jobs"))
    assert (list(run.trace), run.epoch, notes) == (trace, epoch, ["first"])


@pytest.mark.parametrize("status", [RunStatus.PAUSED, RunStatus.ABORTED, RunStatus.HALTED])
def test_a_job_for_a_run_that_waits_for_a_person_changes_nothing(
    tmp_path: Path, runtime: Runtime, notes: list[str], status: RunStatus
) -> None:
    run = run_of(runtime, reactors.Whole.run())
    sql(tmp_path, "UPDATE calandria_runs SET status = ? WHERE run_id = ?", status.value, run.id)
    worker = runtime.start_worker(1)
    eventually(lambda: not sql(tmp_path, "SELECT * FROM calandria_jobs"))
    eventually(lambda: not worker.running)
    eventually(lambda: run.lease_owner is None)
    assert (run.status, notes) == (status, [])


def test_a_job_for_a_run_that_lives_elsewhere_waits(
    tmp_path: Path, runtime: Runtime, notes: list[str]
) -> None:
    run = run_of(runtime, reactors.Whole.run())
    taken = runtime.store.take_lease(run.id, owner="another process", ttl=600)
    assert taken is not None
    worker = runtime.start_worker(1)
    with pytest.raises(WaitTimeout):
        run.wait(0.2)
    assert (worker.performed, notes) == (0, [])
    # its lease lapses: the job is still there
    runtime.store.renew_leases([Lease(run.id, "another process", 1)], ttl=0)
    assert run.wait(10) == Success("first")


def test_a_run_whose_record_cannot_be_read_is_left_and_says_so(
    tmp_path: Path, runtime: Runtime, notes: list[str]
) -> None:
    run = run_of(runtime, reactors.Whole.run())
    sql(tmp_path, "UPDATE calandria_run_values SET inputs = '{' WHERE run_id = ?", run.id)
    worker = runtime.start_worker(1)
    eventually(lambda: run.waiting_on)
    assert run.waiting_on == [f"definition {reactors.__name__}:Whole"]
    assert run.status is RunStatus.PENDING and worker.alive and notes == []
    assert run_of(runtime, reactors.Whole.run()).wait(10) == Success("first")


def test_a_pruned_run_leaves_no_job(tmp_path: Path, runtime: Runtime, notes: list[str]) -> None:
    runtime.start_worker(1)
    run = run_of(runtime, reactors.Whole.run())
    assert not isinstance(run.wait(10), Failure)
    runtime.prune(older_than=-10)
    add_job(tmp_path, run.id, 0.0)
    eventually(lambda: not sql(tmp_path, "SELECT * FROM calandria_jobs"))
