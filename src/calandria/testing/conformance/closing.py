"""Preparation and closing: harmless twice, and nothing left behind."""

# A test's name says what it claims.
# ruff: noqa: D102

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from calandria.errors import StorageError
from calandria.ports.run_store import Changes, Lease, RunFilter, RunStore
from calandria.testing.conformance.harness import (
    NOW,
    TTL,
    StoreFactory,
    StoreTests,
    event,
    leased,
    new_run,
)

_DESCRIPTORS = "/proc/self/fd" if sys.platform == "linux" else "/dev/fd"


class ClosingConformance(StoreTests):
    """What `prepare`, `migrate`, `close` and `capabilities` promise."""

    def test_preparing_again_keeps_everything(self, store: RunStore, other: RunStore) -> None:
        leased(store)
        other.prepare()
        store.prepare()
        assert other.load_run("run-1") is not None

    def test_a_prepared_storage_needs_no_migration(self, store: RunStore) -> None:
        assert list(store.migrate()) == []

    def test_migrating_prepares_a_new_storage(self, store_factory: StoreFactory) -> None:
        store = store_factory()
        assert list(store.migrate()) != []
        store.prepare()
        leased(store)
        store.close()

    def test_a_closed_store_refuses_everything(self, store: RunStore) -> None:
        lease = leased(store)
        store.close()
        store.close()
        for use in (
            store.prepare,
            store.migrate,
            lambda: store.create_run(new_run("run-2"), Changes(), owner=None, ttl=TTL),
            lambda: store.take_lease("run-1", owner="x", ttl=TTL),
            lambda: store.renew_leases([lease], ttl=TTL),
            lambda: store.commit(lease, Changes()),
            lambda: store.load_run("run-1"),
            lambda: store.read_step("run-1", "a"),
            lambda: store.read_steps("run-1", ""),
            lambda: store.read_events("run-1"),
            lambda: store.list_runs(RunFilter()),
            lambda: store.find_key("Checkout", "key"),
            lambda: store.request_cancel("run-1", "x"),
            lambda: store.prune(finished_before=NOW),
        ):
            with pytest.raises(StorageError, match="closed"):
                use()

    def test_durability_is_as_declared(self, store: RunStore, store_factory: StoreFactory) -> None:
        leased(store)
        durable = store.capabilities.durable
        store.close()
        again = store_factory()
        if durable:
            again.prepare()
            assert again.load_run("run-1") is not None
        else:
            with pytest.raises(StorageError):
                again.load_run("run-1")
        again.close()

    def test_nothing_is_left_open(self, store_factory: StoreFactory) -> None:
        before = len(os.listdir(_DESCRIPTORS))
        store = store_factory()
        store.prepare()
        leased(store)
        with ThreadPoolExecutor(8) as pool:
            for found in pool.map(lambda _: store.load_run("run-1"), range(200)):
                assert found is not None
        lease = Lease("run-1", "first", 1)
        store.commit(lease, Changes(events=[event(1)], now=NOW))
        store.close()
        assert len(os.listdir(_DESCRIPTORS)) == before
