from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from calandria.ports.run_store import Lease, Renewal, RunStore, StoredRun, TakenLease
from calandria.storage import open_store
from calandria.storage.sql.lease_clock import HostLeaseClock, read_boot_id
from calandria.testing.conformance.harness import finished, leased, new_run


class FakeLeaseClock:
    def __init__(self) -> None:
        self.boot_id = "boot 1"
        self.seconds = 1000.0

    def now(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> FakeLeaseClock:
    return FakeLeaseClock()


@pytest.fixture
def store(tmp_path: Path, clock: FakeLeaseClock) -> Iterator[RunStore]:
    store = open_store(f"sqlite:///{tmp_path}/runs.db", clock=clock)
    store.prepare()
    yield store
    store.close()


def _taken(store: RunStore) -> bool:
    return isinstance(store.take_lease("run-1", owner="second", ttl=60), TakenLease)


def test_a_lease_is_live_until_the_moment_it_ends(store: RunStore, clock: FakeLeaseClock) -> None:
    leased(store, ttl=60)
    clock.seconds += 59.999
    assert not _taken(store)
    clock.seconds += 0.001
    assert _taken(store)


def test_renewing_counts_from_the_moment_of_renewal(store: RunStore, clock: FakeLeaseClock) -> None:
    lease = leased(store, ttl=60)
    clock.seconds += 50
    assert store.renew_leases([lease], ttl=30) == Renewal()
    clock.seconds += 29
    assert not _taken(store)
    clock.seconds += 1
    assert _taken(store)


def test_taking_sets_the_ttl_anew(store: RunStore, clock: FakeLeaseClock) -> None:
    leased(store, ttl=1)
    clock.seconds += 1
    assert _taken(store)
    clock.seconds += 59
    assert not _taken(store)


def test_a_lease_of_another_boot_has_lapsed(store: RunStore, clock: FakeLeaseClock) -> None:
    leased(store, ttl=60)
    # after a reboot the clock starts low, so the written end lies far ahead
    clock.boot_id, clock.seconds = "boot 2", 3.0
    stored = store.load_run("run-1")
    assert stored is not None
    assert not stored.lease_live
    taken = store.take_lease("run-1", owner="second", ttl=60)
    assert isinstance(taken, TakenLease)
    assert taken.lease == Lease("run-1", "second", 2)
    assert not _taken(store)


def test_a_renewal_moves_a_lease_to_this_boot(store: RunStore, clock: FakeLeaseClock) -> None:
    lease = leased(store, ttl=60)
    clock.boot_id, clock.seconds = "boot 2", 3.0
    assert store.renew_leases([lease], ttl=60) == Renewal()
    found = store.take_lease("run-1", owner="second", ttl=60)
    assert isinstance(found, StoredRun)
    assert found.lease_live


def test_pruning_spares_a_leased_run_until_the_lease_ends(
    store: RunStore, clock: FakeLeaseClock
) -> None:
    finished(store, new_run())
    assert _taken(store)
    assert store.prune(finished_before=4e9) == 0
    clock.seconds += 60
    assert store.prune(finished_before=4e9) == 1


def test_the_hosts_clock_only_goes_forward() -> None:
    clock = HostLeaseClock()
    before = clock.now()
    assert before <= clock.now()
    assert clock.now() >= time.monotonic() - 1


def test_the_boot_id_stays_the_same() -> None:
    assert HostLeaseClock().boot_id == HostLeaseClock().boot_id == read_boot_id() != ""
    if sys.platform == "linux":
        boot_id = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
        assert read_boot_id() == boot_id.strip()
