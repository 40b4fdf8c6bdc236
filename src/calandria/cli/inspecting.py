"""`calandria runs` and `calandria show`: looking at runs."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import islice
from typing import Annotated

import typer

from calandria.cli.arguments import read_instant
from calandria.cli.as_data import run_data, run_details, step_tree_data, trace_data
from calandria.cli.console import err, out, print_block, print_json
from calandria.cli.loading import import_modules
from calandria.cli.opening import advice_to_load, has_reactor, open_existing_runtime
from calandria.cli.options import AsJson, GlobalOptions, Modules, RunId
from calandria.cli.report import run_header, runs_table, trace_table
from calandria.cli.step_tree import step_tree
from calandria.runtime.runtime import runs as list_runs
from calandria.statuses import RunStatus


def runs(
    context: typer.Context,
    reactor: Annotated[
        str | None, typer.Option(metavar="MODULE:REACTOR", help="Only runs of this reactor.")
    ] = None,
    status: Annotated[
        list[RunStatus] | None, typer.Option(help="Only runs with this status. Repeatable.")
    ] = None,
    needs_attention: Annotated[
        bool,
        typer.Option(
            "--needs-attention",
            help="Only runs someone must look at: aborted, or with something left to roll back.",
        ),
    ] = False,
    idempotency_key: Annotated[
        str | None, typer.Option(metavar="KEY", help="Only the run with this key.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="WHEN", help="Only runs created since: 2h, 7d, or an instant (UTC)."),
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="WHEN", help="Only runs created until then.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most this many, newest first.")] = 50,
    modules: Modules = None,
    as_json: AsJson = False,
) -> None:
    """List runs, newest first."""
    options: GlobalOptions = context.obj
    now = datetime.now(UTC)
    earliest = None if since is None else read_instant(since, "--since", now)
    latest = None if until is None else read_instant(until, "--until", now)
    import_modules(modules or ())
    with open_existing_runtime(options) as runtime:
        found = list_runs(
            reactor=reactor,
            status=status or None,
            needs_attention=needs_attention,
            idempotency_key=idempotency_key,
            since=earliest,
            until=latest,
            runtime=runtime,
        )
        listed = list(islice(found, limit + 1))
        if as_json:
            print_json([run_data(run) for run in listed[:limit]])
        elif not listed:
            err().print("No runs.")
        else:
            print_block(out(), runs_table(listed[:limit]))
            if len(listed) > limit:
                err().print(f"There are more than these {limit}; --limit shows them.")


def show(
    context: typer.Context,
    run_id: RunId,
    trace: Annotated[bool, typer.Option("--trace", help="Also every event, in order.")] = False,
    elements: Annotated[
        int, typer.Option(min=0, help="At most this many elements of each map.")
    ] = 10,
    modules: Modules = None,
    as_json: AsJson = False,
) -> None:
    """Show one run: its steps, what became of them, and what is left to do."""
    options: GlobalOptions = context.obj
    import_modules(modules or ())
    with open_existing_runtime(options) as runtime:
        run = runtime.find(run_id)
        if as_json:
            data = {**run_details(run), "steps": step_tree_data(run)}
            if trace:
                data["trace"] = [trace_data(entry) for entry in run.trace]
            print_json(data)
            return
        console = out()
        print_block(console, run_header(run))
        if not has_reactor(run):
            err().print(
                f"Its reactor is not loaded, so every value is hidden: {advice_to_load(run)}.",
                soft_wrap=True,
            )
        console.print()
        print_block(console, step_tree(run, elements=elements))
        if trace:
            console.print()
            print_block(console, trace_table(run.trace))
