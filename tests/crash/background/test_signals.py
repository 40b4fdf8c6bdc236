"""`calandria worker` is told to stop: by SIGTERM or SIGINT, twice, without a terminal, as PID 1."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from calandria import Run, RunStatus, Runtime, Success
from tests.crash.background.reactors import Chain
from tests.crash.background.workshop import Workshop
from tests.crash.children import until

LEASE = 0.6


class Commanded:
    """A `calandria worker` process: no terminal, no input, its output in a file."""

    def __init__(
        self,
        shop: Workshop,
        drain: str,
        *,
        stay: str = "",
        heeds: bool = False,
        alone: bool = False,
    ) -> None:
        self._log = shop.folder / f"worker-{len(list(shop.folder.glob('worker-*')))}.log"
        command = [sys.executable, "-m", "calandria", "--storage", shop.url, "worker"]
        command += ["tests.crash.background.served", "--threads", "2", "--drain", drain]
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            "WORKSHOP": str(shop.folder),
            "STAY": stay,
            "CALANDRIA_LEASE_TTL": str(shop.lease),
            "CALANDRIA_SWEEP_INTERVAL": str(shop.sweep),
        }
        if heeds:
            environment["HEEDS"] = "yes"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*(_new_namespace() if alone else []), *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
            )
        self._pid = self._process.pid
        until(self._has_started, "the worker did not start")
        if alone:
            self._pid = _only_child(self._pid)

    def _has_started(self) -> bool:
        assert self._process.poll() is None, self.log
        return "event=worker.started" in self.log

    @property
    def log(self) -> str:
        return self._log.read_text()

    def signal(self, number: int) -> None:
        os.kill(self._pid, number)

    def ended(self) -> int:
        return self._process.wait(20)

    def kill(self) -> None:
        if self._process.poll() is None:
            os.kill(self._pid, signal.SIGKILL)
            self._process.wait()


def _new_namespace() -> list[str]:
    """Return how to be PID 1; nothing where only the superuser may."""
    return ["unshare", "--pid", "--fork", "--mount-proc"] if os.geteuid() == 0 else []


def _only_child(pid: int) -> int:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(children[0]) if children else pid


@pytest.fixture
def shop(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path, lease=LEASE, sweep=0.3)


@pytest.fixture
def runtime(shop: Workshop) -> Iterator[Runtime]:
    with shop.runtime() as opened:
        yield opened


def _begun(shop: Workshop, runtime: Runtime, step: str = "b") -> Run:
    """Return a run that is inside of `step`."""
    run = runtime.find(_dispatched(runtime))
    until(lambda: step in shop.begun(), "the step did not begin")
    return run


def _dispatched(runtime: Runtime) -> str:
    return Chain.options(runtime=runtime).run().run_id


def _taken_up_elsewhere(shop: Workshop, run: Run) -> None:
    """Another worker ends the run; the cut-off step ran again, under its key."""
    another = Commanded(shop, "20s")
    try:
        assert run.wait(20) == Success("did c")
    finally:
        another.kill()
    deeds = [d for d in shop.deeds() if d.what == "begin" and d.run == run.id]
    assert [deed.path for deed in deeds] == ["a", "b", "b", "c"]
    assert len({deed.key for deed in deeds if deed.path == "b"}) == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_idle_worker_ends_at_once(shop: Workshop, number: int) -> None:
    worker = Commanded(shop, "30s")
    worker.signal(number)
    assert worker.ended() == 0, worker.log
    assert "event=worker.stopped" in worker.log


def test_a_worker_ends_what_it_is_at_and_takes_nothing_new(
    shop: Workshop, runtime: Runtime
) -> None:
    worker = Commanded(shop, "30s", stay="b")
    run = _begun(shop, runtime)
    worker.signal(signal.SIGTERM)
    until(lambda: "event=worker.draining" in worker.log, "the worker does not drain")
    other = runtime.find(_dispatched(runtime))
    (shop.folder / "gate").touch()
    assert worker.ended() == 0, worker.log
    assert run.result == Success("did c")
    assert run.epoch == 1
    assert other.status is RunStatus.PENDING and other.epoch == 0


def test_a_step_that_outlasts_the_deadline_is_cut_off_and_taken_up(
    shop: Workshop, runtime: Runtime
) -> None:
    worker = Commanded(shop, "0.2s", stay="b")
    run = _begun(shop, runtime)
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 7, worker.log
    assert f"event=worker.cut_off run={run.id}" in worker.log
    assert run.status is RunStatus.RUNNING
    _taken_up_elsewhere(shop, run)


def test_a_step_that_heeds_the_deadline_is_given_back(shop: Workshop, runtime: Runtime) -> None:
    worker = Commanded(shop, "0.2s", stay="b", heeds=True)
    run = _begun(shop, runtime)
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0, worker.log
    assert run.lease_owner is None, "it was not given back"
    assert run.status is RunStatus.RUNNING
    _taken_up_elsewhere(shop, run)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_it_at_once(shop: Workshop, runtime: Runtime, number: int) -> None:
    worker = Commanded(shop, "1000s", stay="b")
    run = _begun(shop, runtime)
    worker.signal(signal.SIGTERM)
    until(lambda: "event=worker.draining" in worker.log, "the worker does not drain")
    worker.signal(number)
    assert worker.ended() == 128 + number, worker.log
    _taken_up_elsewhere(shop, run)


def test_as_process_1_it_hears_the_signals(shop: Workshop, runtime: Runtime) -> None:
    worker = Commanded(shop, "0.2s", stay="b", alone=True)
    run = _begun(shop, runtime)
    assert {deed.pid for deed in shop.deeds()} == ({1} if os.geteuid() == 0 else {worker._pid})
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 7, worker.log
    _taken_up_elsewhere(shop, run)


def test_two_workers_as_process_1_do_not_share_a_name(shop: Workshop, runtime: Runtime) -> None:
    """Containers on one host: the same PID, perhaps the same host name, one file."""
    first, second = (Commanded(shop, "30s", stay="b", alone=True) for _ in range(2))
    found = [runtime.find(_dispatched(runtime)) for _ in range(4)]
    until(lambda: shop.begun().count("b") == 4, "the two do not work side by side")
    assert len({run.lease_owner for run in found}) == 2
    (shop.folder / "gate").touch()
    for run in found:
        assert run.wait(20) == Success("did c")
    for worker in (first, second):
        worker.signal(signal.SIGTERM)
        assert worker.ended() == 0, worker.log
