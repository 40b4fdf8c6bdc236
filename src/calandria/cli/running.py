"""`calandria run`: run a reactor and tell what it came to."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from calandria.cli.arguments import read_inputs
from calandria.cli.as_data import outcome_of, result_data
from calandria.cli.console import brief, err, out, print_json
from calandria.cli.exits import ExitCode
from calandria.cli.loading import import_modules, load_reactor
from calandria.cli.opening import open_runtime
from calandria.cli.options import AsJson, GlobalOptions, Modules
from calandria.cli.progress import Watch
from calandria.cli.report import failure_line, rollback_lines
from calandria.cli.worker_report import is_alive
from calandria.definition.node_definition import ReactorDefinition
from calandria.definition.reactors import BoundReactor
from calandria.jobs.embedded import EmbeddedJobs
from calandria.results import Dispatched, Failure, Halt, Paused, Result, Skipped, Success
from calandria.runtime.runtime import Runtime


def run(
    context: typer.Context,
    reactor: Annotated[str, typer.Argument(metavar="MODULE:REACTOR", help="The reactor to run.")],
    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            "-i",
            metavar="NAME=VALUE",
            help="An input: JSON if the value is that, else text. Repeatable.",
        ),
    ] = None,
    input_json: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Inputs as a JSON object; - reads standard input."),
    ] = None,
    idempotency_key: Annotated[
        str | None,
        typer.Option(metavar="KEY", help="Run once under this key; later calls get the result."),
    ] = None,
    modules: Modules = None,
    as_json: AsJson = False,
) -> None:
    """Run a reactor in this process."""
    options: GlobalOptions = context.obj
    import_modules(modules or ())
    found = load_reactor(reactor)
    values = read_inputs(inputs or (), input_json)
    watch = Watch()
    with open_runtime(options, watch) as runtime:
        bound: BoundReactor[...] = found.options(idempotency_key=idempotency_key, runtime=runtime)
        try:
            with watch.shown():
                result = bound.run(**values)
        except (KeyboardInterrupt, SystemExit):
            if watch.run_id is None:
                raise
            err().print(
                f"Interrupted: run {watch.run_id} is aborted. Undo it when it suits.",
                soft_wrap=True,
            )
            raise typer.Exit(ExitCode.INTERRUPTED) from None
        tell_result(result, found.definition(), as_json=as_json)
        if not as_json and isinstance(result, Dispatched) and _lies_idle(runtime, result.run_id):
            module = reactor.partition(":")[0]
            err().print(f"No worker is alive. Start one: calandria worker {module}", soft_wrap=True)


def _lies_idle(runtime: Runtime, run_id: str) -> bool:
    """Tell whether a run waits for workers of which none is alive."""
    if not isinstance(runtime.jobs, EmbeddedJobs) or runtime.find(run_id).lease_owner is not None:
        return False
    now = runtime.services.clock.now()
    return not any(is_alive(report, now) for report in runtime.job_store.list_workers())


def tell_result(
    result: Result[Any], definition: ReactorDefinition | None, *, as_json: bool
) -> None:
    """Write what a run came to; raises `typer.Exit` unless all is well.

    Without the definition of its reactor nobody knows what is redacted: its value is not shown.
    """
    value = _shown_value(result, definition)
    if as_json:
        print_json(result_data(result, value))
    elif isinstance(result, Failure):
        _explain_failure(result, definition)
    else:
        _tell_success(result, value)
    code = exit_code_of_result(result)
    if code is not ExitCode.OK:
        raise typer.Exit(code)


def exit_code_of_result(result: Result[Any]) -> ExitCode:
    """Return the exit code for what a run came to."""
    if not isinstance(result, Failure):
        return ExitCode.OK
    if result.run_id is None:
        return ExitCode.USAGE
    return ExitCode.INCOMPLETE if result.rollback_failures else ExitCode.FAILED


def _shown_value(result: Result[Any], definition: ReactorDefinition | None) -> object:
    if not isinstance(result, (Success, Skipped)):
        return None
    if definition is None or definition.redaction(definition.contract.redacted).returns:
        return "[REDACTED]"
    return result.value


def _tell_success(result: Result[Any], value: object) -> None:
    console = out()
    line = f"{outcome_of(result)}  {result.run_id}"
    if isinstance(result, Halt) and result.reason:
        line += f"  {brief(result.reason)}"
    if isinstance(result, Paused):
        line += f"  waits for {', '.join(result.interrupts)}"
    console.print(line, soft_wrap=True)
    if value is not None:
        console.print(brief(value, 10_000), soft_wrap=True)


def _explain_failure(failure: Failure, definition: ReactorDefinition | None) -> None:
    console = err()
    name = failure.reactor or (definition.name if definition else "The run")
    if failure.run_id is None:
        why = "its inputs are invalid." if failure.validation_errors else failure_line(failure)
        console.print(f"Error: {name} was not run: {why}", soft_wrap=True)
        for field, messages in failure.validation_errors.items():
            for message in messages:
                console.print(f"  {brief(field)}: {brief(message)}", soft_wrap=True)
        return
    left = len(failure.rollback_failures)
    rollback = f"; its rollback left {left} behind" if left else ""
    console.print(f"failed  {failure.run_id}  {failure_line(failure)}{rollback}", soft_wrap=True)
    for line in rollback_lines(failure.rollback_failures):
        console.print(f"  {line}", soft_wrap=True)
