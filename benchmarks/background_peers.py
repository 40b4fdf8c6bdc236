"""Who is measured by `background`: each can work in one process and enqueue in another.

The work is the same for each: five tasks that hand a number on, or one that returns the instant at
which it began, by the performance counter, which the processes of one host share.
"""

# The peers are extras: types are checked with and without them installed.
# pyright: reportMissingImports=false

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.measure import REDIS_URL

THREADS = 4
STEPS = 5
LONGEST_WAIT = 60.0
"""Seconds to wait for the result of what was enqueued."""
DBOS_POLL = 0.01
"""Seconds between two looks of DBOS at its queue: a hundredth of its default."""


@dataclass(frozen=True)
class Client:
    """Enqueues work; each of the first two returns what `result` waits with."""

    enqueue_five: Callable[[], Any]
    enqueue_one: Callable[[], Any]
    result: Callable[[Any], Any]
    """Return what the last task returned, waiting for it."""


@dataclass(frozen=True)
class Contestant:
    """How to use one library. Each takes the folder that all processes of a measurement share."""

    work: Callable[[Path], AbstractContextManager[None]]
    """Perform tasks in the background, in this process, until the end of the block."""
    client: Callable[[Path], AbstractContextManager[Client]]
    """Enqueue from a process that performs nothing."""
    both: Callable[[Path], AbstractContextManager[Client]] | None
    """Enqueue and perform in this process; `None` where the library has no such thing."""


# Calandria


@contextmanager
def _calandria_client(folder: Path, *, threads: int = 0) -> Iterator[Client]:
    from benchmarks.reactors import FiveInBackground, OneInBackground
    from calandria import Dispatched, Runtime, Success

    with Runtime(storage=f"sqlite:///{folder / 'calandria.db'}") as runtime:
        if threads:
            runtime.start_worker(threads)

        def enqueue(reactor: Any) -> str:
            dispatched = reactor.run(number=0)
            assert isinstance(dispatched, Dispatched)
            return dispatched.run_id

        def result(run_id: str) -> Any:
            match runtime.find(run_id).wait(LONGEST_WAIT):
                case Success(value):
                    return value
                case other:
                    raise RuntimeError(f"the benchmark's run came to {other}")

        yield Client(lambda: enqueue(FiveInBackground), lambda: enqueue(OneInBackground), result)


@contextmanager
def _calandria_both(folder: Path) -> Iterator[Client]:
    with _calandria_client(folder, threads=THREADS) as client:
        yield client


@contextmanager
def _calandria_work(folder: Path) -> Iterator[None]:
    with _calandria_client(folder, threads=THREADS):
        yield


# DBOS


def _same_durability() -> None:
    from sqlalchemy import Engine, event

    def set_up(connection: sqlite3.Connection, _record: object) -> None:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")

    event.listen(Engine, "connect", set_up)


def _dbos_url(folder: Path) -> str:
    return f"sqlite:///{folder / 'dbos.db'}"


@contextmanager
def _dbos_both(folder: Path) -> Iterator[Client]:
    from dbos import DBOS

    _same_durability()
    DBOS(
        config={
            "name": "benchmark",
            "system_database_url": _dbos_url(folder),
            "application_version": "1",
            "max_executor_threads": THREADS,
            "log_level": "ERROR",
        }
    )

    @DBOS.step()
    def add_one(number: int) -> int:
        return number + 1

    @DBOS.step()
    def tell_the_time() -> float:
        return time.perf_counter()

    @DBOS.workflow(name="five")
    def five(number: int) -> int:
        for _ in range(STEPS):
            number = add_one(number)
        return number

    @DBOS.workflow(name="one")
    def one() -> float:
        return float(tell_the_time())

    DBOS.launch()
    DBOS.register_queue("benchmark", polling_interval_sec=DBOS_POLL)
    yield Client(
        lambda: DBOS.enqueue_workflow("benchmark", five, 0),
        lambda: DBOS.enqueue_workflow("benchmark", one),
        lambda handle: handle.get_result(polling_interval_sec=DBOS_POLL),
    )
    DBOS.destroy()


@contextmanager
def _dbos_work(folder: Path) -> Iterator[None]:
    with _dbos_both(folder):
        yield


@contextmanager
def _dbos_client(folder: Path) -> Iterator[Client]:
    from dbos import DBOSClient, EnqueueOptions

    _same_durability()
    client = DBOSClient(system_database_url=_dbos_url(folder))

    def options(name: str) -> EnqueueOptions:
        return {"workflow_name": name, "queue_name": "benchmark", "app_version": "1"}

    yield Client(
        lambda: client.enqueue(options("five"), 0),
        lambda: client.enqueue(options("one")),
        lambda handle: handle.get_result(polling_interval_sec=DBOS_POLL),
    )
    client.destroy()


# Celery


def celery_app(folder: Path) -> Any:
    """Return a Celery application whose keys in Redis no other one shares."""
    from celery import Celery

    app = Celery("benchmark", broker=REDIS_URL, backend=REDIS_URL)
    prefix = {"global_keyprefix": f"calandria-bench:{folder.name}:"}
    app.conf.update(
        broker_transport_options=prefix,
        result_backend_transport_options=prefix,
        worker_hijack_root_logger=False,
        broker_connection_retry_on_startup=True,
        result_expires=600,
    )

    @app.task(name="add_one")  # type: ignore[untyped-decorator, unused-ignore]
    def add_one(number: int) -> int:
        return number + 1

    @app.task(name="tell_the_time")  # type: ignore[untyped-decorator, unused-ignore]
    def tell_the_time() -> float:
        return time.perf_counter()

    return app


def _celery_work(pool: str) -> Callable[[Path], AbstractContextManager[None]]:
    @contextmanager
    def work(folder: Path) -> Iterator[None]:
        # Celery's worker takes this process over, signals included
        celery_app(folder).worker_main(
            ["worker", f"--pool={pool}", f"--concurrency={THREADS}", "--loglevel=ERROR"]
        )
        os._exit(0)
        yield

    return work


@contextmanager
def _celery_client(folder: Path) -> Iterator[Client]:
    from celery import chain

    app = celery_app(folder)
    add_one, tell_the_time = app.tasks["add_one"], app.tasks["tell_the_time"]
    five = chain(add_one.s(0), *(add_one.s() for _ in range(STEPS - 1)))
    yield Client(
        five.apply_async,
        tell_the_time.apply_async,
        lambda handle: handle.get(timeout=LONGEST_WAIT),
    )
    app.close()


CONTESTANTS = {
    "calandria": Contestant(_calandria_work, _calandria_client, _calandria_both),
    "dbos": Contestant(_dbos_work, _dbos_client, _dbos_both),
    "celery prefork": Contestant(_celery_work("prefork"), _celery_client, None),
    "celery threads": Contestant(_celery_work("threads"), _celery_client, None),
}
