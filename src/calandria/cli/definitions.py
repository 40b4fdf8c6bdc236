"""`calandria draw` and `calandria check`: looking at reactors."""

from __future__ import annotations

import sys
from enum import Enum
from typing import Annotated

import typer

from calandria.cli.console import err, one_line, out, print_json
from calandria.cli.exits import CommandError, ExitCode
from calandria.cli.loading import import_module, import_modules, load_reactor, reactors_in
from calandria.cli.opening import find_with_reactor, open_existing_runtime
from calandria.cli.options import AsJson, GlobalOptions, Modules
from calandria.errors import DefinitionError
from calandria.plan.drawing import draw as draw_plan


class DrawFormat(str, Enum):
    """The formats of pictures."""

    TEXT = "text"
    MERMAID = "mermaid"
    SVG = "svg"


def draw(
    context: typer.Context,
    subject: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:REACTOR|RUN", help="A reactor, or a run to draw with its statuses."
        ),
    ],
    format: Annotated[DrawFormat, typer.Option(help="What to draw as.")] = DrawFormat.TEXT,
    modules: Modules = None,
) -> None:
    """Draw a reactor, or a run, to standard output."""
    import_modules(modules or ())
    if ":" in subject:
        picture = draw_plan(load_reactor(subject).definition().plan, format.value)
    else:
        options: GlobalOptions = context.obj
        with open_existing_runtime(options) as runtime:
            picture = find_with_reactor(runtime, subject).draw(format.value)
    out()  # sets standard output up for characters it may lack
    sys.stdout.write(picture)


def check(
    modules: Annotated[list[str], typer.Argument(metavar="MODULE...", help="Modules to check.")],
    as_json: AsJson = False,
) -> None:
    """Check every reactor defined in the modules given."""
    findings = [finding for module in modules for finding in _check_module(module)]
    if as_json:
        print_json([{"subject": subject, "error": error} for subject, error in findings])
    else:
        for subject, error in findings:
            if error is None:
                out().print(f"ok  {subject}", soft_wrap=True)
            else:
                err().print(f"Error: {subject}: {one_line(error)}", soft_wrap=True)
    if any(error is not None for _, error in findings):
        raise typer.Exit(ExitCode.USAGE)


def _check_module(name: str) -> list[tuple[str, str | None]]:
    try:
        reactors = reactors_in(import_module(name))
    except CommandError as error:
        return [(name, str(error))]
    if not reactors:
        return [(name, "no reactor is defined in this module.")]
    findings: list[tuple[str, str | None]] = []
    for reactor in reactors:
        subject = f"{name}:{reactor.__qualname__}"
        try:
            reactor.check()
            findings.append((subject, None))
        except DefinitionError as error:
            findings.append((subject, str(error)))
    return findings
