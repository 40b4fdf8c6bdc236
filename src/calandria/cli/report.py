"""Runs and what belongs to them in words, for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from rich.table import Table
from rich.text import Text

from calandria.cli.console import brief, one_line
from calandria.plan.drawing.states import Tone, look_of
from calandria.results import Failure, RollbackFailure
from calandria.runtime.run import Run
from calandria.runtime.views import TraceEntry
from calandria.statuses import RollbackState, RunStatus

_STYLES = {
    Tone.DONE: "green",
    Tone.ACTIVE: "blue",
    Tone.WAITING: "yellow",
    Tone.FAILED: "bold red",
    Tone.REVERSED: "magenta",
    Tone.QUIET: "dim",
    Tone.PLAIN: "",
}

_RUN_TONES = {
    RunStatus.COMPLETED: Tone.DONE,
    RunStatus.FAILED: Tone.FAILED,
    RunStatus.ABORTED: Tone.FAILED,
    RunStatus.HALTED: Tone.WAITING,
    RunStatus.PAUSED: Tone.WAITING,
    RunStatus.CANCELLED: Tone.REVERSED,
    RunStatus.ROLLING_BACK: Tone.REVERSED,
    RunStatus.RUNNING: Tone.ACTIVE,
    RunStatus.PENDING: Tone.QUIET,
}


def run_status(run: Run) -> Text:
    """Return a run's status in its colour, with what its rollback left."""
    text = Text(run.status.value.replace("_", " "), style=_STYLES[_RUN_TONES[run.status]])
    if run.needs_attention:
        text.append("  needs attention", style=_STYLES[Tone.FAILED])
    return text


def waits(run: Run) -> str:
    """Return what a run waits for, on one line; empty if it waits for nothing."""
    return one_line(", ".join(run.waiting_on))


def step_status(status: str) -> Text:
    """Return a step's status as its symbol and word, in its colour."""
    look = look_of(status)
    return Text(f"{look.symbol} {look.word}", style=_STYLES[look.tone])


def runs_table(runs: Iterable[Run]) -> Table:
    """Return a table of runs, a line each."""
    table = Table(box=None, pad_edge=False, show_edge=False)
    for heading in ("run", "reactor", "created", "took", "status"):
        table.add_column(heading, overflow="fold", no_wrap=heading != "reactor")
    for run in runs:
        status, waiting = run_status(run), waits(run)
        if waiting:
            status.append(f"  waits for {waiting}", style=_STYLES[Tone.WAITING])
        table.add_row(
            run.id,
            one_line(run.reactor),
            instant(run.created_at),
            took(run.created_at, run.finished_at),
            status,
        )
    return table


def run_header(run: Run) -> Table:
    """Return what a run is and came to, as lines of label and value."""
    table = Table(box=None, pad_edge=False, show_header=False, show_edge=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for label, value in _header_lines(run):
        table.add_row(label, value)
    return table


def _header_lines(run: Run) -> Iterator[tuple[str, Text | str]]:
    yield "run", run.id
    yield "reactor", one_line(run.reactor)
    yield "status", run_status(run)
    if run.rollback is not RollbackState.NONE:
        yield "rollback", run.rollback.value
    yield "created", instant(run.created_at)
    if run.finished_at is not None:
        took_in_all = took(run.created_at, run.finished_at)
        yield "finished", f"{instant(run.finished_at)}, after {took_in_all}"
    if run.lease_owner is not None and run.finished_at is None:
        yield "owner", f"{one_line(run.lease_owner)}, epoch {run.epoch}"
    if run.idempotency_key is not None:
        yield "key", one_line(run.idempotency_key)
    for name, value in run.inputs.items():
        yield "input", f"{one_line(name)} = {brief(value)}"
    if run.failure is not None:
        yield "failure", Text(failure_line(run.failure), style=_STYLES[Tone.FAILED])
        # once a later undo has finished them, they are history
        if run.rollback is RollbackState.INCOMPLETE:
            for line in rollback_lines(run.failure.rollback_failures):
                yield "left", Text(line, style=_STYLES[Tone.FAILED])
    if run.pending_compensation is not None:
        yield "pending", f"compensate of {one_line(run.pending_compensation)}"
    for hold in run.holds:
        where = f"for {hold.path}" if hold.path else "for the whole run"
        since = instant(datetime.fromtimestamp(hold.acquired_at, UTC))
        yield "holds", one_line(f"{hold.kind.value} {hold.key} {where}, since {since}")
    if waiting := waits(run):
        yield "waits for", Text(waiting, style=_STYLES[Tone.WAITING])


def failure_line(failure: Failure, *, at: str | None = None) -> str:
    """Return a failure in one line: where, unless that is `at`, what, after how many attempts."""
    where = f"step {failure.step}: " if failure.step and failure.step != at else ""
    kind = failure.exception_class
    notes = [kind] if kind and kind != failure.error else []
    if failure.attempts > 1:
        notes.append(f"{failure.attempts} attempts")
    return one_line(f"{where}{failure.error}" + (f" ({', '.join(notes)})" if notes else ""))


def rollback_lines(failures: Iterable[RollbackFailure]) -> Iterator[str]:
    """Yield a line for each compensate or undo that did not finish."""
    for failure in failures:
        place = failure.step
        if failure.map_step and failure.element_index is not None:
            place += f" (element {failure.element_index} of {failure.map_step})"
        reason = failure.reason.replace("_", " ")
        key = f", key {failure.key}" if failure.key else ""
        message = f": {failure.message}" if failure.message else ""
        yield one_line(f"{failure.kind} of {place} {reason}{key}{message}")


def trace_table(entries: Iterable[TraceEntry]) -> Table:
    """Return the trace of a run, an event a line."""
    table = Table(box=None, pad_edge=False, show_edge=False)
    for heading in ("#", "at", "event", "step", "data"):
        table.add_column(heading, overflow="fold")
    for entry in entries:
        table.add_row(
            str(entry.sequence),
            instant(entry.at, milliseconds=True),
            one_line(entry.kind),
            one_line(entry.path or ""),
            " ".join(f"{one_line(k)}={brief(v)}" for k, v in entry.data.items()),
        )
    return table


def instant(moment: datetime | None, *, milliseconds: bool = False) -> str:
    """Return an instant in UTC."""
    if moment is None:
        return ""
    precision = "milliseconds" if milliseconds else "seconds"
    text = moment.astimezone(UTC).isoformat(" ", timespec=precision)
    return text.replace("+00:00", "Z")


def took(start: datetime | None, end: datetime | None) -> str:
    """Return how long something took; empty while it has no end."""
    if start is None or end is None:
        return ""
    seconds = max((end - start).total_seconds(), 0.0)
    if seconds < 1:
        return f"{seconds * 1000:.3g} ms"
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours} h"
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s"
