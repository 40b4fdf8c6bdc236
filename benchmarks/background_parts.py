"""One part of `background`, in a process of its own: `… CONTESTANT FOLDER PART ARGUMENTS`.

The part `work` performs tasks until the process is told to end. The others enqueue, and the last
line they print is a JSON object.
"""

from __future__ import annotations

import json
import signal
import statistics
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import calandria
from benchmarks import long_run_parts
from benchmarks.background_peers import CONTESTANTS, Client, Contestant
from benchmarks.reactors import FiveInBackground
from calandria import Dispatched, Runtime
from calandria.ports.run_store import Changes, JobRequest, RunFilter, RunHeader
from calandria.statuses import RunStatus
from calandria.storage import open_store

WARM_UP = 40
REST = 0.03
"""Seconds between two samples of the latency, so that every worker is idle again."""
A_WEEK = 7 * 24 * 3600.0


def main() -> None:
    """Do the part named on the command line."""
    name, folder, part, *arguments = sys.argv[1:]
    contestant = CONTESTANTS[name]
    if part == "work":
        work(contestant, Path(folder))
        return
    if part in ON_STORAGE:
        print(json.dumps(ON_STORAGE[part](Path(folder), *map(int, arguments))))
        return
    place = contestant.both if part == "latency_here" else contestant.client
    assert place is not None
    with place(Path(folder)) as client:
        print(json.dumps(PARTS[part](client, int(arguments[0]))))


def work(contestant: Contestant, folder: Path) -> None:
    """Perform tasks until SIGTERM."""
    told = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: told.set())
    with contestant.work(folder):
        told.wait()


def throughput(client: Client, runs: int) -> dict[str, float]:
    """Enqueue runs of five steps; return how many a second were enqueued, and came to an end."""
    _warm_up(client)
    began = time.perf_counter()
    handles = [client.enqueue_five() for _ in range(runs)]
    enqueued = time.perf_counter()
    for handle in handles:
        client.result(handle)
    ended = time.perf_counter()
    return {"enqueued": runs / (enqueued - began), "performed": runs / (ended - began)}


def latency(client: Client, samples: int) -> dict[str, float]:
    """Return the seconds from a call that enqueues to the first step, on an idle worker."""
    _warm_up(client)
    taken: list[float] = []
    for _ in range(samples):
        time.sleep(REST)
        began = time.perf_counter()
        handle = client.enqueue_one()
        taken.append(client.result(handle) - began)
    return {"median": statistics.median(taken), "p95": statistics.quantiles(taken, n=20)[-1]}


def enqueue(folder: Path, runs: int) -> dict[str, float]:
    """Return the seconds that it takes to enqueue runs of five steps, with no worker about."""
    with Runtime(storage=f"sqlite:///{folder / 'calandria.db'}"):
        for _ in range(WARM_UP):
            FiveInBackground.run(number=0)
        return {"seconds": _timed_enqueue(runs)[0]}


def enqueue_beside(folder: Path, runs: int) -> dict[str, float]:
    """The same beside a worker; raises `RuntimeError` if it was not busy with others all along."""
    with Runtime(storage=f"sqlite:///{folder / 'calandria.db'}") as runtime:
        while not any(calandria.runs(status="completed")):
            time.sleep(REST)
        seconds, run_id = _timed_enqueue(runs)
        if runtime.find(run_id).status is not RunStatus.PENDING:
            raise RuntimeError("the worker had nothing left to do: give it a longer queue")
    return {"seconds": seconds}


def _timed_enqueue(runs: int) -> tuple[float, str]:
    """Enqueue runs; return the seconds it took and the id of the first."""
    began = time.perf_counter()
    results = [FiveInBackground.run(number=0) for _ in range(runs)]
    seconds = time.perf_counter() - began
    assert isinstance(results[0], Dispatched)
    return seconds, results[0].run_id


def fill(folder: Path, finished: int, parked: int) -> dict[str, float]:
    """Make the storage of a Calandria contestant, with that many finished and parked runs in it.

    They are copies of a real one but for their ids. A tenth of the parked are paused.
    """
    long_run_parts.fill(folder, str(finished))
    path = folder / f"{finished}.db"
    store = open_store(f"sqlite:///{path}", sqlite_synchronous="OFF")
    (real,) = store.list_runs(RunFilter(), limit=1)
    now = time.time()
    waiting = RunHeader(RunStatus.RUNNING, waits_for="retry of third", wake_at=now + A_WEEK)
    for number in range(parked):
        paused = number % 10 == 0
        new_id = f"1{number:09d}{real.run.id[10:]}"
        header = RunHeader(RunStatus.PAUSED) if paused else waiting
        jobs = [] if paused else [JobRequest(new_id, A_WEEK + number)]
        run = replace(real.run, id=new_id, root_id=new_id, header=header)
        store.create_run(run, Changes(jobs=jobs, now=now), owner=None, ttl=0)
    store.close()
    path.rename(folder / "calandria.db")
    return {"finished": finished, "parked": parked}


def _warm_up(client: Client) -> None:
    for handle in [client.enqueue_five() for _ in range(WARM_UP)]:
        client.result(handle)
    client.result(client.enqueue_one())


PARTS: dict[str, Callable[[Client, int], dict[str, float]]] = {
    "throughput": throughput,
    "latency": latency,
    "latency_here": latency,
}
ON_STORAGE: dict[str, Callable[..., dict[str, float]]] = {
    "fill": fill,
    "enqueue": enqueue,
    "enqueue_beside": enqueue_beside,
}


if __name__ == "__main__":
    main()
