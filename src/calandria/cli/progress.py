"""Progress of a run on a terminal: how many steps are done, and how many elements of each map."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)

from calandria.cli.console import err, is_terminal, one_line
from calandria.ports.middleware import Middleware, RunInfo, StepInfo

_PATIENCE = 0.5
"""Seconds before anything is shown: a short run needs no progress."""


class Watch:
    """What a command sees of the run it executes.

    `run_id` is known once the run is recorded. Nothing is shown for `patience` seconds.
    """

    def __init__(self, *, patience: float = _PATIENCE) -> None:
        self._patience = patience
        self.run_id: str | None = None
        self._began = time.monotonic()
        self._progress: Progress | None = None
        self._tasks: dict[str, TaskID] = {}
        self._done: dict[str, int] = {}

    def middleware(self) -> Middleware:
        """Return the middleware that tells this object what happens."""
        return _Reporter(self)

    def begin(self, run_id: str) -> None:
        """Remember the run; nested ones have the id of their root."""
        if self.run_id is None:
            self.run_id = run_id

    def step_done(self, path: str, *, undone: bool = False) -> None:
        """Count a step at the top of the run, or an element of a map there."""
        name, _, rest = path.partition("[")
        if "/" in name or "/" in rest:
            return
        label = f"{name} elements" if rest else "steps"
        self._count(f"{label} undone" if undone else label)

    def _count(self, label: str) -> None:
        self._done[label] = self._done.get(label, 0) + 1
        if self._progress is None or time.monotonic() - self._began < self._patience:
            return
        if not self._tasks:
            self._progress.start()
        if label not in self._tasks:
            self._tasks[label] = self._progress.add_task(one_line(label), total=None)
        self._progress.update(self._tasks[label], completed=self._done[label])

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Show progress on standard error meanwhile, if that is a terminal."""
        if is_terminal(sys.stderr):
            self._progress = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                console=err(),
                transient=True,
                # what the steps print goes where they send it
                redirect_stdout=False,
                redirect_stderr=False,
            )
        try:
            yield
        finally:
            if self._progress is not None:
                self._progress.stop()
                self._progress = None


class _Reporter(Middleware):
    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    def run_started(self, run: RunInfo) -> None:
        self._watch.begin(run.root_id)

    def step_completed(self, step: StepInfo, value: object) -> None:
        self._watch.step_done(step.path)

    def step_skipped(self, step: StepInfo) -> None:
        self._watch.step_done(step.path)

    def undo_completed(self, step: StepInfo) -> None:
        self._watch.step_done(step.path, undone=True)
