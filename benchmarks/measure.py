"""How the benchmarks measure: one process per contestant, taking turns, best of several rounds."""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parent.parent
NOT_INSTALLED = "not installed"
REDIS_URL = os.environ.get("CALANDRIA_BENCH_REDIS", "redis://127.0.0.1:6379/0")


class Stopwatch:
    """Seconds of wall clock and of CPU (every thread of this process) between enter and exit."""

    wall: float = 0.0
    cpu: float = 0.0


@contextmanager
def stopwatch() -> Iterator[Stopwatch]:
    """Measure a block."""
    watch = Stopwatch()
    wall, cpu = time.perf_counter(), time.process_time()
    yield watch
    watch.cpu = time.process_time() - cpu
    watch.wall = time.perf_counter() - wall


def peak_memory() -> float:
    """Return the most memory this process has had resident, in MiB.

    On Linux it is read for this program alone: `ru_maxrss` would count what the parent process
    had resident when it started this one.
    """
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
        (kib,) = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")]
        return int(kib) / 1024
    except (OSError, ValueError):
        unit = 1024**2 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def in_process(module: str, *arguments: str) -> dict[str, float]:
    """Run `python -m module arguments` and return the JSON object on its last line."""
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def options(about: str) -> argparse.Namespace:
    """Parse the options every benchmark has."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--quick", action="store_true", help="a tenth of the dose; rough figures")
    parser.add_argument("--json", action="store_true", help="print one JSON object and no table")
    return parser.parse_args()


def require_peer() -> None:
    """Exit with a message unless DBOS, which the figures are compared with, is installed."""
    if _version_or_none("dbos") == NOT_INSTALLED:
        raise SystemExit("DBOS is not installed: pip install -e '.[bench]', or run `make bench`.")


def environment() -> dict[str, str]:
    """Return what the figures depend on: versions, processor, number of cores."""
    return {
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "calandria": version("calandria"),
        "dbos": _version_or_none("dbos"),
        "celery": _version_or_none("celery"),
        "pydantic": version("pydantic"),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()}",
    }


def show(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table, with the versions it was measured with."""
    table = Table(title=title, title_justify="left", caption=_caption(), caption_justify="left")
    for number, name in enumerate(header):
        table.add_column(name, justify="left" if number == 0 else "right")
    for row in rows:
        table.add_row(*row)
    width = None if sys.stdout.isatty() else 120  # not folded when the output is kept in a file
    Console(highlight=False, width=width).print(table)


def _caption() -> str:
    return ", ".join(
        value if name == "machine" else f"{name} {value}" for name, value in environment().items()
    )


def _version_or_none(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return NOT_INSTALLED
