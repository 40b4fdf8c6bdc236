from __future__ import annotations

import inspect
import io
import json
import logging
import logging.handlers
import queue
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calandria.ports.middleware import Middleware, RunInfo, StepInfo
from calandria.results import Failure, RollbackFailure
from calandria.telemetry import (
    JsonFormatter,
    KeyValueFormatter,
    LoggingMiddleware,
    configure_logging,
)

RUN = RunInfo("r-1", "r-1", "shop:Checkout", {"order": 7, "card": "[REDACTED]"}, epoch=3)
STEP = StepInfo(RUN, "reserve[2]/take", 2, {"token": "[REDACTED]"}, seconds=0.1234567)
FAILURE = Failure("no\nstock", exception_class="OutOfStock", step="reserve[2]/take")
LEFT = RollbackFailure("charge", "undo", "raised", message="bank said no")

HOOKS: dict[str, tuple[Any, ...]] = {
    "run_started": (RUN,),
    "run_completed": (RUN, "secret value"),
    "run_failed": (RUN, FAILURE),
    "run_halted": (RUN, "enough"),
    "run_paused": (RUN,),
    "run_handed_over": (RUN,),
    "run_parked": (RUN, "unit email"),
    "hold_acquired": (STEP, "stock:7", "lock"),
    "hold_refused": (STEP, "stock:7", "lock"),
    "hold_released": (STEP, "stock:7", "lock"),
    "run_cancelled": (RUN, "by ann"),
    "run_aborted": (RUN, KeyboardInterrupt()),
    "step_started": (STEP,),
    "step_completed": (STEP, "secret value"),
    "step_failed": (STEP, FAILURE),
    "step_retried": (STEP, FAILURE, 1.5),
    "step_skipped": (STEP,),
    "step_halted": (STEP, "enough"),
    "compensation_started": (STEP,),
    "compensation_completed": (STEP,),
    "compensation_failed": (STEP, LEFT),
    "undo_started": (STEP,),
    "undo_completed": (STEP,),
    "undo_failed": (STEP, LEFT),
    "lease_taken": (RUN,),
    "lease_lost": (RUN,),
    "lease_released": (RUN,),
}


@pytest.fixture(autouse=True)
def untouched_logging() -> Iterator[None]:
    logger = logging.getLogger("calandria")
    before = (list(logger.handlers), logger.level, logger.propagate)
    yield
    logger.handlers[:], level, logger.propagate = before
    logger.setLevel(level)


def written(format: str, hook: str, *arguments: Any, **options: bool) -> str:
    stream = io.StringIO()
    configure_logging(format, logging.DEBUG, stream)  # type: ignore[arg-type]
    getattr(LoggingMiddleware(**options), hook)(*arguments)
    return stream.getvalue()


def test_every_hook_there_is_has_its_line() -> None:
    hooks = {name for name, _ in inspect.getmembers(Middleware, inspect.isfunction)}
    assert hooks - {"__init__"} == set(HOOKS)
    for hook, arguments in HOOKS.items():
        line = written("json", hook, *arguments)
        assert json.loads(line)["event"] == hook.replace("_", ".", 1)


def test_a_step_is_one_line_of_keys_and_values() -> None:
    line = written("key-value", "step_completed", STEP, "secret value")
    assert re.fullmatch(
        r"time=\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z level=INFO logger=calandria.step"
        r" event=step.completed run=r-1 reactor=shop:Checkout step=reserve\[2\]/take attempt=2"
        r" seconds=0.123457\n",
        line,
    )


def test_json_keeps_kinds() -> None:
    found = json.loads(written("json", "step_retried", STEP, FAILURE, 1.5))
    assert (found["attempt"], found["delay"]) == (2, 1.5)
    assert found["error"] == "no\nstock"
    assert found["exception"] == "OutOfStock"


@pytest.mark.parametrize("format", ["json", "key-value"])
def test_what_was_returned_is_never_written_and_inputs_only_on_request(format: str) -> None:
    for hook, arguments in HOOKS.items():
        line = written(format, hook, *arguments)
        assert "secret value" not in line and "REDACTED" not in line
    for hook in ("run_started", "step_started"):
        assert "[REDACTED]" in written(format, hook, *HOOKS[hook], inputs=True)


@pytest.mark.parametrize(
    ("hook", "level"),
    [
        ("run_completed", "INFO"),
        ("run_failed", "ERROR"),
        ("step_failed", "WARNING"),
        ("step_retried", "WARNING"),
        ("compensation_failed", "ERROR"),
        ("undo_failed", "ERROR"),
        ("run_aborted", "WARNING"),
        ("lease_lost", "ERROR"),
        ("step_started", "DEBUG"),
    ],
)
def test_levels(hook: str, level: str) -> None:
    assert json.loads(written("json", hook, *HOOKS[hook]))["level"] == level


def test_a_failed_run_tells_what_its_rollback_left() -> None:
    failure = Failure("x", step="charge", rollback_failures=[LEFT])
    found = json.loads(written("json", "run_failed", RUN, failure))
    assert (found["step"], found["rollback_failures"]) == ("charge", 1)
    undo = json.loads(written("json", "undo_failed", STEP, LEFT))
    assert (undo["reason"], undo["error"]) == ("raised", "bank said no")


def test_a_nested_or_taken_up_run_says_so() -> None:
    run = RunInfo("r-2", "r-1", "shop:Pay", {}, epoch=1, taken_up=True)
    found = json.loads(written("json", "run_started", run))
    assert (found["root"], found["taken_up"]) == ("r-1", True)


def test_a_handler_that_knows_nothing_of_this_still_shows_the_line() -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    logger = logging.getLogger("calandria")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    LoggingMiddleware().run_halted(RUN, 'say "when"')
    assert stream.getvalue() == (
        'event=run.halted run=r-1 reactor=shop:Checkout reason="say \\"when\\""\n'
    )


def test_fields_survive_a_queue() -> None:
    # Given records that go through a queue, which replaces message and arguments by text
    records: queue.SimpleQueue[logging.LogRecord] = queue.SimpleQueue()
    logger = logging.getLogger("calandria")
    logger.addHandler(logging.handlers.QueueHandler(records))
    logger.setLevel(logging.INFO)
    LoggingMiddleware().run_completed(RUN, None)
    # Then the fields are still apart on the other side
    found = json.loads(JsonFormatter().format(records.get_nowait()))
    assert (found["event"], found["run"]) == ("run.completed", "r-1")


def record(message: object, *args: object, **extra: object) -> logging.LogRecord:
    logger = logging.getLogger("some.app")
    return logger.makeRecord("some.app", 30, "f.py", 1, message, args, None, extra=extra)


def test_any_other_record_is_written_with_its_extras() -> None:
    odd = record("hello %s", "you", user="ann", count=3, share=123456789.25)
    assert (
        KeyValueFormatter()
        .format(odd)
        .endswith(' logger=some.app message="hello you" user=ann count=3 share=123456789.25')
    )
    found = json.loads(JsonFormatter().format(odd))
    assert (found["message"], found["count"]) == ("hello you", 3)


def test_a_traceback_stays_in_its_line() -> None:
    try:
        raise RuntimeError("broken")
    except RuntimeError as error:
        odd = record("oh")
        odd.exc_info = (type(error), error, error.__traceback__)
    line = KeyValueFormatter().format(odd)
    assert "\n" not in line and r"\nRuntimeError: broken" in line
    assert json.loads(JsonFormatter().format(odd))["traceback"].endswith("RuntimeError: broken")


class Broken:
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize("formatter", [JsonFormatter(), KeyValueFormatter()])
def test_a_value_that_cannot_be_shown_costs_no_line(formatter: logging.Formatter) -> None:
    circle: list[object] = []
    circle.append(circle)
    odd = record("x", broken=Broken(), circle=circle, nan=float("nan"), keys={1: {2, 3}})
    line = formatter.format(odd)
    assert "<Broken>" in line and "nan" in line


VALUES = st.text(st.characters(exclude_categories=()), max_size=30)


@given(VALUES, VALUES)
def test_a_line_is_one_line_and_reads_back(message: str, extra: str) -> None:
    odd = record("%s", message, note=extra)
    pairs = KeyValueFormatter().format(odd)
    assert pairs.isprintable()
    note = re.search(r' note=("(?:[^"\\]|\\.)*"|\S+)$', pairs)
    assert note
    read = json.loads(note[1]) if note[1].startswith('"') else note[1]
    # two halves of one character, side by side, are read back as that character
    whole = extra.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    assert read.encode("utf-16", "surrogatepass") == whole.encode("utf-16", "surrogatepass")
    line = JsonFormatter().format(odd)
    assert line.isascii() and "\n" not in line
    assert isinstance(json.loads(line)["note"], str)


def test_configuring_again_replaces_what_was_configured() -> None:
    first, second = io.StringIO(), io.StringIO()
    configure_logging(stream=first)
    configure_logging("json", "WARNING", second)
    LoggingMiddleware().run_started(RUN)
    LoggingMiddleware().run_failed(RUN, FAILURE)
    assert first.getvalue() == ""
    assert [json.loads(line)["event"] for line in second.getvalue().splitlines()] == ["run.failed"]


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(ValueError, match=r"format='xml'"):
        configure_logging("xml")  # type: ignore[arg-type]
