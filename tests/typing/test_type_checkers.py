"""Both type checkers accept what is right, and refuse what is wrong, line by line."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SNIPPETS = Path(__file__).parent / "snippets"


def _mypy(snippet: Path, scratch: Path) -> set[int]:
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", f"--cache-dir={scratch}", str(snippet)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found = re.findall(rf"{re.escape(snippet.name)}:(\d+): error:", done.stdout)
    assert len(found) == done.stdout.count(" error: "), done.stdout
    return {int(line) for line in found}


def _pyright(snippet: Path, scratch: Path) -> set[int]:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pyright", "--outputjson"),
            *("--pythonpath", sys.executable, str(snippet)),
        ],
        cwd=scratch,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found = json.loads(done.stdout)["generalDiagnostics"]
    return {
        one["range"]["start"]["line"] + 1
        for one in found
        if one["severity"] in ("error", "warning")
    }


CHECKERS = {"mypy": _mypy, "pyright": _pyright}


def _marked(snippet: Path, checker: str) -> set[int]:
    lines = snippet.read_text(encoding="utf-8").splitlines()
    marks = ((number, line.partition("# E:")[2].split()) for number, line in enumerate(lines, 1))
    return {number for number, checkers in marks if checker in checkers}


# a first run reads the whole standard library, which takes its time on a busy machine
@pytest.mark.timeout(300)
@pytest.mark.parametrize("checker", CHECKERS)
def test_the_checker_accepts_what_is_right(checker: str, tmp_path: Path) -> None:
    assert CHECKERS[checker](SNIPPETS / "right.py", tmp_path) == set()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("checker", CHECKERS)
def test_the_checker_refuses_exactly_the_marked_lines(checker: str, tmp_path: Path) -> None:
    snippet = SNIPPETS / "wrong.py"
    expected = _marked(snippet, checker)

    assert len(expected) >= 20
    assert CHECKERS[checker](snippet, tmp_path) == expected
