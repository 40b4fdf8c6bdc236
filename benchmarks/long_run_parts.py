"""One part of `long_run`, in a process of its own; the last line printed is a JSON object."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from benchmarks import reactors
from benchmarks.measure import peak_memory, stopwatch
from calandria import Runtime, Settings
from calandria.ports.run_store import Changes, NewRun
from calandria.storage import open_store

SETTINGS = Settings(sqlite_synchronous="NORMAL")
A_HUNDRED = 100


def main() -> None:
    """Do the part named on the command line: FOLDER PART ARGUMENTS."""
    folder, part, *arguments = sys.argv[1:]
    print(json.dumps(PARTS[part](Path(folder), *arguments)))


def long(folder: Path, shape: str, steps: str) -> dict[str, float]:
    """Execute one long run; return seconds per step at both ends, and MiB."""
    count = int(steps)
    numbers = list(range(count))
    map_run = partial(reactors.TimedMap.run, numbers=numbers)
    execute = reactors.chain(count) if shape == "chain" else map_run
    with Runtime(storage=_url(folder / "long.db"), settings=SETTINGS):
        reactors.FiveSteps.run(number=0)
        before = peak_memory()
        result = execute()
        peak = peak_memory()
    if not result.ok or len(reactors.instants) != count:
        raise RuntimeError(f"the long run came to {result}")
    return {
        "steps": count,
        "first": _per_step(reactors.instants[: A_HUNDRED + 1]),
        "last": _per_step(reactors.instants[-A_HUNDRED - 1 :]),
        "before": before,
        "peak": peak,
    }


def fill(folder: Path, crowd: str) -> dict[str, float]:
    """Make a file with `crowd` finished runs, all copies of a real one but for their ids.

    They are written through the store's own interface with durability off, for speed.
    """
    path = folder / f"{crowd}.db"
    with Runtime(storage=_url(path), settings=SETTINGS):
        run_id = reactors.FiveSteps.run(number=0).run_id
    assert run_id is not None
    store = open_store(_url(path), sqlite_synchronous="OFF")
    stored = store.load_run(run_id)
    assert stored is not None
    changes = Changes(
        steps=store.read_steps(run_id, ""), events=store.read_events(run_id), now=stored.updated_at
    )
    for number in range(int(crowd)):
        copy = _renamed(stored.run, number)
        store.create_run(copy, changes, owner=None, ttl=0)
    store.close()
    return {"runs": int(crowd)}


def crowded(folder: Path, crowd: str, runs: str) -> dict[str, float]:
    """Execute short runs in the file made for `crowd`; return seconds per run."""
    with Runtime(storage=_url(folder / f"{crowd}.db"), settings=SETTINGS):
        for _ in range(A_HUNDRED):
            reactors.FiveSteps.run(number=0)
        with stopwatch() as watch:
            for _ in range(int(runs)):
                reactors.FiveSteps.run(number=0)
    return {"wall": watch.wall / int(runs), "cpu": watch.cpu / int(runs)}


def _renamed(run: NewRun, number: int) -> NewRun:
    """Copy a run under an id that sorts before the original's, as an older run's does."""
    new_id = f"0{number:09d}{run.id[10:]}"
    return replace(run, id=new_id, root_id=new_id, created_at=run.created_at - 1e6 + number)


def _per_step(instants: list[float]) -> float:
    return (instants[-1] - instants[0]) / (len(instants) - 1)


def _url(path: Path) -> str:
    return f"sqlite:///{path}"


PARTS: dict[str, Callable[..., dict[str, float]]] = {"long": long, "fill": fill, "crowded": crowded}


if __name__ == "__main__":
    main()
