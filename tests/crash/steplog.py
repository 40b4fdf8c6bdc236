"""The step log: what the victims' steps did, told by themselves, outside of the library.

One JSON line for each action begun and ended, appended in one `write` so that a killed process
leaves whole lines only. The killing store adds a line for each record that it saw committed.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Line:
    """`what` is `begin`, `end` or `committed`; a committed line has the record's statuses."""

    what: str
    action: str
    path: str
    attempt: int = 0
    key: str = ""
    run: str = ""
    pid: int = 0
    ok: bool = True
    status: str = ""
    rollback: str = ""
    order: int | None = None


class StepLog:
    """Appends to the log; `kill_at` kills this process after its line of that number."""

    def __init__(self, path: Path, kill_at: int | None = None) -> None:
        self._path = path
        self._kill_at = kill_at
        self.count = 0

    def write(self, what: str, action: str, path: str, **rest: Any) -> None:
        line = {"what": what, "action": action, "path": path, "pid": os.getpid(), **rest}
        file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            os.write(file, (json.dumps(line) + "\n").encode())
        finally:
            os.close(file)
        if what != "committed":
            self.count += 1
            if self.count == self._kill_at:
                os.kill(os.getpid(), signal.SIGKILL)


def read_log(path: Path) -> list[Line]:
    if not path.exists():
        return []
    return [Line(**json.loads(line)) for line in path.read_text().splitlines()]


class _Current:
    log: StepLog | None = None


def use(log: StepLog) -> None:
    """Have the victims of this process write to `log`."""
    _Current.log = log


def current() -> StepLog:
    assert _Current.log is not None
    return _Current.log


@contextmanager
def logged(context: Any, action: str) -> Iterator[None]:
    """Log the begin and the end of one action of a step."""
    about = {
        "attempt": context.attempt,
        "key": context.idempotency_key,
        "run": context.run_id,
    }
    current().write("begin", action, context.step, **about)
    ok = False
    try:
        yield
        ok = True
    finally:
        current().write("end", action, context.step, ok=ok, **about)
