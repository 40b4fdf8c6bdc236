"""Every example runs as a user would run it, and holds what it claims."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples"
EXAMPLES = sorted(FOLDER.glob("*.py"))


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 20


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example(example: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(example)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout, "an example prints what happens"
    assert done.stderr == ""
    assert list(tmp_path.iterdir()) == [], "an example leaves nothing behind"


def test_the_index_names_every_example() -> None:
    index = (FOLDER / "README.md").read_text(encoding="utf-8")

    assert [path.stem for path in EXAMPLES if f"]({path.name})" not in index] == []
