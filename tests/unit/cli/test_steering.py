from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.cli.conftest import SHOP, Invoke


def test_undo_reverses_a_completed_run(calandria: Invoke, checkout: Invoke) -> None:
    run_id = checkout().data["run"]
    undone = calandria("undo", run_id)
    assert (undone.code, undone.err) == (0, "")
    assert undone.out == f"undone  {run_id}  cancelled, rollback complete\n"
    assert calandria("show", run_id, "--json").data["steps"][0]["rollback"] == "undone"


def test_undo_that_leaves_something_is_exit_code_4_and_can_be_finished(
    calandria: Invoke, checkout: Invoke
) -> None:
    run_id = checkout().data["run"]
    Path("undo-fails").touch()
    left = calandria("undo", run_id)
    assert left.code == 4
    first, *rest = left.err.splitlines()
    assert first.startswith("Error: ") and run_id in first
    assert rest == [
        f"  undo of reserve[{index}] (element {index} of reserve) raised: "
        "RuntimeError: cannot put back"
        for index in (1, 0)
    ]
    assert len(calandria("runs", "--needs-attention", "--json").data) == 1
    # When the cause is mended
    Path("undo-fails").unlink()
    finished = calandria("undo", run_id, "--json")
    assert (finished.code, finished.data["rollback"]) == (0, "complete")
    assert calandria("runs", "--needs-attention", "--json").data == []
    assert "left" not in calandria("show", run_id).out.split()


def test_undo_of_an_aborted_run(calandria: Invoke, checkout: Invoke) -> None:
    checkout("interrupt")
    (listed,) = calandria("runs", "--json").data
    assert calandria("undo", listed["id"], "--json").data["status"] == "cancelled"


def test_what_a_status_rules_out_is_exit_code_5(calandria: Invoke, checkout: Invoke) -> None:
    run_id = checkout().data["run"]
    refused = calandria("cancel", run_id, "--reason", "too late")
    assert refused.code == 5
    assert "it cannot be cancelled" in refused.err


def test_a_killed_run_is_taken_up_again(calandria: Invoke, process: Invoke) -> None:
    # Given a process that dies in its last step
    died = process(
        "run", f"{SHOP}:Checkout", "-i", "order_id=7", "-i", 'lines=["tea"]', "-i", "mode=die-once",
        CALANDRIA_LEASE_TTL="0.05",
    )  # fmt: skip
    assert died.code < 0
    (listed,) = calandria("runs", "--json").data
    assert listed["status"] == "running"
    # When its lease has lapsed and it is taken up
    while calandria("show", listed["id"], "--json").data["lease_owner"] is not None:
        pass
    recovered = calandria("recover", listed["id"], "--json")
    # Then it goes on where it was
    assert (recovered.code, recovered.data["outcome"]) == (0, "completed")
    steps = calandria("show", listed["id"], "--json").data["steps"]
    assert [(step["name"], step["recoveries"]) for step in steps if step["recoveries"]] == [
        ("charge", 1)
    ]


def test_a_run_whose_owner_lives_is_busy(calandria: Invoke, process: Invoke) -> None:
    died = process(
        "run", f"{SHOP}:Checkout", "-i", "order_id=7", "-i", "lines=[]", "-i", "mode=die",
        CALANDRIA_LEASE_TTL="3600",
    )  # fmt: skip
    assert died.code < 0
    (listed,) = calandria("runs", "--json").data
    busy = calandria("recover", listed["id"])
    assert busy.code == 5 and "its lease is live" in busy.err
    asked = calandria("cancel", listed["id"])
    assert (asked.code, asked.out) == (0, f"asked its owner to stop  {listed['id']}  running\n")


def test_a_killed_run_can_be_cancelled_where_it_stood(calandria: Invoke, process: Invoke) -> None:
    process(
        "run", f"{SHOP}:Checkout", "-i", "order_id=7", "-i", "lines=[]", "-i", "mode=die",
        CALANDRIA_LEASE_TTL="0.05",
    )  # fmt: skip
    (listed,) = calandria("runs", "--json").data
    while calandria("show", listed["id"], "--json").data["lease_owner"] is not None:
        pass
    refused = process("cancel", listed["id"])
    assert refused.code == 2 and f"--module {SHOP}" in refused.err
    cancelled = process("cancel", listed["id"], "--reason", "enough", "-m", SHOP)
    assert cancelled.out == f"cancelled  {listed['id']}  cancelled\n"


@pytest.mark.parametrize("command", ["undo", "recover", "draw"])
def test_commands_that_need_the_reactor_say_what_to_name(
    process: Invoke, checkout: Invoke, command: str
) -> None:
    run_id = checkout().data["run"]
    refused = process(command, run_id)
    assert (refused.code, refused.out) == (2, "")
    assert refused.err == (
        f"Error: Run {run_id} is of {SHOP}:Checkout, which is not loaded: "
        f"name its module with --module {SHOP}.\n"
    )
    assert process(command, run_id, "--module", SHOP).code == 0
