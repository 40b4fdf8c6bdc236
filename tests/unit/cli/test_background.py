from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from calandria import Runtime
from calandria.ports.jobs import WorkerReport
from tests.unit.cli.conftest import Invoke

OFFICE = "tests.unit.cli.office"
WORKER_KEYS = {
    "worker", "host", "process", "threads", "alive", "draining", "running", "performed",
    "started_at", "seen_at",
}  # fmt: skip


@pytest.fixture
def runtime() -> Iterator[Runtime]:
    """The storage of the commands, for a worker in this process."""
    with Runtime("sqlite:///runs.db") as runtime:
        yield runtime


def enqueue(calandria: Invoke, reactor: str, *options: str) -> str:
    done = calandria("run", f"{OFFICE}:{reactor}", *options, "--json")
    assert (done.code, done.data["outcome"]) == (0, "dispatched")
    run_id: str = done.data["run"]
    return run_id


def finish(runtime: Runtime, run_id: str) -> None:
    worker = runtime.start_worker(threads=1)
    run = runtime.find(run_id)
    run.wait(30)
    for unit in run.children:
        unit.wait(30)
    worker.stop()


def report(runtime: Runtime, owner: str, **changes: object) -> None:
    now = runtime.services.clock.now()
    known: dict[str, object] = {
        "owner": owner, "host": "ship", "process": 7, "threads": 2, "started_at": now - 90,
        "seen_at": now, **changes,
    }  # fmt: skip
    runtime.prepare()
    runtime.job_store.report_worker(WorkerReport(**known))  # type: ignore[arg-type]


def test_a_dispatched_run_without_a_worker_says_how_to_start_one(
    calandria: Invoke, runtime: Runtime
) -> None:
    nobody = calandria("run", f"{OFFICE}:Token")
    assert nobody.out.startswith("dispatched  ")
    assert nobody.err == f"No worker is alive. Start one: calandria worker {OFFICE}\n"
    report(runtime, "ship:7:a")
    assert calandria("run", f"{OFFICE}:Token").err == ""


def test_a_parked_run_is_running_and_says_what_it_waits_for(
    calandria: Invoke, runtime: Runtime
) -> None:
    # Given a run whose retry is due in ten minutes
    run_id = enqueue(calandria, "Order", "-i", "number=3")
    worker = runtime.start_worker(threads=1)
    while not runtime.find(run_id).waiting_on:
        runtime.pause(0.01)
    units = [child.id for child in runtime.find(run_id).children]
    assert len(units) == 2
    for unit in units:
        runtime.find(unit).wait(30)
    worker.stop()
    # Then it is listed as running
    (listed,) = calandria("runs", "--json").data
    assert (listed["status"], listed["needs_attention"]) == ("running", False)
    assert listed["waiting_on"] == ["retry deliver"]
    assert calandria("runs").out.splitlines()[1].endswith("running  waits for retry deliver")
    # And shown with it, the attempt that failed, and the units it spawned
    shown = calandria("show", run_id)
    assert shown.code == 0
    for part in (
        "status     running\n",
        "waits for  retry deliver\n",
        "↻ retrying",
        "mail (spawned)  ✓ completed",
        "note (spawned)  ✓ completed",
        *(f"run {unit}  completed" for unit in units),
    ):
        assert part in shown.out, shown.out
    assert "failed" not in shown.out


def test_the_units_of_a_run_are_in_its_json(calandria: Invoke, runtime: Runtime) -> None:
    Path("open").touch()
    run_id = enqueue(calandria, "Order", "-i", "number=3")
    finish(runtime, run_id)
    data = calandria("show", run_id, "--json").data
    spawned = {step["path"]: step["spawned_run"] for step in data["steps"]}
    assert {spawned["mail"], spawned["note"]} == set(data["children"])
    assert spawned["accept"] is spawned["deliver"] is None
    # a unit is a run of its own, whose reactor is known with its parent's
    unit = calandria("show", spawned["note"])
    assert (unit.code, unit.err) == (0, "")
    assert "stamped 3" in unit.out


def test_wait_tells_what_a_run_came_to(calandria: Invoke, runtime: Runtime) -> None:
    Path("open").touch()
    run_id = enqueue(calandria, "Order", "-i", "number=3")
    late = calandria("wait", run_id, "--timeout", "0.01")
    assert (late.code, late.out) == (5, "")
    assert late.err == f"Error: Run {run_id} is still running after 0.01 s; it goes on.\n"
    finish(runtime, run_id)
    assert calandria("wait", run_id).out == f"completed  {run_id}\n6\n"
    assert calandria("wait", run_id, "--json").data["value"] == 6
    for timeout in ("5", "0.5m"):
        assert calandria("wait", run_id, "--timeout", timeout).code == 0
    assert calandria("wait", "nothing").code == 3
    assert calandria("wait", run_id, "--timeout", "soon").code == 2


def test_wait_hides_what_is_redacted_or_not_known_to_be_harmless(
    calandria: Invoke, process: Invoke, runtime: Runtime
) -> None:
    secret = enqueue(calandria, "Token")
    plain = enqueue(calandria, "Order", "-i", "number=3")
    Path("open").touch()
    worker = runtime.start_worker(threads=1)
    assert calandria("wait", secret).out == f"completed  {secret}\n[REDACTED]\n"
    runtime.find(plain).wait(30)
    worker.stop()
    unknown = process("wait", plain)
    assert (unknown.code, unknown.out) == (0, f"completed  {plain}\n[REDACTED]\n")
    assert process("wait", plain, "--module", OFFICE).out == f"completed  {plain}\n6\n"


def test_wait_has_the_exit_code_of_a_failure(calandria: Invoke, checkout: Invoke) -> None:
    run_id = checkout("fail").data["run"]
    waited = calandria("wait", run_id)
    assert (waited.code, waited.out) == (1, "")
    assert waited.err.startswith(f"failed  {run_id}  step charge: declined")


def test_workers_are_listed_with_what_they_do(calandria: Invoke, runtime: Runtime) -> None:
    now = runtime.services.clock.now()
    report(runtime, "ship:7:a", running=("r1", "r2"), performed=41)
    report(runtime, "port:8:b", host="port", seen_at=now - 3600)
    report(runtime, "ship:9:c", draining=True, running=("r3",), seen_at=now - 1)
    listed = calandria("workers")
    assert listed.code == 0
    heading, *lines = listed.out.splitlines()
    assert heading.split() == [
        "worker", "host", "process", "threads", "started", "seen", "done", "state",
    ]  # fmt: skip
    state = {line.split()[0]: line.rpartition("  ")[2] for line in lines}
    assert state == {
        "ship:7:a": "busy with 2", "ship:9:c": "draining, 1 left", "port:8:b": "silent",
    }  # fmt: skip
    data = calandria("workers", "--json").data
    assert all(set(worker) == WORKER_KEYS for worker in data)
    assert [(worker["worker"], worker["alive"]) for worker in data] == [
        ("ship:7:a", True), ("ship:9:c", True), ("port:8:b", False),
    ]  # fmt: skip


def test_workers_without_a_live_one_is_exit_code_3(calandria: Invoke, runtime: Runtime) -> None:
    runtime.prepare()
    nobody = calandria("workers")
    assert (nobody.code, nobody.out, nobody.err) == (3, "", "No workers.\n")
    assert calandria("workers", "--json").data == []
    report(runtime, "ship:7:a", seen_at=runtime.services.clock.now() - 3600)
    assert calandria("workers").code == 3
    report(runtime, "ship:8:b")
    assert calandria("workers").code == 0
    assert calandria("workers", "--host", "port").code == 3


def test_a_worker_in_a_process_reports_itself(calandria: Invoke, runtime: Runtime) -> None:
    worker = runtime.start_worker(threads=3)
    while not runtime.job_store.list_workers():
        runtime.pause(0.01)
    (listed,) = calandria("workers", "--json").data
    worker.stop()
    assert (listed["host"], listed["threads"], listed["running"]) == (socket.gethostname(), 3, [])
    assert calandria("workers").code == 3


def test_a_draining_worker_says_so_until_it_has_drained(
    calandria: Invoke, runtime: Runtime
) -> None:
    # Given a worker in the middle of a step
    run_id = enqueue(calandria, "Long")
    worker = runtime.start_worker(threads=1)
    while not Path("begun").exists():
        runtime.pause(0.01)
    # When it is stopped, and waits for that step
    stopping = Thread(target=worker.stop)
    stopping.start()
    while not (listed := calandria("workers", "--json").data) or not listed[0]["draining"]:
        runtime.pause(0.01)
    assert listed[0]["running"] == [run_id]
    assert calandria("workers").out.rstrip().endswith("draining, 1 left")
    # Then it is gone as soon as the step has ended
    Path("go-on").touch()
    stopping.join()
    assert calandria("workers", "--json").data == []


def test_sweep_puts_a_dead_process_s_run_back_to_work(
    calandria: Invoke, process: Invoke, runtime: Runtime
) -> None:
    assert process(
        "run", "tests.unit.cli.shop:Checkout", "-i", "order_id=7", "-i", 'lines=["tea"]',
        "-i", "mode=die-once", CALANDRIA_LEASE_TTL="0.05",
    ).code < 0  # fmt: skip
    (listed,) = calandria("runs", "--json").data
    while runtime.find(listed["id"]).lease_owner is not None:
        runtime.pause(0.01)
    assert calandria("sweep").out == "1 runs put back to work.\n"
    assert calandria("sweep", "--json").data == {"runs": 0}
    finish(runtime, listed["id"])
    assert calandria("wait", listed["id"], "--json").data["outcome"] == "completed"


@pytest.mark.parametrize("command", [("wait", "x"), ("workers",), ("sweep",)])
def test_no_storage_is_made_by_looking(calandria: Invoke, command: tuple[str, ...]) -> None:
    assert calandria("--storage", "sqlite:///typo.db", *command).code == 6
    assert not Path("typo.db").exists()


def test_a_worker_needs_a_storage_that_others_reach(calandria: Invoke) -> None:
    refused = calandria("--storage", "memory://", "worker", OFFICE)
    assert refused.code == 2 and "name a file with --storage" in refused.err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("no_such_module",), "There is no module 'no_such_module'"),
        ((OFFICE, "--drain", "soon"), "--drain 'soon'"),
        ((OFFICE, "--threads", "0"), "--threads"),
        ((), "MODULE"),
    ],
)
def test_a_worker_s_wrong_arguments(
    calandria: Invoke, arguments: tuple[str, ...], told: str
) -> None:
    wrong = calandria("worker", *arguments)
    assert wrong.code == 2 and told in wrong.err
