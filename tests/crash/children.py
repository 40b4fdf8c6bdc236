"""Child processes that are forked, waited for with a deadline, and never left behind.

A test that forks is performed in a fresh interpreter without threads (`alone`): forking the test
runner itself would copy its threads' locks.
"""

from __future__ import annotations

import faulthandler
import importlib
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn, TypeVar

T = TypeVar("T")

PATIENCE_SECONDS = float(os.environ.get("CRASH_PATIENCE", "30"))
SIGNAL_AGAIN_SECONDS = 3.0


def alone(work: Callable[..., None], folder: Path, *arguments: str, patience: float = 55) -> str:
    """Perform `work(folder, *arguments)` in an interpreter of its own; return what it printed.

    `patience` is in seconds; with more, children are waited for longer, too.
    """
    command = [sys.executable, "-m", "tests.crash.children", f"{work.__module__}:{work.__name__}"]
    done = subprocess.run(
        [*command, str(folder), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=patience,
        env=os.environ
        | {"CRASH_PATIENCE": str(max(patience - 25, PATIENCE_SECONDS))}
        | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
    assert done.returncode == 0, done.stdout
    print(done.stdout)
    return done.stdout


class Child:
    """A forked process that does `work` and ends: with 0, or 70 if `work` raised."""

    def __init__(self, work: Callable[[], object]) -> None:
        self.pid = os.fork()
        if self.pid == 0:
            _perform(work)

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        os.waitpid(self.pid, 0)

    def wait(self, again: int | None = None) -> int:
        """Return the exit code (negative: the signal); a child that hangs shows its stacks.

        `again` is a signal to repeat: the interpreter drops an interruption that comes while it
        frees an object.
        """
        deadline = time.monotonic() + PATIENCE_SECONDS
        next_signal = time.monotonic() + SIGNAL_AGAIN_SECONDS
        while time.monotonic() < deadline:
            if again is not None and time.monotonic() > next_signal:
                next_signal += SIGNAL_AGAIN_SECONDS
                self.signal(again)
            found, status = os.waitpid(self.pid, os.WNOHANG)
            if found:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.002)
        self.signal(signal.SIGABRT)
        os.waitpid(self.pid, 0)
        raise AssertionError("a child process hangs; its stacks are above")

    def join(self) -> None:
        code = self.wait()
        assert code == 0, f"a child process ended with {code}; its traceback is above"


def _perform(work: Callable[[], object]) -> NoReturn:
    code = 70
    try:
        faulthandler.enable()
        # a shell that starts the tests with `&` has them ignore it
        signal.signal(signal.SIGINT, signal.default_int_handler)
        work()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


def until(what: Callable[[], T], message: str) -> T:
    """Return what `what` returns once that is true; fails after a while."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        found = what()
        if found:
            return found
        time.sleep(0.002)
    raise AssertionError(f"not in {PATIENCE_SECONDS:g} s: {message}")


def main() -> None:
    faulthandler.enable()
    name, folder, *arguments = sys.argv[1:]
    module, _, function = name.partition(":")
    getattr(importlib.import_module(module), function)(Path(folder), *arguments)


if __name__ == "__main__":
    main()
