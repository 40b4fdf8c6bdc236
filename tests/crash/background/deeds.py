"""What the steps of background runs do, and what they say of it in a log outside of the library."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calandria import Retry, Step, Success
from tests.crash.steplog import Line, current
from tests.crash.victims import play, play_back

SOON = Retry(max_attempts=3, base_delay=0.02, jitter=0)


@dataclass(frozen=True)
class Deed:
    """One line of the log: an action begun or ended, and under which epoch of its run's lease."""

    what: str
    action: str
    path: str
    pid: int
    attempt: int
    key: str
    run: str
    epoch: int
    ok: bool = True

    def as_line(self) -> Line:
        about = (self.attempt, self.key, self.run, self.pid, self.ok)
        return Line(self.what, self.action, self.path, *about)


def read_deeds(path: Path) -> list[Deed]:
    if not path.exists():
        return []
    return [Deed(**json.loads(line)) for line in path.read_text().splitlines()]


@contextmanager
def told(context: Any, action: str) -> Iterator[None]:
    """Tell the log of the begin and the end of one action of a step."""
    about = {
        "attempt": context.attempt,
        "key": context.idempotency_key,
        "run": context.run_id,
        "epoch": context.epoch,
    }
    current().write("begin", action, context.step, **about)
    ok = False
    try:
        yield
        ok = True
    finally:
        current().write("end", action, context.step, ok=ok, **about)


class Acting:
    """What else the steps of this process do: a function for an action of a path."""

    longest_pause = 0.0
    who = ""
    by_path: dict[tuple[str, str], Callable[[Any], None]] = {}

    @classmethod
    def perform(cls, action: str, context: Any) -> None:
        if cls.longest_pause:
            threading.Event().wait(random.uniform(0, cls.longest_pause))
        deed = cls.by_path.get((action, context.step))
        if deed is not None:
            deed(context)


class Act(Step):
    """Does what `script` says, and says that it did."""

    script: str = ""
    needs: object = None

    rollback_retry = SOON

    def run(self) -> str:
        with told(self.context, "run"):
            Acting.perform("run", self.context)
            return play(self.script, self.context) + Acting.who

    def compensate(self, reason: object) -> None:
        with told(self.context, "compensate"):
            Acting.perform("compensate", self.context)
            play_back(self.script, "compensate", self.context)

    def undo(self, result: object) -> None:
        with told(self.context, "undo"):
            Acting.perform("undo", self.context)
            play_back(self.script, "undo", self.context)


class Patient(Act):
    """Is tried again."""

    retry = SOON


class Asked(Act):
    """Asks the log whether a cut-off attempt landed."""

    def reconcile(self) -> Success[str] | None:
        key = self.context.idempotency_key
        landed = any(
            (deed.what, deed.action, deed.key, deed.ok) == ("end", "run", key, True)
            for deed in read_deeds(current()._path)
        )
        return Success(f"did {self.context.step}") if landed else None
