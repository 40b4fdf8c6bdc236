"""Wake-ups between processes: none is missed while they work, and a slow poll makes up for them.

Where a wake-up is the subject, polling is set so slow that a test without it would never end.
"""

from __future__ import annotations

import shutil
import signal
from collections import Counter
from pathlib import Path
from typing import Any

from calandria import Success, runs
from calandria.jobs.wakeups import wake_directory
from calandria.runtime import worker as worker_module
from tests.crash.background.checks import tree_of
from tests.crash.background.deeds import Acting
from tests.crash.background.reactors import Chain, Forward, ThreeUnits
from tests.crash.background.workshop import Workshop, all_over, end
from tests.crash.children import Child, alone, until

NEVER = 1000.0


def poll_never() -> None:
    worker_module.SLOW_POLL = NEVER


def wake_folder(shop: Workshop) -> Path:
    return Path(wake_directory(str(shop.folder / "runs.db")))


def listening(shop: Workshop, count: int) -> None:
    folder = wake_folder(shop)
    until(lambda: folder.exists() and len(list(folder.iterdir())) >= count, "nobody listens")


def _call_chain(shop: Workshop) -> None:
    with shop.runtime():
        Chain.run()


def _one_commit_many_jobs(folder: Path) -> None:
    """Three units dispatched in one commit keep three idle threads of another process busy."""
    shop = Workshop(folder, lease=30, sweep=NEVER)

    def meet(context: Any) -> None:
        units = ("one", "two", "three")
        until(lambda: set(units) <= set(shop.begun()), "the units do not run side by side")

    def prepare() -> None:
        poll_never()
        Acting.by_path = {("run", name): meet for name in ("one", "two", "three")}

    worker = shop.worker(4, first=prepare)
    listening(shop, 1)
    caller = Child(lambda: _dispatch_units(shop))
    caller.join()
    with shop.runtime() as runtime:
        all_over(runtime)
        (run,) = runs(runtime=runtime)
        results: list[Any] = [unit.result for unit in run.children]
        assert sorted(result.value for result in results) == ["did one", "did three", "did two"]
    end(worker)


def _dispatch_units(shop: Workshop) -> None:
    with shop.runtime():
        assert ThreeUnits.run() == Success("did last")


def _more_than_is_idle_here(folder: Path) -> None:
    """A process with one idle thread enqueues two runs at once: another process takes one."""
    shop = Workshop(folder, lease=30, sweep=NEVER)

    def meet(context: Any) -> None:
        until(lambda: shop.begun().count("b") >= 2, "the runs do not go on side by side")

    def prepare() -> None:
        poll_never()
        Acting.by_path = {("run", "b"): meet}

    other = shop.worker(1, first=prepare)
    listening(shop, 1)

    def enqueue() -> None:
        prepare()
        with shop.runtime() as runtime:
            worker = runtime.start_worker(1)
            found = [Chain.run(), Chain.run()]
            for dispatched in found:
                assert runtime.find(dispatched.run_id).wait(20) == Success("did c")
            worker.stop()

    for _ in range(5):
        (folder / "steps.log").unlink(missing_ok=True)
        Child(enqueue).join()
    end(other)


def _lost_wakeups(folder: Path) -> None:
    """The directory of the sockets is deleted: polling finds the run."""
    shop = Workshop(folder, lease=30, sweep=0.5)
    worker = shop.worker(2)
    listening(shop, 1)
    shutil.rmtree(wake_folder(shop))
    Child(lambda: _call_chain(shop)).join()
    with shop.runtime() as runtime:
        all_over(runtime)
    end(worker)


def _sockets_come_back(folder: Path) -> None:
    """A worker whose socket was deleted listens again before long."""
    shop = Workshop(folder, lease=30, sweep=NEVER)

    def prepare() -> None:
        poll_never()
        worker_module.REPORT_INTERVAL = 0.1

    worker = shop.worker(2, first=prepare)
    listening(shop, 1)
    shutil.rmtree(wake_folder(shop))
    listening(shop, 1)
    Child(lambda: _call_chain(shop)).join()
    with shop.runtime() as runtime:
        all_over(runtime)
    end(worker)
    assert list(wake_folder(shop).iterdir()) == []


def _stale_sockets(folder: Path) -> None:
    shop = Workshop(folder, lease=0.3, sweep=0.2)
    killed = [shop.worker(1) for _ in range(3)]
    listening(shop, 3)
    for worker in killed:
        worker.kill()
    alive = shop.worker(1)
    listening(shop, 4)
    Child(lambda: _call_chain(shop)).join()
    with shop.runtime() as runtime:
        all_over(runtime)
    (left,) = wake_folder(shop).iterdir()
    assert left.name.startswith(f"{alive.pid}-")
    alive.signal(signal.SIGTERM)
    alive.join()
    assert list(wake_folder(shop).iterdir()) == []


def _twenty_workers(folder: Path) -> None:
    shop = Workshop(folder, lease=20, sweep=1)
    workers = [shop.worker(1) for _ in range(20)]

    def call() -> None:
        with shop.runtime():
            for _ in range(15):
                Forward.run()

    for caller in [Child(call) for _ in range(4)]:
        caller.join()
    with shop.runtime() as runtime:
        all_over(runtime)
        found = list(runs(runtime=runtime))
        assert len(found) == 60
        deeds = shop.deeds()
        for run in found:
            tree_of(run, runtime, [deed for deed in deeds if deed.run == run.id], None)
    end(*workers)
    begun = Counter((d.run, d.path, d.attempt) for d in deeds if d.what == "begin")
    assert set(begun.values()) == {1}, "a step ran twice"
    print(f"60 runs by {len({deed.pid for deed in deeds})} of 20 workers, each step once")


def test_jobs_of_one_commit_run_side_by_side(tmp_path: Path) -> None:
    alone(_one_commit_many_jobs, tmp_path)


def test_what_the_own_process_cannot_take_wakes_another(tmp_path: Path) -> None:
    alone(_more_than_is_idle_here, tmp_path)


def test_a_lost_wake_up_delays_a_run_and_loses_nothing(tmp_path: Path) -> None:
    alone(_lost_wakeups, tmp_path)


def test_a_worker_whose_socket_was_deleted_listens_again(tmp_path: Path) -> None:
    alone(_sockets_come_back, tmp_path)


def test_sockets_of_dead_workers_are_removed(tmp_path: Path) -> None:
    alone(_stale_sockets, tmp_path)


def test_twenty_workers_on_one_file(tmp_path: Path) -> None:
    alone(_twenty_workers, tmp_path)
