"""A runtime in memory whose parked runs come back soon, and a diary that steps write to."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from calandria import Runtime, Settings

QUICK = Settings(
    undo_wait=10,
    lease_ttl=30,
    sweep_interval=30,
    snooze_base_delay=0.05,
    snooze_jitter=0,
    wait_timeout=10,
)


@pytest.fixture
def runtime() -> Iterator[Runtime]:
    with Runtime("memory://", settings=QUICK) as opened:
        yield opened


@pytest.fixture
def diary() -> list[str]:
    return []
