from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.cli.conftest import SHOP, Invoke

RUN_KEYS = {
    "id", "reactor", "status", "rollback", "needs_attention", "idempotency_key", "created_at",
    "updated_at", "finished_at", "waiting_on",
}  # fmt: skip
DETAIL_KEYS = RUN_KEYS | {
    "inputs", "failure", "pending_compensation", "ready_interrupts", "children",
    "epoch", "lease_owner", "progress", "holds",
}  # fmt: skip
STEP_KEYS = {
    "path", "name", "kind", "status", "rollback", "attempts", "recoveries", "started_at",
    "finished_at", "inputs", "result", "error", "rollback_failures", "spawned_run", "steps",
}  # fmt: skip


def test_runs_are_listed_newest_first(calandria: Invoke, checkout: Invoke) -> None:
    ids = [checkout(mode).data["run"] for mode in ("ok", "fail", "halt")]
    listed = calandria("runs", "--json").data
    assert [run["id"] for run in listed] == ids[::-1]
    assert all(set(run) == RUN_KEYS for run in listed)
    lines = calandria("runs").out.splitlines()
    assert lines[0].split() == ["run", "reactor", "created", "took", "status"]
    assert [line.split()[0] for line in lines[1:]] == ids[::-1]
    assert [line.split()[-1] for line in lines[1:]] == ["halted", "failed", "completed"]


def test_runs_can_be_filtered(calandria: Invoke, checkout: Invoke) -> None:
    done, failed = checkout().data["run"], checkout("fail").data["run"]
    aborted = checkout("interrupt")
    assert aborted.code == 130

    def ids(*options: str) -> list[str]:
        return [run["id"] for run in calandria("runs", "--json", *options).data]

    assert ids("--status", "completed") == [done]
    assert ids("--status", "completed", "--status", "failed") == [failed, done]
    assert len(ids("--needs-attention")) == 1
    assert ids("--reactor", f"{SHOP}:Hotel") == []
    assert len(ids("--reactor", f"{SHOP}:Checkout", "--limit", "2")) == 2
    assert len(ids("--since", "1h")) == 3 and ids("--until", "1h") == []
    assert ids("--since", "2999-01-01") == []
    assert "There are more than these 2" in calandria("runs", "--limit", "2").err


def test_no_runs_is_no_error(calandria: Invoke, checkout: Invoke) -> None:
    checkout()
    nothing = calandria("runs", "--status", "paused")
    assert (nothing.code, nothing.out, nothing.err) == (0, "", "No runs.\n")
    assert calandria("runs", "--status", "paused", "--json").data == []


def test_show_tells_what_happened_to_each_step(calandria: Invoke, checkout: Invoke) -> None:
    Path("undo-fails").touch()
    run_id = checkout("fail").data["run"]
    shown = calandria("show", run_id)
    assert (shown.code, shown.err) == (0, "")
    for part in (
        "status    failed  needs attention",
        "rollback  incomplete",
        "input     order_id = 7",
        "input     card = [REDACTED]",
        "failure   step charge: declined",
        "left      undo of reserve[1] (element 1 of reserve) raised: ",
        "├── reserve (map)  ✓ completed, ! undo failed",
        "│   ├── [0]  ✓ completed, ! undo failed",
        "│       = booked Rome",
        "└── charge  ✗ failed",
    ):
        assert part in shown.out, shown.out
    assert "4111" not in shown.out
    assert all(line == line.rstrip() for line in shown.out.splitlines())


def test_show_as_json(calandria: Invoke, checkout: Invoke) -> None:
    run_id = checkout("fail").data["run"]
    data = calandria("show", run_id, "--json").data
    assert set(data) == DETAIL_KEYS | {"steps"}
    assert data["progress"]["maps"] == {"reserve": [2, 2]}
    by_path = {step["path"]: step for step in data["steps"]}
    assert all(set(step) == STEP_KEYS for step in data["steps"])
    assert [step["path"] for step in by_path["reserve"]["steps"]] == ["reserve[0]", "reserve[1]"]
    assert by_path["hotel"]["steps"][0]["path"] == "hotel/book"
    assert by_path["charge"]["error"]["error"] == "declined"
    assert "4111" not in json.dumps(data)


def test_the_trace_is_every_event_in_order(calandria: Invoke, checkout: Invoke) -> None:
    run_id = checkout().data["run"]
    trace = calandria("show", run_id, "--trace", "--json").data["trace"]
    assert [entry["sequence"] for entry in trace] == list(range(1, len(trace) + 1))
    assert set(trace[0]) == {"sequence", "at", "kind", "path", "data"}
    assert trace[-1]["kind"] == "run.completed"
    assert "run.completed" in calandria("show", run_id, "--trace").out


def test_long_maps_are_cut_and_say_so(calandria: Invoke, checkout: Invoke) -> None:
    lines = json.dumps(["tea"] * 30 + ["bad"])
    run_id = checkout(lines=lines).data["run"]
    shown = calandria("show", run_id, "--elements", "3").out
    assert "── [2]  " in shown and "── [3]  " not in shown
    assert "── [30]  ✗ failed" in shown  # what did not go well is shown all the same
    assert "… 27 more elements (--elements shows them)" in shown


def test_values_of_a_reactor_that_is_not_loaded_are_hidden(
    process: Invoke, checkout: Invoke
) -> None:
    run_id = checkout().data["run"]
    shown = process("show", run_id)
    assert shown.code == 0
    assert "order_id = [REDACTED]" in shown.out and "booked" not in shown.out
    assert f"name its module with --module {SHOP}" in shown.err
    named = process("show", run_id, "--module", SHOP)
    assert (named.code, named.err) == (0, "")
    assert "order_id = 7" in named.out


@pytest.mark.parametrize("command", ["show", "undo", "cancel", "recover", "draw"])
def test_a_run_that_is_not_there(calandria: Invoke, checkout: Invoke, command: str) -> None:
    checkout()
    missing = calandria(command, "no-such-run")
    assert (missing.code, missing.out) == (3, "")
    assert missing.err == "Error: There is no run 'no-such-run' in sqlite:///runs.db.\n"


@pytest.mark.parametrize(
    "command", [("runs",), ("show", "x"), ("undo", "x"), ("prune", "--older-than", "1d")]
)
def test_a_storage_that_is_not_there_is_not_made(
    calandria: Invoke, command: tuple[str, ...]
) -> None:
    missing = calandria("--storage", "sqlite:///typo.db", *command)
    assert missing.code == 6
    assert missing.err == (
        "Error: There is no storage at sqlite:///typo.db: "
        "name it with --storage or CALANDRIA_STORAGE.\n"
    )
    assert not Path("typo.db").exists()


def test_a_file_that_is_no_storage(calandria: Invoke) -> None:
    Path("text.db").write_text("this is no database, however long it may be " * 50)
    broken = calandria("--storage", "sqlite:///text.db", "runs")
    assert broken.code == 6
    (line,) = broken.err.splitlines()
    assert line.startswith("Error: sqlite:///text.db")


def test_a_newer_schema_is_refused(calandria: Invoke, checkout: Invoke) -> None:
    checkout()
    with sqlite3.connect("runs.db") as database:
        tables = [row[0] for row in database.execute("SELECT name FROM sqlite_master")]
        migrations = next(name for name in tables if "migration" in name or "schema" in name)
        columns = [row[1] for row in database.execute(f"PRAGMA table_info({migrations})")]
        values = ["9999", *["0"] * (len(columns) - 1)]
        database.execute(f"INSERT INTO {migrations} VALUES ({', '.join(values)})")
    database.close()
    newer = calandria("runs")
    assert newer.code == 6 and "Upgrade Calandria" in newer.err


@pytest.mark.parametrize("text", ["yesterday", "3x", "", "99999999999999w", "2026-13-01"])
def test_a_time_that_cannot_be_understood(calandria: Invoke, checkout: Invoke, text: str) -> None:
    checkout()
    wrong = calandria("runs", "--since", text)
    assert wrong.code == 2
    assert wrong.err.startswith("Error: --since ")


def test_a_reactor_of_a_script_cannot_be_named(process: Invoke, workplace: Path) -> None:
    script = workplace / "script.py"
    script.write_text(
        "from calandria import Reactor, step\n"
        "class Small(Reactor):\n"
        "    @step\n"
        "    def do() -> int: return 1\n"
        "print(Small.run().run_id)\n",
        encoding="utf-8",
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    refused = process("undo", done.stdout.strip())
    assert refused.code == 2
    assert "declared in the script that ran it" in refused.err and "--module" not in refused.err
