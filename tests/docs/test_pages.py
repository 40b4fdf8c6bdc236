"""Every ```python block of the README and of docs/ runs, a page's blocks in turn in one program."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
OPENING = re.compile(r"^ {0,3}```python\b")
CLOSING = re.compile(r"^ {0,3}```\s*$")


def program_of(page: str) -> str:
    """Return the page's Python blocks as one program, every line where it stands in the page."""
    lines: list[str] = []
    inside = False
    for line in page.splitlines():
        if inside and CLOSING.match(line):
            inside = False
        elif not inside and OPENING.match(line):
            inside = True
            lines.append("")
            continue
        lines.append(line if inside else "")
    assert not inside, "the last python block is never closed"
    return "\n".join(lines) + "\n"


def test_blocks_keep_their_line_numbers() -> None:
    page = "# Title\n\n```python\na = 1\n```\n\n```sh\nls\n```\n\n```python\nb = a\n```\n"

    lines = program_of(page).splitlines()

    assert (lines[3], lines[11]) == ("a = 1", "b = a")
    assert [line for line in lines if line] == ["a = 1", "b = a"]


def _has_blocks(page: Path) -> bool:
    return any(OPENING.match(line) for line in page.read_text(encoding="utf-8").splitlines())


def test_the_readme_has_something_to_run() -> None:
    assert _has_blocks(ROOT / "README.md")


@pytest.mark.parametrize(
    "page", [*filter(_has_blocks, PAGES)], ids=lambda page: str(page.relative_to(ROOT))
)
def test_page_runs(page: Path, tmp_path: Path) -> None:
    program = tmp_path / f"{page.stem.lower().replace('-', '_')}_page.py"
    program.write_text(program_of(page.read_text(encoding="utf-8")), encoding="utf-8")

    done = subprocess.run(
        [sys.executable, "-W", "error", program.name],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
