"""SQLite in a file keeps the run store's contract."""

from __future__ import annotations

from pathlib import Path

import pytest

from calandria.testing.conformance import (
    CoordinationStoreConformance,
    JobStoreConformance,
    RunStoreConformance,
    StoreFactory,
    UrlFactory,
)


class TestSqlite(RunStoreConformance, JobStoreConformance, CoordinationStoreConformance):
    @pytest.fixture
    def store_factory(self, tmp_path: Path) -> StoreFactory:
        return UrlFactory(f"sqlite:///{tmp_path}/runs.db")
