"""The contract of a run store as tests: any back end that passes them can hold runs.

Subclass `RunStoreConformance` in a test module, under a name that pytest collects, and give it
one fixture, `store_factory`, a `StoreFactory` on a storage that is empty:

    class TestMyStore(RunStoreConformance):
        @pytest.fixture
        def store_factory(self, tmp_path):
            return MyFactory(tmp_path / "runs")

A store that keeps jobs itself adds `JobStoreConformance` in the same way, and one that keeps
coordination beside its runs `CoordinationStoreConformance`.
"""

from __future__ import annotations

from calandria.testing.conformance.cancelling import CancellingConformance
from calandria.testing.conformance.closing import ClosingConformance
from calandria.testing.conformance.contending import ContendingConformance
from calandria.testing.conformance.creating import CreatingConformance
from calandria.testing.conformance.fencing import FencingConformance
from calandria.testing.conformance.gating import GatingConformance
from calandria.testing.conformance.harness import StoreFactory, StoreTests, UrlFactory
from calandria.testing.conformance.holding import HoldingConformance
from calandria.testing.conformance.jobs import JobStoreConformance
from calandria.testing.conformance.journal import JournalConformance
from calandria.testing.conformance.leasing import LeasingConformance
from calandria.testing.conformance.listing import ListingConformance
from calandria.testing.conformance.pruning import PruningConformance
from calandria.testing.conformance.races import RacesConformance
from calandria.testing.conformance.recording import RecordingConformance
from calandria.testing.conformance.sequencing import SequencingConformance
from calandria.testing.conformance.waiting import WaitingConformance

__all__ = [
    "CoordinationStoreConformance",
    "JobStoreConformance",
    "RunStoreConformance",
    "StoreFactory",
    "StoreTests",
    "UrlFactory",
]


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


class CoordinationStoreConformance(
    ContendingConformance,
    GatingConformance,
    HoldingConformance,
    SequencingConformance,
    WaitingConformance,
):
    """Everything a coordination store promises; one that keeps runs and jobs, too."""
