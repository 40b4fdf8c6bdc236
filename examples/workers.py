"""Workers: one in this process, one as a process of its own; both drain before they stop."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path

from calandria import Dispatched, Reactor, Runtime, Success, step


class Report(Reactor):
    month: str

    @step
    def write(*, month: str) -> str:
        return f"{month}, written by process {os.getpid()}"

    background = True


def dispatch(month: str) -> str:
    dispatched = Report.run(month=month)
    assert isinstance(dispatched, Dispatched)
    return dispatched.run_id


def in_this_process(runtime: Runtime) -> None:
    run_id = dispatch("May")
    worker = runtime.start_worker(threads=2)
    result = Report.find(run_id).wait(timeout=10)
    print(result)
    assert result == Success(f"May, written by process {os.getpid()}")
    # `stop` takes nothing new, and waits for what is under way: at most this long.
    assert worker.stop(timeout=10)
    assert worker.performed == 1


def in_a_process_of_its_own(url: str) -> None:
    run_id = dispatch("June")
    worker = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "calandria",
            "--storage",
            url,
            "worker",
            "workers",
            "--threads",
            "2",
        ],
        cwd=Path(__file__).parent,
        stderr=subprocess.DEVNULL,  # its log, for the example's sake
    )
    result = Report.find(run_id).wait(timeout=30)
    print(result)
    assert result == Success(f"June, written by process {worker.pid}")
    # SIGTERM is the polite way to stop one: it drains, and ends with exit code 0.
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(timeout=30) == 0


def main(url: str) -> None:
    with Runtime(storage=url) as runtime:
        in_this_process(runtime)
        in_a_process_of_its_own(url)

        # Without a worker nothing is lost: the run waits for one.
        waiting = Report.find(dispatch("July"))
        print(waiting.status.value)
        assert waiting.result is None and waiting.status.value == "pending"


# The worker process imports this file by the name `workers`; so does this one, because a class
# of `__main__` has no name under which another process could find it.
if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        import_module("workers").main(f"sqlite:///{Path(folder) / 'runs.db'}")
