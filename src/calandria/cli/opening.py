"""Opening the storage a command works on, and finding the run it is about."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from calandria.cli.exits import CommandError, ExitCode
from calandria.cli.options import GlobalOptions
from calandria.cli.progress import Watch
from calandria.ports.middleware import MiddlewareFactory
from calandria.ports.run_store import RunStore
from calandria.runtime.immediate import ImmediateJobs
from calandria.runtime.run import Run
from calandria.runtime.runtime import Runtime, default_runtime
from calandria.runtime.units import stored_definition
from calandria.telemetry import LoggingMiddleware, configure_logging

_SQLITE = "sqlite:///"


@contextmanager
def open_runtime(options: GlobalOptions, watch: Watch | None = None) -> Iterator[Runtime]:
    """Open the storage that was named, or that an imported module or the environment configures.

    Middleware and settings that a module configured stay in force.
    """
    configured = default_runtime()
    middleware: list[MiddlewareFactory] = [*configured.middleware]
    if watch is not None:
        middleware.append(watch.middleware)
    if options.log is not None:
        configure_logging(options.log, "DEBUG" if options.verbose else "INFO")
        middleware.append(LoggingMiddleware)
    storage = _storage_of(configured) if options.storage is None else options.storage
    jobs = "immediate" if isinstance(configured.jobs, ImmediateJobs) else "embedded"
    runtime = Runtime(storage, jobs=jobs, middleware=middleware, settings=configured.settings)
    if options.storage is None:
        runtime.storage_url = configured.storage_url
    with runtime:
        yield runtime


def _storage_of(configured: Runtime) -> str | RunStore:
    # by its URL where it is a file, so that workers elsewhere are woken; a memory is an object
    is_file = configured.storage_url.startswith(_SQLITE)
    return configured.storage_url if is_file else configured.services.store


@contextmanager
def open_existing_runtime(options: GlobalOptions, watch: Watch | None = None) -> Iterator[Runtime]:
    """Open the storage like `open_runtime`, for a command that is about runs already there.

    Raises `CommandError` for an SQLite file that does not exist: a mistyped path must not look
    like a storage without runs.
    """
    url = storage_url(options)
    if is_missing_file(url):
        raise CommandError(
            f"There is no storage at {url}: name it with --storage or CALANDRIA_STORAGE.",
            ExitCode.STORAGE,
        )
    with open_runtime(options, watch) as runtime:
        yield runtime


def is_missing_file(url: str) -> bool:
    """Tell whether a storage is an SQLite file that does not exist."""
    return url.startswith(_SQLITE) and not Path(url.removeprefix(_SQLITE)).exists()


def storage_url(options: GlobalOptions) -> str:
    """Return where runs are kept."""
    return default_runtime().storage_url if options.storage is None else options.storage


def find_with_reactor(runtime: Runtime, run_id: str) -> Run:
    """Return a run whose reactor is loaded.

    Raises `CommandError` saying which module to name if it is not, `UnknownRun` if there is no
    such run.
    """
    run = runtime.find(run_id)
    if not has_reactor(run):
        raise CommandError(
            f"Run {run_id} is of {run.reactor}, which is not loaded: {advice_to_load(run)}."
        )
    return run


def has_reactor(run: Run) -> bool:
    """Tell whether the reactor of a run is loaded."""
    return stored_definition(run.reactor) is not None


def advice_to_load(run: Run) -> str:
    """Return what to do about a reactor that is not loaded."""
    module = run.reactor.partition(":")[0]
    if module == "__main__":
        return "it was declared in the script that ran it; declare it in a module to import"
    return f"name its module with --module {module}"
