"""`calandria draw` and `calandria check`: looking at reactors."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from enum import Enum
from typing import Annotated

import typer

from calandria.cli.console import err, one_line, out, print_json
from calandria.cli.declared import Declaration, declarations, unknown_limit
from calandria.cli.exits import CommandError, ExitCode
from calandria.cli.loading import import_module, import_modules, load_reactor, reactors_in
from calandria.cli.opening import find_with_reactor, open_existing_runtime
from calandria.cli.options import AsJson, GlobalOptions, Modules
from calandria.definition.reactors import Reactor
from calandria.errors import DefinitionError
from calandria.plan.drawing import draw as draw_plan
from calandria.runtime.fitting import UnfinishableRun
from calandria.runtime.runtime import default_runtime


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
    context: typer.Context,
    modules: Annotated[list[str], typer.Argument(metavar="MODULE...", help="Modules to check.")],
    with_runs: Annotated[
        bool,
        typer.Option(
            "--runs", help="Also look for runs under way that these modules could not finish."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check every reactor defined in the modules given, and the runs that are under way."""
    findings = [finding for module in modules for finding in _check_module(module)]
    if with_runs:
        findings += _check_runs(context.obj, modules)
    if as_json:
        print_json([finding.data() for finding in findings])
    else:
        for finding in findings:
            if finding.error is None:
                out().print(f"ok  {finding.subject}", soft_wrap=True)
                for declared in finding.coordination:
                    out().print(one_line(f"      {declared.told()}"), soft_wrap=True)
            else:
                err().print(f"Error: {finding.told()}", soft_wrap=True)
    if any(finding.error is not None for finding in findings):
        raise typer.Exit(ExitCode.USAGE)


@dataclass(frozen=True)
class Finding:
    """What was found of a module, a reactor or a run; without an error it is right."""

    subject: str
    error: str | None
    run: UnfinishableRun | None = None
    coordination: tuple[Declaration, ...] = ()

    def told(self) -> str:
        """Return it as one line."""
        where = f"run {self.run.run_id} ({self.run.status.value}) of " if self.run else ""
        return one_line(f"{where}{self.subject}: {self.error}")

    def data(self) -> dict[str, object]:
        """Return it for `--json`."""
        return {
            "subject": self.subject,
            "error": self.error,
            "run": self.run.run_id if self.run else None,
            "status": self.run.status.value if self.run else None,
            "steps": list(self.run.steps) if self.run else [],
            "coordination": [declared.data() for declared in self.coordination],
        }


def _check_module(name: str) -> list[Finding]:
    try:
        reactors = reactors_in(import_module(name))
    except CommandError as error:
        return [Finding(name, str(error))]
    if not reactors:
        return [Finding(name, "no reactor is defined in this module.")]
    findings: list[Finding] = []
    for reactor in reactors:
        findings.append(_check_reactor(f"{name}:{reactor.__qualname__}", reactor))
    return findings


def _check_reactor(subject: str, reactor: type[Reactor]) -> Finding:
    try:
        reactor.check()
    except DefinitionError as error:
        return Finding(subject, str(error))
    definition = reactor.definition()
    declared = tuple(declarations(definition))
    return Finding(
        subject, unknown_limit(definition, default_runtime().settings), coordination=declared
    )


def _check_runs(options: GlobalOptions, modules: list[str]) -> list[Finding]:
    loaded = [sys.modules[name] for name in modules if name in sys.modules]
    reactors = [reactor for module in loaded for reactor in reactors_in(module)]
    with open_existing_runtime(options) as runtime:
        return [
            Finding(found.reactor, found.reason, found)
            for found in runtime.unfinishable_runs(reactors)
        ]
