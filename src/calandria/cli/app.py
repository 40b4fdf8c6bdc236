"""The `calandria` command: its global options and its commands."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from calandria.cli import definitions, inspecting, keeping, running, steering, working
from calandria.cli.group import Commands
from calandria.cli.keys import keys
from calandria.cli.options import GlobalOptions

app = typer.Typer(
    cls=Commands,
    name="calandria",
    help="Run reactors, look at runs, undo what they did.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


@app.callback()
def global_options(
    context: typer.Context,
    storage: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Where runs are kept: sqlite:///path. Default: what the imported module "
            "configures, else $CALANDRIA_STORAGE, else sqlite:///calandria.db.",
        ),
    ] = None,
    log: Annotated[
        Literal["key-value", "json"] | None,
        typer.Option(help="Log what runs do to standard error.", show_default=False),
    ] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Log also what is at level DEBUG.")
    ] = False,
    traceback: Annotated[
        bool, typer.Option("--traceback", help="Show the traceback of an error.")
    ] = False,
) -> None:
    """Run reactors, look at runs, undo what they did."""
    context.obj = GlobalOptions(storage, log, verbose=verbose, traceback=traceback)


app.command("run")(running.run)
app.command("runs")(inspecting.runs)
app.command("show")(inspecting.show)
app.command("wait")(steering.wait)
app.command("undo")(steering.undo)
app.command("cancel")(steering.cancel)
app.command("recover")(steering.recover)
app.command("worker")(working.worker)
app.command("workers")(working.workers)
app.command("sweep")(working.sweep)
app.add_typer(keys, name="keys")
app.command("draw")(definitions.draw)
app.command("check")(definitions.check)
app.command("migrate")(keeping.migrate)
app.command("prune")(keeping.prune)
