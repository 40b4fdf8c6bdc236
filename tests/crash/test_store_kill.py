"""A process killed while it commits: every commit it was told of is there, and no half of one."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from calandria.ports.run_store import RunFilter
from calandria.storage import open_store
from calandria.storage.sql.sqlite import SqliteDatabase
from calandria.storage.sql.statements import Statement

KILLS = 30
STEPS = 5

WRITER = f"""
import sys
from calandria.ports.run_store import Changes, Event, NewRun, RunHeader, StepProgress, StepRecord
from calandria.statuses import RunStatus, StepStatus
from calandria.storage import open_store

store = open_store(sys.argv[1])
store.prepare()
run_id = sys.argv[2]
run = NewRun(run_id, "Checkout", "shape", "null", RunHeader(RunStatus.RUNNING), 1.0, run_id)
lease = store.create_run(run, Changes(), owner="writer", ttl=600)
print(0, flush=True)
number = 0
while True:
    number += 1
    done = StepProgress(StepStatus.COMPLETED, 1, completed_order=number)
    steps = [
        StepRecord(f"s{{number}}.{{k}}", "", number, "x" * 700, 1.0, done) for k in range({STEPS})
    ]
    store.commit(lease, Changes(steps=steps, events=[Event(number, 1.0, "step")], now=1.0))
    print(number, flush=True)
"""


def _kill_one(url: str, run_id: str, commits: int) -> int:
    """Kill a writer some time after its commit number `commits`; return the last it was told of."""
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, url, run_id], stdout=subprocess.PIPE, text=True
    )
    assert writer.stdout is not None
    with writer.stdout as told:
        last = -1
        while last < commits:
            last = int(told.readline())
        # the writer goes on meanwhile, so where the kill falls is left to chance
        for _ in range(random.randrange(2000)):
            pass
        os.kill(writer.pid, signal.SIGKILL)
        for line in told:
            if line.endswith("\n"):
                last = int(line)
    assert writer.wait() == -signal.SIGKILL
    return last


def _kill_and_check(url: str, run_id: str) -> None:
    told = _kill_one(url, run_id, random.randrange(40))
    store = open_store(url)
    store.prepare()
    assert store.load_run(run_id) is not None
    written = [each.sequence for each in store.read_events(run_id)]
    # one more may be there: committed, and killed before it could tell
    assert written in (list(range(1, told + 1)), list(range(1, told + 2)))
    steps = store.read_steps(run_id, "", limit=10**6)
    assert [each.position for each in steps] == [n for n in written for _ in range(STEPS)]
    store.close()


def test_a_killed_writer_loses_no_commit_it_was_told_of(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    # several at a time: the others must go on when one dies with the file locked
    with ThreadPoolExecutor(3) as pool:
        for done in [pool.submit(_kill_and_check, url, f"run-{n}") for n in range(KILLS)]:
            done.result()

    database = SqliteDatabase(url, str(tmp_path / "runs.db"))
    with database.read() as session:
        assert session.rows(Statement("PRAGMA integrity_check"), {}) == [("ok",)]
    database.close()
    store = open_store(url)
    assert len(store.list_runs(RunFilter())) == KILLS
    store.close()
