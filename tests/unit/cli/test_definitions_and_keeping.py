from __future__ import annotations

from pathlib import Path

import pytest

from calandria.plan.drawing import draw
from tests.unit.cli.conftest import SHOP, Invoke
from tests.unit.cli.shop import Checkout


def test_draw_writes_the_picture_of_a_reactor(calandria: Invoke) -> None:
    plan = Checkout.definition().plan
    for format in ("text", "mermaid", "svg"):
        drawn = calandria("draw", f"{SHOP}:Checkout", "--format", format)
        assert (drawn.code, drawn.err) == (0, "")
        assert drawn.out == draw(plan, format)


def test_draw_writes_the_picture_of_a_run(calandria: Invoke, checkout: Invoke) -> None:
    run_id = checkout("fail").data["run"]
    drawn = calandria("draw", run_id).out
    assert "↶ undone: 2 undone" in drawn and "✗ failed" in drawn


def test_a_picture_goes_through_any_encoding(python: Invoke) -> None:
    drawn = python("draw", f"{SHOP}:Checkout", PYTHONIOENCODING="ascii")
    assert (drawn.code, drawn.err) == (0, "")
    assert "reserve ? n" in drawn.out


def test_check_names_every_reactor_and_what_is_wrong(calandria: Invoke) -> None:
    right = calandria("check", SHOP)
    assert right.code == 0
    assert [line.split(":")[-1] for line in right.out.splitlines()] == [
        "Hotel",
        "Checkout",
        "Secret",
    ]
    Path("late.py").write_text(
        "from __future__ import annotations\n"
        "from calandria import Reactor, step\n"
        "class Late(Reactor):\n"
        "    when: Undefined\n"
        "    @step\n"
        "    def do(*, when: Undefined) -> str: ...\n",
        encoding="utf-8",
    )
    Path("empty.py").write_text("", encoding="utf-8")
    wrong = calandria("check", "late", "empty", "absent_module", SHOP, "--json")
    assert wrong.code == 2
    errors = {finding["subject"]: finding["error"] for finding in wrong.data}
    assert "Undefined" in errors["late:Late"]
    assert errors["empty"] == "no reactor is defined in this module."
    assert "There is no module" in errors["absent_module"]
    assert errors[f"{SHOP}:Checkout"] is None


FLOWS = """
from calandria import Reactor, after, step

class {reactor}(Reactor):
    @step
    def {name}() -> int: return 1
    @step
    def charge(*, {name}: int) -> int: return {name}
    background = after({name})
"""


def test_check_lists_the_runs_that_a_new_version_could_not_finish(
    process: Invoke, workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a run that has done its step `reserve`
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    flows = workplace / "flows.py"
    flows.write_text(FLOWS.format(reactor="Order", name="reserve"), encoding="utf-8")
    run_id = process("run", "flows:Order", "--json").data["run"]
    right = process("check", "--runs", "flows")
    assert (right.code, right.out, right.err) == (0, "ok  flows:Order\n", "")
    # When that step has another name
    flows.write_text(FLOWS.format(reactor="Order", name="hold"), encoding="utf-8")
    assert process("check", "flows").code == 0
    wrong = process("check", "--runs", "flows")
    # Then the run is named
    assert (wrong.code, wrong.out) == (2, "ok  flows:Order\n")
    assert wrong.err == (
        f"Error: run {run_id} (running) of flows:Order: "
        "Order does not have reserve any more, which the run has begun\n"
    )
    reactor, run = process("check", "--runs", "flows", "--json").data
    assert reactor == {
        "subject": "flows:Order", "error": None, "run": None, "status": None, "steps": [],
        "coordination": [],
    }  # fmt: skip
    assert (run["run"], run["status"], run["steps"]) == (run_id, "running", ["reserve"])
    # And so it is when the whole reactor has
    flows.write_text(FLOWS.format(reactor="Purchase", name="reserve"), encoding="utf-8")
    assert "flows:Order is not there any more" in process("check", "--runs", "flows").err


def test_migrate_makes_a_storage_ready_and_then_has_nothing_to_do(calandria: Invoke) -> None:
    first = calandria("migrate", "--json")
    assert first.code == 0 and first.data["applied"]
    assert calandria("migrate").out == "The schema is up to date.\n"
    assert calandria("runs", "--json").data == []


def test_prune_deletes_what_is_finished_and_old(calandria: Invoke, checkout: Invoke) -> None:
    checkout()
    checkout("interrupt")
    assert calandria("prune", "--older-than", "1d", "--json").data == {"runs": 0, "deleted": True}
    dry = calandria("prune", "--older-than", "0s", "--dry-run", "--json")
    assert dry.data == {"runs": 1, "deleted": False}
    assert len(calandria("runs", "--json").data) == 2
    assert calandria("prune", "--older-than", "0s").out == "1 runs deleted.\n"
    (left,) = calandria("runs", "--json").data
    assert left["status"] == "aborted"


def test_prune_asks_how_old(calandria: Invoke, checkout: Invoke, process: Invoke) -> None:
    checkout()
    asked = calandria("prune")
    assert asked.code == 2 and "--older-than" in asked.err
    kept = process("prune", "--json", CALANDRIA_RETENTION="3600")
    assert kept.data == {"runs": 0, "deleted": True}
    wrong = calandria("prune", "--older-than", "soon")
    assert wrong.code == 2 and "30d" in wrong.err
