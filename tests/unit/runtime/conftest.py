"""What the runtime's tests share: a fresh runtime in memory, and a diary that steps write to."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from calandria import Runtime, Settings


@pytest.fixture
def runtime() -> Iterator[Runtime]:
    with Runtime("memory://", settings=Settings(undo_wait=0)) as opened:
        yield opened


@pytest.fixture
def diary() -> list[str]:
    return []
