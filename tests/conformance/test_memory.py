"""The store in memory keeps the run store's contract, for one process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from calandria.storage import open_store
from calandria.testing.conformance import (
    CoordinationStoreConformance,
    JobStoreConformance,
    RunStoreConformance,
    StoreFactory,
)


class TestMemory(RunStoreConformance, JobStoreConformance, CoordinationStoreConformance):
    @pytest.fixture
    def store_factory(self) -> Iterator[StoreFactory]:
        # a private store has no second handle: every call gives the one
        store = open_store("memory://")
        yield lambda: store
        store.close()
