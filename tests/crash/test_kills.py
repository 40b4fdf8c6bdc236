"""kill -9 at commits, within actions and at any moment, again while recovering: nothing is lost.

The few kills of each scenario here are drawn by a fixed seed; `make soak` kills at every commit
boundary and every begin and end of an action. `python -m tests.crash.campaign --help` repeats one.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.crash.scenarios import SCENARIOS

NAMES = sorted(SCENARIOS)
GROUPS = [NAMES[start::5] for start in range(5)]


def _campaign(names: list[str], *options: str, timeout: float) -> None:
    command = [sys.executable, "-m", "tests.crash.campaign", *names, *options]
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
    print(done.stdout)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}"


@pytest.mark.parametrize("names", GROUPS, ids=lambda names: names[0])
def test_a_killed_run_ends_as_an_uninterrupted_one(names: list[str]) -> None:
    _campaign(names, "--kills", "2", "--times", "1", "--seed", "1", timeout=55)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_run_killed_anywhere_ends_as_an_uninterrupted_one(name: str) -> None:
    _campaign([name], "--times", "20", "--seed", "2", timeout=1700)
