"""kill -9, SIGSTOP and SIGCONT of workers and callers at random moments: nothing lost or doubled.

The dose here is small and its seed fixed; `make soak` gives hundreds of runs as many disturbances.
`python -m tests.crash.background.chaos --help` repeats one.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


def _chaos(count: int, disturbances: int, seed: int, timeout: float) -> None:
    command = [sys.executable, "-m", "tests.crash.background.chaos", "--runs", str(count)]
    command += ["--disturbances", str(disturbances), "--seed", str(seed)]
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


def test_runs_survive_a_few_kills_and_stops() -> None:
    _chaos(34, 25, seed=1, timeout=55)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 3, 4])
def test_hundreds_of_runs_survive_hundreds_of_kills_and_stops(seed: int) -> None:
    _chaos(300, 400, seed=seed, timeout=1700)
