from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from calandria.cli.console import brief, one_line
from calandria.cli.progress import Watch
from tests.unit.cli.conftest import SHOP, Invoke


@pytest.fixture
def on_a_terminal() -> Iterator[Callable[..., str]]:
    """Run a command with a terminal for its standard error and output; return what it showed."""

    def invoke(*arguments: str, **environment: str) -> str:
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            [sys.executable, "-m", "calandria", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=theirs,
            env={**os.environ, "TERM": "xterm", "COLUMNS": "120", **environment},
        )
        os.close(theirs)
        shown = everything_shown(ours)
        process.wait()
        return shown

    yield invoke


def everything_shown(terminal: int) -> str:
    """Return what was written to a terminal until everybody has closed it."""
    shown = bytearray()
    try:
        while chunk := os.read(terminal, 65536):
            shown += chunk
    except OSError:  # Linux reports the end of a terminal as an error
        pass
    os.close(terminal)
    return shown.decode()


def test_colour_on_a_terminal_only(
    on_a_terminal: Callable[..., str], process: Invoke, checkout: Invoke
) -> None:
    run_id = checkout().data["run"]
    assert "\x1b[32m" in on_a_terminal("show", run_id, NO_COLOR="")
    assert "\x1b[" not in on_a_terminal("show", run_id, NO_COLOR="1")
    assert "\x1b[" not in on_a_terminal("show", run_id, NO_COLOR="", TERM="dumb")
    assert "\x1b" not in process("show", run_id, FORCE_COLOR="1").out
    assert "\x1b" not in process("runs", FORCE_COLOR="1").out


def test_a_short_run_shows_no_progress(on_a_terminal: Callable[..., str]) -> None:
    shown = on_a_terminal("run", f"{SHOP}:Hotel", "-i", "city=Rome", NO_COLOR="")
    assert "booked Rome" in shown and "steps" not in shown


def test_progress_counts_steps_and_elements_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given a watch on a real terminal
    ours, theirs = pty.openpty()
    with open(theirs, "w", encoding="utf-8") as terminal:
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setattr(sys, "stderr", terminal)
        watch = Watch(patience=0)
        # When steps and elements end
        with watch.shown():
            for path in ("reserve[0]", "reserve[1]", "reserve[1]/take", "reserve", "hotel/book"):
                watch.step_done(path)
            watch.step_done("reserve[1]", undone=True)
    shown = everything_shown(ours)
    # Then those at the top are counted, each map for itself
    assert "steps" in shown and "1/?" in shown
    assert "reserve elements" in shown and "2/?" in shown
    assert "reserve elements undone" in shown


def test_progress_is_silent_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    watch = Watch(patience=0)
    with watch.shown():
        watch.step_done("reserve")
    assert capsys.readouterr().err == ""


def test_the_installed_command_is_the_same(python: Invoke) -> None:
    script = os.path.join(os.path.dirname(sys.executable), "calandria")
    done = subprocess.run([script, "--help"], capture_output=True, text=True, check=True)
    assert done.stdout == python("--help").out
    assert "recover" in done.stdout


def test_a_reader_that_leaves_early_is_no_error(checkout: Invoke) -> None:
    checkout()
    process = subprocess.Popen(
        [sys.executable, "-m", "calandria", "runs"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    told = process.stderr.read()
    process.stderr.close()
    process.wait()
    assert b"Traceback" not in told and b"unexpected" not in told


def test_usage_errors_are_exit_code_2(process: Invoke) -> None:
    for arguments in (("fly",), ("runs", "--limit", "0"), ("draw", "a:B", "--format", "png")):
        wrong = process(*arguments)
        assert wrong.code == 2 and "Traceback" not in wrong.err


def test_a_traceback_only_on_request(process: Invoke, checkout: Invoke) -> None:
    checkout()
    assert "Traceback" not in process("show", "nope").err
    assert "Traceback" in process("--traceback", "show", "nope").err


def test_text_from_anywhere_stays_on_its_line() -> None:
    assert one_line("a\nb\x1b[0m\u202e\ud800") == r"a b\x1b[0m\u202e\ud800"
    assert brief({"a": [1, {"b": "x" * 300}]}, 20) == '{"a": [1, {"b": "xx…'
    circle: list[object] = []
    circle.append(circle)
    assert brief(circle) == "[[...]]"
