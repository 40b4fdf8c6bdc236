"""`calandria migrate` and `calandria prune`: looking after the storage."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from calandria.cli.arguments import read_duration
from calandria.cli.console import out, print_json
from calandria.cli.exits import CommandError
from calandria.cli.opening import open_existing_runtime, storage_url
from calandria.cli.options import AsJson, GlobalOptions
from calandria.runtime.runtime import Runtime
from calandria.runtime.runtime import runs as list_runs
from calandria.statuses import FINISHED, RunStatus
from calandria.storage import open_store


def migrate(context: typer.Context, as_json: AsJson = False) -> None:
    """Bring the storage's schema up to this version's."""
    options: GlobalOptions = context.obj
    store = open_store(storage_url(options))
    try:
        applied = list(store.migrate())
    finally:
        store.close()
    if as_json:
        print_json({"applied": applied})
    elif applied:
        out().print(f"Applied migrations {', '.join(str(number) for number in applied)}.")
    else:
        out().print("The schema is up to date.")


def prune(
    context: typer.Context,
    older_than: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="How long ago a run must have finished: 36h, 30d, 8w. "
            "Default: $CALANDRIA_RETENTION.",
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count them.")] = False,
    as_json: AsJson = False,
) -> None:
    """Delete finished runs. Runs that need attention, and idempotency keys, are kept."""
    options: GlobalOptions = context.obj
    age = None if older_than is None else read_duration(older_than, "--older-than")
    with open_existing_runtime(options) as runtime:
        if age is None and runtime.settings.retention is not None:
            age = timedelta(seconds=float(runtime.settings.retention))  # type: ignore[arg-type]
        if age is None:
            raise CommandError("prune: say how old with --older-than, for example 30d.")
        count = _count_prunable(runtime, age) if dry_run else runtime.prune(age)
    if as_json:
        print_json({"runs": count, "deleted": not dry_run})
    else:
        verb = "would be deleted" if dry_run else "deleted"
        out().print(f"{count} runs {verb}.")


def _count_prunable(runtime: Runtime, age: timedelta) -> int:
    finished_before = datetime.now(UTC) - age
    statuses = sorted(FINISHED - {RunStatus.ABORTED})
    return sum(
        run.finished_at is not None
        and run.finished_at < finished_before
        and not run.needs_attention
        for run in list_runs(status=statuses, until=finished_before, runtime=runtime)
    )
