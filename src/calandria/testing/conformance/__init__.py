"""The contract of a run store as tests: any back end that passes them can hold runs.

Subclass `RunStoreConformance` in a test module, under a name that pytest collects, and give it
one fixture, `store_factory`, a `StoreFactory` on a storage that is empty:

    class TestMyStore(RunStoreConformance):
        @pytest.fixture
        def store_factory(self, tmp_path):
            return MyFactory(tmp_path / "runs")

A store that keeps jobs itself adds `JobStoreConformance` in the same way.
"""

from __future__ import annotations

from calandria.testing.conformance.cancelling import CancellingConformance
from calandria.testing.conformance.closing import ClosingConformance
from calandria.testing.conformance.creating import CreatingConformance
from calandria.testing.conformance.fencing import FencingConformance
from calandria.testing.conformance.harness import StoreFactory, StoreTests, UrlFactory
from calandria.testing.conformance.jobs import JobStoreConformance
from calandria.testing.conformance.journal import JournalConformance
from calandria.testing.conformance.leasing import LeasingConformance
from calandria.testing.conformance.listing import ListingConformance
from calandria.testing.conformance.pruning import PruningConformance
from calandria.testing.conformance.races import RacesConformance
from calandria.testing.conformance.recording import RecordingConformance

__all__ = ["JobStoreConformance", "RunStoreConformance", "StoreFactory", "StoreTests", "UrlFactory"]


class RunStoreConformance(
    CancellingConformance,
    ClosingConformance,
    CreatingConformance,
    FencingConformance,
    JournalConformance,
    LeasingConformance,
    ListingConformance,
    PruningConformance,
    RacesConformance,
    RecordingConformance,
):
    """Everything a run store promises."""
