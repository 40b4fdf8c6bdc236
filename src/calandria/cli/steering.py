"""`calandria wait`, `undo`, `cancel` and `recover`: acting on a run."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from calandria.cli.arguments import read_seconds
from calandria.cli.as_data import run_details
from calandria.cli.console import out, print_json
from calandria.cli.loading import import_modules
from calandria.cli.opening import find_with_reactor, open_existing_runtime
from calandria.cli.options import AsJson, GlobalOptions, Modules, RunId
from calandria.cli.progress import Watch
from calandria.cli.report import run_status
from calandria.cli.running import tell_result
from calandria.runtime.run import Run
from calandria.runtime.units import stored_definition
from calandria.statuses import FINISHED, RollbackState


def wait(
    context: typer.Context,
    run_id: RunId,
    timeout: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION", help="How long at most: 30 (seconds), 5m. Default: no limit."
        ),
    ] = None,
    modules: Modules = None,
    as_json: AsJson = False,
) -> None:
    """Wait until a run has ended or is paused, and tell what it came to."""
    options: GlobalOptions = context.obj
    seconds = None if timeout is None else read_seconds(timeout, "--timeout")
    import_modules(modules or ())
    with open_existing_runtime(options) as runtime:
        run = runtime.find(run_id)
        result = run.wait(seconds)
        tell_result(result, stored_definition(run.reactor), as_json=as_json)


def undo(
    context: typer.Context, run_id: RunId, modules: Modules = None, as_json: AsJson = False
) -> None:
    """Undo what a run did, newest step first; again, to finish a rollback that left something."""
    options: GlobalOptions = context.obj
    import_modules(modules or ())
    watch = Watch()
    with open_existing_runtime(options, watch) as runtime:
        run = find_with_reactor(runtime, run_id)
        with watch.shown():
            run.undo()
        _tell_run(run, "undone", as_json=as_json)


def cancel(
    context: typer.Context,
    run_id: RunId,
    reason: Annotated[str, typer.Option(help="Why; it is recorded.")] = "",
    modules: Modules = None,
    as_json: AsJson = False,
) -> None:
    """Stop a run and keep what it did."""
    options: GlobalOptions = context.obj
    import_modules(modules or ())
    with open_existing_runtime(options) as runtime:
        run = runtime.find(run_id)
        if run.lease_owner is None:
            # nobody executes it: it is cancelled here, which takes its reactor
            find_with_reactor(runtime, run_id)
        run.cancel(reason)
        stopped = run.status in FINISHED
        _tell_run(run, "cancelled" if stopped else "asked its owner to stop", as_json=as_json)


def recover(
    context: typer.Context, run_id: RunId, modules: Modules = None, as_json: AsJson = False
) -> None:
    """Take up a run whose process died, and go on with it here."""
    options: GlobalOptions = context.obj
    import_modules(modules or ())
    watch = Watch()
    with open_existing_runtime(options, watch) as runtime:
        run = find_with_reactor(runtime, run_id)
        with watch.shown():
            result = run.recover()
        tell_result(result, stored_definition(run.reactor), as_json=as_json)


def _tell_run(run: Run, verb: str, *, as_json: bool) -> None:
    if as_json:
        print_json(run_details(run))
    else:
        line = Text(f"{verb}  {run.id}  ").append_text(run_status(run))
        if run.rollback is not RollbackState.NONE:
            line.append(f", rollback {run.rollback.value}")
        out().print(line, soft_wrap=True)
