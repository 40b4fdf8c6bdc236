"""`calandria worker`, `workers` and `sweep`: background work."""

from __future__ import annotations

import dataclasses
import logging
import os
import sys
from typing import Annotated

import typer

from calandria.cli.arguments import read_seconds
from calandria.cli.as_data import worker_data
from calandria.cli.console import err, out, print_block, print_json
from calandria.cli.exits import CommandError, ExitCode
from calandria.cli.loading import import_modules
from calandria.cli.opening import is_missing_file, open_existing_runtime, open_runtime
from calandria.cli.options import AsJson, GlobalOptions
from calandria.cli.stopping import StopRequests, tell
from calandria.cli.watching import Supervisor, worker_command
from calandria.cli.worker_report import is_alive, workers_table
from calandria.runtime.runtime import Runtime
from calandria.runtime.worker import Worker

WINDING_DOWN = 1.0
"""Seconds for steps that were told to stop, before the process ends under them."""


def worker(
    context: typer.Context,
    modules: Annotated[
        list[str],
        typer.Argument(metavar="MODULE...", help="The modules whose reactors it can work on."),
    ],
    threads: Annotated[
        int, typer.Option(min=1, help="How many runs it works on at the same time.")
    ] = 4,
    drain: Annotated[
        str,
        typer.Option(
            metavar="DURATION",
            help="How long runs under way may go on after SIGTERM or SIGINT: 30 (seconds), 5m.",
        ),
    ] = "30s",
    watch: Annotated[
        bool,
        typer.Option("--watch", help="Start anew when a .py file changes. For development."),
    ] = False,
) -> None:
    """Work on runs in the background, until SIGTERM or SIGINT; a second one ends it at once."""
    options: GlobalOptions = context.obj
    seconds = read_seconds(drain, "--drain")
    if watch:
        command = worker_command(options, modules, threads, drain)
        raise typer.Exit(Supervisor(command, modules, seconds).run())
    # before anything else: as process 1 of a container it would not even hear the signals
    with StopRequests() as stops:
        import_modules(modules)
        with open_runtime(_logged(options)) as runtime:
            working = _start(runtime, threads, modules)
            _drain(working, stops.wait(), seconds)


def _logged(options: GlobalOptions) -> GlobalOptions:
    """A worker tells what it does, unless a module has set logging up itself."""
    if options.log is not None or logging.getLogger("calandria").hasHandlers():
        return options
    return dataclasses.replace(options, log="key-value")


def _start(runtime: Runtime, threads: int, modules: list[str]) -> Worker:
    url = runtime.storage_url
    if url.startswith("memory:"):
        raise CommandError(
            f"The storage {url} is in this process's memory, where nobody else can put work: "
            "name a file with --storage or CALANDRIA_STORAGE."
        )
    if is_missing_file(url):
        tell(logging.WARNING, "worker.new_storage", storage=url)
    working = runtime.start_worker(threads)
    tell(
        logging.INFO,
        "worker.started",
        process=os.getpid(),
        threads=threads,
        storage=url,
        modules=",".join(modules),
    )
    return working


def _drain(working: Worker, asked_by: str, seconds: float) -> None:
    tell(
        logging.INFO,
        "worker.draining",
        signal=asked_by,
        seconds=seconds,
        running=len(working.running),
    )
    if working.stop(seconds) or working.stop(WINDING_DOWN):
        tell(logging.INFO, "worker.stopped", performed=working.performed)
        return
    for run_id in working.running:
        tell(logging.ERROR, "worker.cut_off", run=run_id)
    logging.shutdown()
    sys.stdout.flush()
    # a step that does not end would keep the interpreter from ending
    os._exit(ExitCode.CUT_OFF)


def workers(
    context: typer.Context,
    host: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only workers on this host.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List workers, what they do and whether they are alive; exit code 3 if none is."""
    options: GlobalOptions = context.obj
    with open_existing_runtime(options) as runtime:
        now = runtime.services.clock.now()
        found = [
            report
            for report in runtime.job_store.list_workers()
            if host is None or report.host == host
        ]
    if as_json:
        print_json([worker_data(report, alive=is_alive(report, now)) for report in found])
    elif found:
        print_block(out(), workers_table(found, now))
    else:
        err().print("No workers.")
    if not any(is_alive(report, now) for report in found):
        raise typer.Exit(ExitCode.NOT_FOUND)


def sweep(context: typer.Context, as_json: AsJson = False) -> None:
    """Put runs back to work that lost their process or their job: one pass."""
    options: GlobalOptions = context.obj
    with open_existing_runtime(options) as runtime:
        found = runtime.sweep()
    if as_json:
        print_json({"runs": found})
    else:
        out().print(f"{found} runs put back to work.")
