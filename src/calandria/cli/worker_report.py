"""What workers say of themselves, as a table."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from rich.table import Table
from rich.text import Text

from calandria.cli.console import one_line
from calandria.cli.report import instant, took
from calandria.ports.jobs import WorkerReport
from calandria.runtime.worker import REPORT_INTERVAL

SILENCE = 3 * REPORT_INTERVAL
"""Seconds without a report after which a worker counts as dead."""


def is_alive(report: WorkerReport, now: float) -> bool:
    """Tell whether a worker has reported lately; `now` is the wall clock."""
    return now - report.seen_at < SILENCE


def workers_table(reports: Sequence[WorkerReport], now: float) -> Table:
    """Return a table of workers, a line each."""
    table = Table(box=None, pad_edge=False, show_edge=False)
    for heading in ("worker", "host", "process", "threads", "started", "seen", "done", "state"):
        table.add_column(heading, overflow="fold", no_wrap=heading != "worker")
    seen_now = datetime.fromtimestamp(now, UTC)
    for report in reports:
        ago = took(seen_now - timedelta(seconds=max(now - report.seen_at, 0.0)), seen_now)
        table.add_row(
            one_line(report.owner),
            one_line(report.host),
            str(report.process),
            str(report.threads),
            instant(datetime.fromtimestamp(report.started_at, UTC)),
            f"{ago} ago",
            str(report.performed),
            _state(report, now),
        )
    return table


def _state(report: WorkerReport, now: float) -> Text:
    if not is_alive(report, now):
        return Text("silent", style="bold red")
    if report.draining:
        return Text(f"draining, {len(report.running)} left", style="yellow")
    if report.running:
        return Text(f"busy with {len(report.running)}", style="blue")
    return Text("idle", style="green")
