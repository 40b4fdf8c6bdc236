"""Ctrl-C as the system delivers it: to the main thread, wherever it happens to be."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.runtime.ctrl_c import SCENARIOS

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_ctrl_c(scenario: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.unit.runtime.ctrl_c", scenario],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout == "as expected\n"
