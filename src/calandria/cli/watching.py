"""`calandria worker --watch`: a worker process that is started anew when a file changes."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from types import FrameType

from calandria.cli.console import err
from calandria.cli.options import GlobalOptions
from calandria.cli.stopping import STOP_SIGNALS

POLL = 0.5
"""Seconds between two looks at the files."""
_NEVER_WATCHED = frozenset({"__pycache__", "node_modules", "site-packages"})


def worker_command(
    options: GlobalOptions, modules: Sequence[str], threads: int, drain: str
) -> list[str]:
    """Return the command of the worker process."""
    command = [sys.executable, "-m", "calandria"]
    if options.storage is not None:
        command += ["--storage", options.storage]
    if options.log is not None:
        command += ["--log", options.log]
    command += ["--verbose"] * options.verbose + ["--traceback"] * options.traceback
    return [*command, "worker", *modules, "--threads", str(threads), "--drain", drain]


def watched_files(modules: Sequence[str]) -> Iterator[Path]:
    """Yield the Python files that belong with the modules.

    Those below the directory that each one's top package stands in; of an installed package
    those of the package itself.
    """
    for root in {_root_of(module) for module in modules} - {None}:
        assert root is not None
        yield from _python_files(root)


def _root_of(module: str) -> Path | None:
    spec = importlib.util.find_spec(module.partition(".")[0])
    if spec is None:
        return None
    locations = [*spec.submodule_search_locations] if spec.submodule_search_locations else []
    package = Path(locations[0]) if locations else None
    place = package or (Path(spec.origin) if spec.origin else None)
    if place is None:
        return None
    installed = {Path(sysconfig.get_path(name)) for name in ("purelib", "platlib", "stdlib")}
    if any(place.is_relative_to(path) for path in installed):
        return place
    return place.parent


def _python_files(root: Path) -> Iterator[Path]:
    if root.is_file():
        yield root
        return
    for directory, below, names in os.walk(root):
        below[:] = [name for name in below if _is_watched(Path(directory, name))]
        yield from (Path(directory, name) for name in names if name.endswith(".py"))


def _is_watched(directory: Path) -> bool:
    name = directory.name
    hidden = name.startswith(".") or name in _NEVER_WATCHED
    return not hidden and not (directory / "pyvenv.cfg").exists()


class Supervisor:
    """Runs a command as a process, and starts it anew whenever a watched file changes.

    A process that ends by itself (a module with an error in it) is started again with the next
    change. SIGTERM and SIGINT are passed on, and end the supervisor with the process.
    """

    def __init__(self, command: Sequence[str], modules: Sequence[str], drain: float) -> None:
        self._command = list(command)
        self._modules = list(modules)
        self._drain = drain
        self._signals: SimpleQueue[int] = SimpleQueue()
        working_directory = os.getcwd()
        if working_directory not in sys.path:
            sys.path.insert(0, working_directory)

    def run(self) -> int:
        """Supervise until a signal asks to stop; return the last process's exit code."""
        for one in STOP_SIGNALS:
            signal.signal(one, self._handle)
        seen = self._times()
        process = self._start()
        while True:
            try:
                return self._stop(process, self._signals.get(timeout=POLL))
            except Empty:
                found = self._times()
            if found == seen:
                continue
            changed = sorted(str(path) for path, _ in found.items() ^ seen.items())
            err().print(f"{changed[0]} has changed: starting anew.", soft_wrap=True)
            seen = found
            self._end(process)
            process = self._start()

    def _times(self) -> dict[Path, int]:
        times: dict[Path, int] = {}
        importlib.invalidate_caches()
        for path in watched_files(self._modules):
            try:
                times[path] = path.stat().st_mtime_ns
            except OSError:  # an editor is just replacing it
                continue
        return times

    def _start(self) -> subprocess.Popen[bytes]:
        # in a group of its own: Ctrl-C reaches it once, from here, and not twice
        return subprocess.Popen(self._command, process_group=0)

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        process.terminate()
        try:
            process.wait(self._drain + 5.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _stop(self, process: subprocess.Popen[bytes], number: int) -> int:
        if process.poll() is not None:
            return 0
        process.send_signal(number)
        while process.poll() is None:
            try:
                process.send_signal(self._signals.get(timeout=POLL / 5))
            except Empty:
                continue
        return 128 - process.returncode if process.returncode < 0 else process.returncode

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._signals.put(number)
