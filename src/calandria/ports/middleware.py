"""Hooks into the life of a run: subclass `Middleware` and override what you need.

Middleware is named as a class (or any callable that returns one) in `configure(middleware=[...])`
for every reactor, or in a reactor's `middleware = [...]`. A fresh object is made for each
execution of a run. Hooks are called after what they report was committed. An error in one is
logged and never disturbs the run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from calandria.results import Failure, RollbackFailure


@dataclass(frozen=True)
class RunInfo:
    """The run a hook is about. `inputs` are redacted; `taken_up` marks a recovered run."""

    run_id: str
    root_id: str
    reactor: str
    inputs: Mapping[str, Any]
    epoch: int
    taken_up: bool = False


@dataclass(frozen=True)
class StepInfo:
    """The step a hook is about.

    `path` is unique in the run (`booking/confirm`, `refunds[17]`); `inputs` are redacted;
    `seconds` is how long the action took, in the hooks that report its end.
    """

    run: RunInfo
    path: str
    attempt: int
    inputs: Mapping[str, Any]
    seconds: float | None = None


class Middleware:
    """Does nothing at every hook; override the ones that matter."""

    def run_started(self, run: RunInfo) -> None:
        """A run begins, or is taken up again (`run.taken_up`)."""

    def run_completed(self, run: RunInfo, value: Any) -> None:
        """Every step is done; `value` is what the run returns."""

    def run_failed(self, run: RunInfo, failure: Failure) -> None:
        """A step failed and the rollback is over; `failure.rollback_failures` is what it left."""

    def run_halted(self, run: RunInfo, reason: str | None) -> None:
        """A step ended the run early, progress kept."""

    def run_paused(self, run: RunInfo) -> None:
        """The run waits for people."""

    def run_handed_over(self, run: RunInfo) -> None:
        """The run leaves this process: a worker goes on with it."""

    def run_parked(self, run: RunInfo, waits_for: str) -> None:
        """A worker gave the run back while it waits for a retry, a spawned unit or a key."""

    def run_cancelled(self, run: RunInfo, reason: str | None) -> None:
        """The run was cancelled, or undone by hand."""

    def run_aborted(self, run: RunInfo, exception: BaseException | None) -> None:
        """The process executing the run was interrupted; no rollback code ran."""

    def step_started(self, step: StepInfo) -> None:
        """An attempt is recorded and about to begin."""

    def step_completed(self, step: StepInfo, value: Any) -> None:
        """The step succeeded; `value` is what it returned."""

    def step_failed(self, step: StepInfo, failure: Failure) -> None:
        """The step failed for good."""

    def step_retried(self, step: StepInfo, failure: Failure, delay: float) -> None:
        """An attempt failed; the next one follows in `delay` seconds."""

    def step_skipped(self, step: StepInfo) -> None:
        """The step had nothing to do, or its condition was false."""

    def step_halted(self, step: StepInfo, reason: str | None) -> None:
        """The step ended its reactor early."""

    def compensation_started(self, step: StepInfo) -> None:
        """A failed step's `compensate` is about to begin."""

    def compensation_completed(self, step: StepInfo) -> None:
        """A failed step's `compensate` returned."""

    def compensation_failed(self, step: StepInfo, failure: RollbackFailure) -> None:
        """A failed step's `compensate` did not finish; the rollback goes on."""

    def undo_started(self, step: StepInfo) -> None:
        """A completed step's `undo`, or a map's `undo_all`, is about to begin."""

    def undo_completed(self, step: StepInfo) -> None:
        """A completed step's `undo`, or a map's `undo_all`, returned."""

    def undo_failed(self, step: StepInfo, failure: RollbackFailure) -> None:
        """A completed step's `undo`, or a map's `undo_all`, did not finish; the rest goes on."""

    def hold_acquired(self, step: StepInfo, key: str, primitive: str) -> None:
        """The step has its key, or one more start under it.

        `primitive` is `lock`, `semaphore`, `rate_limit`, `period` or `ordered_lock`. What a whole
        reactor declares is told with a `step` whose path is empty and whose attempt is 0.
        """

    def hold_refused(self, step: StepInfo, key: str, primitive: str) -> None:
        """A key is not to be had now: the step waits for it, or is skipped because of it."""

    def hold_released(self, step: StepInfo, key: str, primitive: str) -> None:
        """The step let go of its lock, its place in a semaphore, or its turn."""

    def lease_taken(self, run: RunInfo) -> None:
        """This process now owns the run, under `run.epoch`."""

    def lease_lost(self, run: RunInfo) -> None:
        """Another process took the run over: this one records nothing more."""

    def lease_released(self, run: RunInfo) -> None:
        """This process let go of the run, everything saved."""


MiddlewareFactory = Callable[[], Middleware]
