from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.cli.conftest import SHOP, Invoke, Outcome

RUN = ("run", f"{SHOP}:Checkout")


def test_a_run_that_completes_writes_its_value(calandria: Invoke) -> None:
    done = calandria(*RUN, "-i", "order_id=7", "-i", 'lines=["tea"]')
    assert (done.code, done.err) == (0, "")
    first, second = done.out.splitlines()
    assert first.startswith("completed  ")
    assert second == '{"hotel": "booked Rome", "paid": true}'


def test_json_has_the_documented_keys(checkout: Invoke) -> None:
    data = checkout().data
    assert set(data) == {"run", "outcome", "value", "reason", "failure"}
    assert (data["outcome"], data["value"]["paid"]) == ("completed", True)


def test_a_failed_run_is_one_line_and_exit_code_1(calandria: Invoke) -> None:
    done = calandria(*RUN, "-i", "order_id=7", "-i", 'lines=["bad"]')
    assert (done.code, done.out) == (1, "")
    (line,) = done.err.splitlines()
    # what a step says is shown as it is: no markup, no line break, no escape sequence
    assert line.endswith(r"step reserve[0]: no [bold]stock[/bold] of \x1b[31mbad")


def test_a_failure_in_json(checkout: Invoke) -> None:
    failed = checkout("fail")
    assert failed.code == 1
    failure = failed.data["failure"]
    assert (failure["step"], failure["error"]) == ("charge", "declined")
    assert failure["inputs"]["card"] == "[REDACTED]"
    assert failure["rollback_failures"] == []


def test_an_incomplete_rollback_is_exit_code_4(checkout: Invoke, calandria: Invoke) -> None:
    Path("undo-fails").touch()
    failed = checkout("fail")
    assert failed.code == 4
    left = failed.data["failure"]["rollback_failures"]
    assert [(one["step"], one["reason"]) for one in left] == [
        ("reserve[1]", "raised"),
        ("reserve[0]", "raised"),
    ]
    told = calandria(*RUN, "-i", "order_id=7", "-i", 'lines=["tea"]', "-i", "mode=fail").err
    assert "its rollback left 1 behind" in told
    assert "  undo of reserve[0] (element 0 of reserve) raised: " in told


def test_invalid_inputs_list_the_fields_and_run_nothing(calandria: Invoke) -> None:
    done = calandria(*RUN, "-i", "order_id=0", "-i", "lines=tea", "-i", "colour=red")
    assert done.code == 2
    first, *fields = done.err.splitlines()
    assert first == "Error: Checkout was not run: its inputs are invalid."
    assert sorted(line.split(":")[0] for line in fields) == ["  colour", "  lines", "  order_id"]
    assert calandria("runs", "--json").code in (0, 6)
    invalid = calandria(*RUN, "-i", "order_id=0", "-i", "lines=[]", "--json")
    assert (invalid.code, invalid.data["outcome"], invalid.data["run"]) == (2, "invalid", None)


def test_a_halt_is_no_failure(checkout: Invoke) -> None:
    halted = checkout("halt")
    assert halted.code == 0
    assert (halted.data["outcome"], halted.data["reason"]) == ("halted", "enough")


def test_an_interruption_names_the_run_it_left(calandria: Invoke, checkout: Invoke) -> None:
    done = checkout("interrupt")
    assert done.code == 130
    (listed,) = calandria("runs", "--json").data
    assert listed["status"] == "aborted"
    assert done.err == f"Interrupted: run {listed['id']} is aborted. Undo it when it suits.\n"


def test_a_redacted_value_is_not_written(calandria: Invoke) -> None:
    done = calandria("run", f"{SHOP}:Secret", "-i", "token=hush")
    assert "[REDACTED]" in done.out and "hush" not in done.out
    assert calandria("run", f"{SHOP}:Secret", "-i", "token=hush", "--json").data["value"] == (
        "[REDACTED]"
    )


def test_inputs_from_a_file_and_from_standard_input(calandria: Invoke) -> None:
    Path("in.json").write_text('{"order_id": 0, "lines": ["tea"]}', encoding="utf-8")
    done = calandria(*RUN, "--input-json", "in.json", "-i", "order_id=3", "--json")
    assert done.code == 0
    piped = calandria(*RUN, "--input-json", "-", text='{"order_id": 3, "lines": ["tea"]}')
    assert piped.code == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("-i", "order_id"), "--input 'order_id': write it as name=value."),
        (("--input-json", "none.json"), "none.json: cannot be read"),
        (("--input-json", "list.json"), "list.json: give a JSON object, not an array"),
        (("--input-json", "broken.json"), "broken.json: is not JSON"),
        (("--input-json", "latin.json"), "latin.json: is not JSON"),
    ],
)
def test_inputs_that_cannot_be_read(
    calandria: Invoke, arguments: tuple[str, ...], says: str
) -> None:
    Path("list.json").write_text("[1]", encoding="utf-8")
    Path("broken.json").write_text("{", encoding="utf-8")
    Path("latin.json").write_bytes(b'{"a": "\xe9"}')
    done = calandria(*RUN, *arguments)
    assert done.code == 2
    (line,) = done.err.splitlines()
    assert line.startswith("Error: ") and says in line


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("shop", "name a reactor as module:Reactor"),
        ("nowhere.at_all:Checkout", "There is no module 'nowhere.at_all'"),
        (f"{SHOP}:Nothing", "There is no 'Nothing'"),
        (f"{SHOP}:Reserve", "is not a reactor; it has Hotel, Checkout, Secret"),
        ("broken:Checkout", "Importing broken failed: ZeroDivisionError"),
        ("needs:Checkout", "Importing needs failed: ModuleNotFoundError: No module named 'absent'"),
    ],
)
def test_reactors_that_cannot_be_loaded(calandria: Invoke, spec: str, says: str) -> None:
    Path("broken.py").write_text("1 / 0", encoding="utf-8")
    Path("needs.py").write_text("import absent", encoding="utf-8")
    done = calandria("run", spec)
    assert done.code == 2
    (line,) = done.err.splitlines()
    assert says in line


def test_an_idempotency_key_runs_once(calandria: Invoke) -> None:
    def placed(order: str) -> Outcome:
        return calandria(
            *RUN, "-i", f"order_id={order}", "-i", "lines=[]", "--idempotency-key", "k", "--json"
        )

    assert placed("7").data["run"] == placed("7").data["run"]
    assert placed("8").code == 5
    assert len(calandria("runs", "--json").data) == 1


def test_what_a_run_does_can_be_logged(calandria: Invoke) -> None:
    done = calandria("--log", "key-value", *RUN, "-i", "order_id=7", "-i", "lines=[]")
    assert "event=run.completed" in done.err and "event=step.started" not in done.err
    told = calandria("--log", "json", "--verbose", *RUN, "-i", "order_id=7", "-i", "lines=[]").err
    assert '"event": "step.started"' in told


def test_the_storage_a_module_configures_is_used(calandria: Invoke, process: Invoke) -> None:
    Path("configured.py").write_text(
        "import calandria\n"
        "from tests.unit.cli.shop import Hotel\n"
        "calandria.configure(storage='sqlite:///theirs.db')\n",
        encoding="utf-8",
    )
    done = process("run", "configured:Hotel", "-i", "city=Rome")
    assert (done.code, done.err) == (0, "")
    listed = calandria("--storage", "sqlite:///theirs.db", "runs", "--json").data
    assert len(listed) == 1
    assert not Path("runs.db").exists()
