"""A runtime in memory or on a file, with a worker of two threads in this process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from calandria import Runtime, Settings
from calandria.runtime.worker import Worker
from tests.unit.background import reactors

QUICK = Settings(
    undo_wait=10,
    lease_ttl=30,
    sweep_interval=30,
    snooze_base_delay=0.05,
    snooze_jitter=0,
    wait_timeout=10,
)


@pytest.fixture(params=["memory", "file"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/runs.db"


@pytest.fixture
def runtime(storage: str) -> Iterator[Runtime]:
    with Runtime(storage, settings=QUICK) as opened:
        yield opened


@pytest.fixture
def worker(runtime: Runtime) -> Worker:
    return runtime.start_worker(threads=2)


@pytest.fixture
def diary() -> list[str]:
    return []


@pytest.fixture
def notes() -> list[str]:
    reactors.NOTES.clear()
    return reactors.NOTES
