"""Deploys: runs under way go on with the code that is there, or are left alone and say why."""

from __future__ import annotations

import importlib
import logging
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

from calandria import Reactor, Run, RunStateError, Runtime, Settings, Success

QUICK = Settings(snooze_base_delay=0.1, snooze_jitter=0)

FIRST = """
from calandria import Reactor, after, step

class Order(Reactor):
    number: int

    @step
    def reserve(*, number: int) -> str:
        return f"stock for {number}"

    @step
    def charge(*, reserve: str) -> str:
        return f"charged for {reserve}"

    background = after(reserve)
"""
# Another body for a step that the runs have yet to do, and a step more: no questions asked.
BETTER = FIRST.replace('"charged', '"charged by the new version').replace(
    "    background",
    """    @step
    def thank(*, charge: str) -> str:
        return f"{charge}, thank you"

    background""",
)
# A step that the runs have already done is called otherwise: they could not be undone.
RENAMED = BETTER.replace("reserve", "hold")


def deploy(module: ModuleType, text: str) -> type[Reactor]:
    """Put another version in the place of the one that is loaded, as a restart would."""
    assert module.__file__ is not None
    Path(module.__file__).write_text(text, encoding="utf-8")
    importlib.reload(module)
    order: type[Reactor] = module.Order
    return order


def begin(order: Any, number: int) -> Run:
    run: Run = order.find(order.run(number=number).run_id)
    return run


def check_runs(folder: Path, url: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "calandria", "--storage", url, "check", "--runs", "flows"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def main(folder: Path, runtime: Runtime) -> None:
    (folder / "flows.py").write_text(FIRST, encoding="utf-8")
    flows = importlib.import_module("flows")

    # `reserve` is done here, in the caller; no worker runs yet.
    early = begin(flows.Order, 1)
    deploy(flows, BETTER)
    worker = runtime.start_worker(threads=1)
    result = early.wait(timeout=10)
    print(result)
    assert result == Success("charged by the new version for stock for 1, thank you")
    worker.stop(timeout=10)

    # A run under way, and a version that has lost a step the run has done.
    order = deploy(flows, FIRST)
    stuck = begin(order, 3)
    deploy(flows, RENAMED)
    found = check_runs(folder, runtime.storage_url)
    print(found.stderr.strip())
    assert found.returncode == 2 and stuck.id in found.stderr and "reserve" in found.stderr

    # Deployed all the same, it does no harm: the run is left as it is and says what it waits for.
    worker = runtime.start_worker(threads=1)
    while not stuck.waiting_on:
        runtime.pause(0.01)
    print(stuck.status.value, stuck.waiting_on)
    assert stuck.status.value == "running" and stuck.waiting_on == ["definition flows:Order"]
    try:
        stuck.recover()
    except RunStateError as error:
        assert "'reserve'" in str(error)
    else:
        raise AssertionError("nothing of the run may be done")

    # The next version has the step again, and any worker goes on.
    deploy(flows, BETTER)
    result = stuck.wait(timeout=10)
    print(result)
    assert result == Success("charged by the new version for stock for 3, thank you")
    assert check_runs(folder, runtime.storage_url).returncode == 0
    assert worker.stop(timeout=10)


if __name__ == "__main__":
    # A worker warns of runs that it leaves alone; here that is what is to be seen.
    logging.getLogger("calandria").setLevel(logging.CRITICAL)
    sys.dont_write_bytecode = True
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    with tempfile.TemporaryDirectory() as name:
        sys.path.insert(0, name)
        with Runtime(storage=f"sqlite:///{name}/runs.db", settings=QUICK) as opened:
            main(Path(name), opened)
