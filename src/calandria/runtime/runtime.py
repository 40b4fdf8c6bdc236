"""`Runtime`: one storage, one codec, one set of threads; and the process's default one."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from datetime import timedelta
from types import TracebackType
from typing import Any, TypeVar, cast

from calandria.codec import JsonCodec, TypeRegistry
from calandria.definition.node_definition import ReactorDefinition
from calandria.definition.reactors import Reactor
from calandria.errors import CalandriaError, UnknownRun
from calandria.jobs.embedded import EmbeddedJobs
from calandria.jobs.wakeups import Wakeups, wake_directory
from calandria.plan.model import NodeKind
from calandria.ports.clock import Clock, SystemClock
from calandria.ports.codec import Codec
from calandria.ports.jobs import JobBackend, JobStore
from calandria.ports.middleware import MiddlewareFactory
from calandria.ports.run_store import JobRequest, RunCursor, RunFilter, RunStore, StoredRun
from calandria.results import Dispatched, Result
from calandria.runtime.event_loop import BackgroundLoop
from calandria.runtime.fitting import UnfinishableRun, unfinishable_runs
from calandria.runtime.gates import Gates
from calandria.runtime.identifiers import owner_name
from calandria.runtime.immediate import ImmediateJobs
from calandria.runtime.leases import LeaseKeeper
from calandria.runtime.lookup import stored_name
from calandria.runtime.map_result import BoundCodec, register_map_result
from calandria.runtime.run import Run
from calandria.runtime.runner import Runner
from calandria.runtime.session import Services
from calandria.runtime.settings import Settings
from calandria.runtime.stored_results import stored_result
from calandria.runtime.threads import Threads, in_thread
from calandria.runtime.units import stored_definition
from calandria.runtime.worker import Worker
from calandria.statuses import RunStatus
from calandria.storage import open_store

logger = logging.getLogger("calandria.runtime")

T = TypeVar("T")

DEFAULT_STORAGE = "sqlite:///calandria.db"
PAGE = 200
MANY_THREADS = 10_000
"""A bound no process reaches: a nested wait must never be for a thread of its own pool."""
FEW_THREADS = 2
"""For short looks at the storage, however many wait for them on event loops."""

default_registry = TypeRegistry()
register_map_result(default_registry)

register = default_registry.register
"""Let a class of your own be recorded; `encode` and `decode` say how, `name` survives a move."""


class Runtime(AbstractContextManager["Runtime"]):
    """Everything that executing runs takes: open one explicitly, or use the process's default.

    As a context manager it is the default for the code inside, in every thread, and is closed at
    the end.

    Args:
        storage: a URL (`sqlite:///path`, `memory://`), or a run store. The default is
            `CALANDRIA_STORAGE`, or `sqlite:///calandria.db`.
        jobs: what carries work to workers: `"embedded"` (the storage itself), `"immediate"` (each
            job is performed by who causes it, for tests), or a job back end.
        middleware: classes, or callables, that make the hooks of each run.
        settings: defaults to what the environment says.
        clock: the time, for tests.

    Raises `CalandriaError` for settings out of range and `StorageError` for a wrong URL; the
    storage is opened at first use.
    """

    def __init__(
        self,
        storage: str | RunStore | None = None,
        *,
        jobs: str | JobBackend = "embedded",
        middleware: Sequence[MiddlewareFactory] = (),
        settings: Settings | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.settings = Settings.from_environment() if settings is None else settings
        if storage is None:
            storage = os.environ.get("CALANDRIA_STORAGE", DEFAULT_STORAGE)
        if isinstance(storage, str):
            self.storage_url = storage
            store = open_store(storage, sqlite_synchronous=self.settings.sqlite_synchronous)
        else:
            self.storage_url, store = type(storage).__name__, storage
        inner = JsonCodec(default_registry, self.settings.max_value_bytes)
        codec = BoundCodec(inner, store)
        records = JsonCodec(default_registry, sys.maxsize)
        self.services = Services(store, codec, records, clock or SystemClock(), self.settings)
        self.middleware = tuple(middleware)
        self.loop = BackgroundLoop()
        self.keeper = LeaseKeeper(store, self.settings.lease_seconds)
        self.gates = Gates(self)
        self.runner = Runner(self)
        self._releases = threading.Condition()
        self.workers: set[Worker] = set()
        self.wakeups = Wakeups(_wake_directory(self.storage_url))
        self.jobs = self._job_backend(jobs)
        self._owner = (os.getpid(), owner_name())
        self._threads = Threads(MANY_THREADS, "calandria")
        self._looking = Threads(FEW_THREADS, "calandria-look")
        self._prepared = False
        self._closed = False
        self._learned: weakref.WeakSet[ReactorDefinition] = weakref.WeakSet()
        self._outer: Runtime | None = None
        _runtimes.add(self)

    @property
    def store(self) -> RunStore:
        """The run store, made ready at first use."""
        self.prepare()
        return self.services.store

    @property
    def codec(self) -> Codec:
        """The codec of the journal."""
        return self.services.codec

    @property
    def owner(self) -> str:
        """The name under which this process holds leases; a forked child has its own."""
        pid, name = self._owner
        if pid != os.getpid():
            name = owner_name()
            self._owner = (os.getpid(), name)
        return name

    @property
    def pool(self) -> ThreadPoolExecutor:
        """The threads for bodies that may not run in the caller's, and for blocking calls."""
        return self._threads.pool

    def prepare(self) -> None:
        """Make the storage ready; raises `SchemaOutdated` or `StorageError`."""
        if self._closed:
            raise CalandriaError(
                f"The runtime on {self.storage_url} is closed: configure or open another one."
            )
        if not self._prepared:
            self.services.store.prepare()
            self._prepared = True

    @property
    def prepared(self) -> bool:
        """Whether the storage was made ready."""
        return self._prepared

    def _job_backend(self, jobs: str | JobBackend) -> JobBackend:
        if jobs == "embedded":
            return EmbeddedJobs(self.wakeups)
        if jobs == "immediate":
            return ImmediateJobs(self)
        if isinstance(jobs, str):
            raise CalandriaError(f"jobs={jobs!r}: use 'embedded', 'immediate', or a job back end.")
        return jobs

    @property
    def job_store(self) -> JobStore:
        """The storage's job table; raises `CalandriaError` if it has none."""
        found: JobStore | None = getattr(self.services.store, "jobs", None)
        if found is None:
            raise CalandriaError(
                f"{self.storage_url} keeps no jobs: use a SQL storage, or another job back end."
            )
        return found

    @property
    def performs_here(self) -> bool:
        """Whether this process performs jobs: local reactors can be dispatched then.

        With a storage that no other process reaches, none but this one ever could.
        """
        if bool(self.workers) or isinstance(self.jobs, ImmediateJobs):
            return True
        return not self.services.store.capabilities.multi_process

    def enqueue(self, jobs: Sequence[JobRequest]) -> None:
        """Have workers look at runs whose jobs were just committed."""
        try:
            self.jobs.enqueue(jobs)
        except Exception:
            # the runs are recorded: a sweep finds those whose job is lost
            logger.exception("event=jobs.enqueue_failed runs=%r", [job.run_id for job in jobs])

    def released(self) -> None:
        """Tell everyone in this process who waits for a key that one was let go of."""
        with self._releases:
            self._releases.notify_all()
        for session in self.keeper.sessions():
            session.nudge_if_waiting()
        self.wakeups.notify()

    def wait_for_release(self, seconds: float) -> None:
        """Wait until something is let go of in this process, at most so long."""
        with self._releases:
            self._releases.wait(seconds)

    def start_worker(self, threads: int = 4) -> Worker:
        """Start a worker in this process: `threads` threads that perform jobs in the background.

        Stop it with its `stop`, or by closing the runtime. Raises `CalandriaError` if the storage
        keeps no jobs.
        """
        return Worker(self, threads).start()

    def sweep(self) -> int:
        """Put runs back to work that lost their process or their job; return how many."""
        found = self.job_store.sweep(
            pending_after=self.settings.sweep_seconds, now=self.services.clock.now()
        )
        if found:
            logger.warning("event=sweep.found runs=%d", found)
            self.wakeups.notify(found)
        if self.settings.retention is not None:
            self.prune()
        else:
            self._prune_coordination()
        return found

    def _prune_coordination(self) -> None:
        if getattr(self.store, "coordination", None) is not None:
            self.gates.store.prune(now=self.services.clock.now())

    def unfinishable_runs(self, reactors: Iterable[type[Reactor]]) -> Iterator[UnfinishableRun]:
        """Yield the runs under way that these reactors, as they are now, could not finish."""
        return unfinishable_runs(self, reactors)

    async def in_thread(
        self, call: Callable[..., T], *arguments: Any, undo: Callable[[T], object] | None = None
    ) -> T:
        """Perform a blocking call in a thread of the pool; see `threads.in_thread` for `undo`."""
        return await in_thread(self.pool, call, *arguments, undo=undo)

    async def look(self, call: Callable[[], T]) -> T:
        """Perform a short look at the storage in one of a few threads that many waits share."""
        return await asyncio.get_running_loop().run_in_executor(self._looking.pool, call)

    def pause(self, seconds: float) -> None:
        """Wait a moment before looking again."""
        threading.Event().wait(seconds)

    # what is known of reactors

    def learn(self, definition: ReactorDefinition) -> None:
        """Let the codec rebuild every class that a reactor's annotations reach."""
        if definition in self._learned:
            return
        self._learned.add(definition)
        for annotation in _annotations(definition):
            default_registry.learn(annotation)
        for node in definition.nodes.values():
            if node.reactor is not None:
                self.learn(node.reactor.definition())

    def learn_stored(self, stored: StoredRun) -> None:
        """Like `learn`, for the reactor of a stored run, if it is loaded."""
        definition = self.loaded(stored)
        if definition is not None:
            self.learn(definition)

    def loaded(self, stored: StoredRun) -> ReactorDefinition | None:
        """Return the definition of a stored run, or `None` if its reactor is not loaded."""
        return stored_definition(stored.run.reactor)

    def definition_of(self, stored: StoredRun) -> ReactorDefinition:
        """Return the definition of a stored run; raises `CalandriaError` if it is not loaded."""
        definition = self.loaded(stored)
        if definition is None:
            module, _, name = stored.run.reactor.partition(":")
            raise CalandriaError(
                f"Run {stored.run.id} is of {name}, which is not loaded: import {module!r} first."
            )
        return definition

    def map_names(self, stored: StoredRun) -> frozenset[str]:
        """Return the names of the maps at the top of a stored run's reactor, if it is loaded."""
        definition = self.loaded(stored)
        if definition is None:
            return frozenset()
        return frozenset(
            name for name, node in definition.nodes.items() if node.kind is NodeKind.MAP
        )

    def step_count(self, stored: StoredRun) -> int | None:
        """Return how many steps a stored run's reactor has at the top, if it is loaded."""
        definition = self.loaded(stored)
        return None if definition is None else len(definition.nodes)

    # runs

    def find(self, run_id: str, reactor: type[Reactor] | None = None) -> Run:
        """Return a run; raises `UnknownRun` if there is none, or it is of another reactor."""
        stored = self.store.load_run(run_id)
        if stored is None or (reactor is not None and stored.run.reactor != stored_name(reactor)):
            of = "" if reactor is None else f" of {reactor.definition().name}"
            raise UnknownRun(f"There is no run {run_id!r}{of} in {self.storage_url}.")
        return Run(self, run_id)

    def list_runs(self, where: RunFilter) -> Iterator[Run]:
        """Yield the runs that a filter lets through, newest first, read a page at a time."""
        cursor: RunCursor | None = None
        while True:
            page = self.store.list_runs(where, after=cursor, limit=PAGE)
            for stored in page:
                yield Run(self, stored.run.id)
            if len(page) < PAGE:
                return
            last = page[-1].run
            cursor = RunCursor(last.created_at, last.id)

    def result_of(self, stored: StoredRun) -> Result[Any]:
        """Return the result of a stored run; a `Dispatched` handle while it is under way."""
        self.learn_stored(stored)
        found = stored_result(stored, self.codec)
        return Dispatched(stored.run.id) if found is None else found

    def prune(self, older_than: float | timedelta | None = None) -> int:
        """Delete finished runs with everything of theirs; return how many.

        Those that ended more than `older_than` seconds ago, by default `Settings.retention`; with
        them expired marks and windows, and drained sequences. Incomplete and aborted runs, and
        idempotency keys, are kept. Raises `CalandriaError` if there is no age to go by.
        """
        age = older_than if older_than is not None else self.settings.retention
        if age is None:
            raise CalandriaError(
                "prune: say how old runs must be (older_than=...), or set Settings(retention=...)."
            )
        seconds = age.total_seconds() if isinstance(age, timedelta) else age
        self._prune_coordination()
        finished_before = self.services.clock.now() - seconds
        pruned = 0
        while True:
            count = self.store.prune(finished_before=finished_before)
            pruned += count
            if count == 0:
                return pruned

    # life

    @property
    def busy(self) -> bool:
        """Whether runs execute in this runtime now."""
        return self.keeper.busy

    def close(self) -> None:
        """Close the storage and stop the threads; idempotent. Refused while runs execute."""
        if self._closed:
            return
        for worker in tuple(self.workers):
            worker.stop()
        if self.busy:
            raise CalandriaError(
                f"The runtime on {self.storage_url} still executes runs: wait for them to end."
            )
        self._closed = True
        self.keeper.close()
        self.loop.close()
        self._threads.close()
        self._looking.close()
        self.jobs.close()
        self.services.store.close()

    def __enter__(self) -> Runtime:
        self._outer = _replace_default(self)
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _replace_default(self._outer)
        self._outer = None
        if exception is None or not self.busy:
            self.close()

    def _start_anew(self) -> None:
        """In a forked child: the parent's threads are not here, nor whoever held its locks."""
        self._threads.start_anew()
        self._looking.start_anew()
        self.loop.forget()
        self.wakeups.forget()
        for worker in self.workers:
            worker.forget()
        self.workers = set()


def _wake_directory(storage_url: str) -> str | None:
    _, separator, path = storage_url.partition("sqlite:///")
    return wake_directory(path) if separator else None


def _annotations(definition: ReactorDefinition) -> Iterator[object]:
    for field in definition.contract.fields.values():
        yield field.annotation
    for node in definition.nodes.values():
        if node.unit is None:
            continue
        for field in node.unit.contract.fields.values():
            yield field.annotation
        if node.unit.output is not None:
            yield node.unit.output.annotation


_runtimes: weakref.WeakSet[Runtime] = weakref.WeakSet()
_default: Runtime | None = None
_default_lock = threading.RLock()


def _after_fork_in_child() -> None:
    global _default_lock
    _default_lock = threading.RLock()
    for runtime in tuple(_runtimes):
        runtime._start_anew()


os.register_at_fork(after_in_child=_after_fork_in_child)


def _replace_default(runtime: Runtime | None) -> Runtime | None:
    global _default
    with _default_lock:
        previous, _default = _default, runtime
        return previous


def default_runtime() -> Runtime:
    """Return the process's runtime, made from the environment if nothing was configured."""
    global _default
    with _default_lock:
        if _default is None or _default._closed:
            _default = Runtime()
        return _default


def configure(
    *,
    storage: str | RunStore | None = None,
    jobs: str | JobBackend = "embedded",
    middleware: Sequence[MiddlewareFactory] = (),
    settings: Settings | None = None,
) -> Runtime:
    """Set up the process's runtime and return it; the one before is closed.

    Raises `CalandriaError` while runs execute in the one before, and for settings out of range;
    `StorageError` for a storage URL that is not understood.
    """
    global _default
    runtime = Runtime(storage, jobs=jobs, middleware=middleware, settings=settings)
    with _default_lock:
        if _default is not None:
            _default.close()
        _default = runtime
    return runtime


def runtime_of(given: object | None) -> Runtime:
    """Return the runtime given, or the process's default."""
    if given is None:
        return default_runtime()
    if not isinstance(given, Runtime):
        raise TypeError(f"runtime={given!r}: give a calandria.Runtime.")
    return given


def runs(
    *,
    reactor: type[Reactor] | str | None = None,
    status: RunStatus | str | Sequence[RunStatus | str] | None = None,
    needs_attention: bool = False,
    idempotency_key: str | None = None,
    correlation_id: str | None = None,
    since: Any = None,
    until: Any = None,
    runtime: Runtime | None = None,
) -> Iterator[Run]:
    """Yield top-level runs, newest first, read from the storage as they are asked for.

    Args:
        reactor: only runs of this reactor, or of the one stored under this name.
        status: only runs with this status, or one of these.
        needs_attention: only incomplete rollbacks, aborted runs and pending compensates.
        idempotency_key: only the run that was started under this key.
        correlation_id: only runs that the caller gave this id.
        since: only runs created after this aware datetime (or seconds since 1970).
        until: only runs created before this aware datetime (or seconds since 1970).
        runtime: the runtime to ask instead of the default one.

    Raises `CalandriaError` for a status that does not exist.
    """
    where = RunFilter(
        reactor=stored_name(reactor) if isinstance(reactor, type) else reactor,
        statuses=_statuses(status),
        needs_attention=needs_attention,
        created_after=_seconds(since),
        created_before=_seconds(until),
        idempotency_key=idempotency_key,
        correlation_id=correlation_id,
    )
    return runtime_of(runtime).list_runs(where)


def _statuses(
    status: RunStatus | str | Sequence[RunStatus | str] | None,
) -> frozenset[RunStatus]:
    if status is None:
        return frozenset()
    given = [status] if isinstance(status, str) else status
    try:
        return frozenset(RunStatus(one) for one in given)
    except ValueError as error:
        known = ", ".join(one.value for one in RunStatus)
        raise CalandriaError(f"{error}: the statuses of a run are {known}.") from None


def _seconds(at: Any) -> float | None:
    if at is None or isinstance(at, (int, float)):
        return cast("float | None", at)
    return float(at.timestamp())
