"""Listings: order, cursors, and every filter."""

# A test's name says what it claims.
# ruff: noqa: D102

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from calandria.ports.run_store import (
    Changes,
    RunCursor,
    RunFilter,
    RunHeader,
    RunStore,
    StoredRun,
)
from calandria.statuses import RollbackState, RunStatus
from calandria.testing.conformance.harness import (
    NOW,
    SHORT_TTL,
    TTL,
    StoreTests,
    eventually,
    leased,
    new_run,
)


def _ids(runs: Sequence[StoredRun]) -> list[str]:
    return [stored.run.id for stored in runs]


def _add(store: RunStore, run_id: str, header: RunHeader | None = None, **fields: Any) -> None:
    run = new_run(run_id, header=header, **fields)
    store.create_run(run, Changes(now=NOW), owner=None, ttl=TTL)


class ListingConformance(StoreTests):
    """What `list_runs` promises."""

    @pytest.fixture
    def varied(self, store: RunStore) -> RunStore:
        """Give a store with runs of every kind; `r1` is the oldest."""
        incomplete = RunHeader(RunStatus.FAILED, RollbackState.INCOMPLETE, finished_at=NOW)
        complete = RunHeader(RunStatus.FAILED, RollbackState.COMPLETE, finished_at=NOW)
        pending = RunHeader(RunStatus.CANCELLED, pending_compensation="charge", finished_at=NOW)
        aborted = RunHeader(RunStatus.ABORTED, finished_at=NOW)
        _add(store, "r1", RunHeader(RunStatus.RUNNING), created_at=NOW + 1)
        _add(store, "r2", incomplete, created_at=NOW + 2, reactor="Refund")
        _add(store, "r3", complete, created_at=NOW + 3, idempotency_key="key-3")
        _add(store, "r4", pending, created_at=NOW + 4, correlation_id="req-4")
        _add(store, "r5", aborted, created_at=NOW + 5, reactor="Refund", correlation_id="req-4")
        _add(store, "r6", RunHeader(RunStatus.PAUSED), created_at=NOW + 6)
        _add(store, "c1", aborted, created_at=NOW + 7, parent_id="r1")
        _add(store, "c2", RunHeader(RunStatus.RUNNING), created_at=NOW + 8, parent_id="r1")
        _add(store, "g1", incomplete, created_at=NOW + 9, parent_id="c1", root_id="r1")
        return store

    @pytest.mark.parametrize(
        ("where", "expected"),
        [
            (RunFilter(), "r6 r5 r4 r3 r2 r1"),
            (RunFilter(reactor="Refund"), "r5 r2"),
            (RunFilter(reactor="Nothing"), ""),
            (RunFilter(statuses=frozenset({RunStatus.FAILED})), "r3 r2"),
            (RunFilter(statuses=frozenset({RunStatus.FAILED, RunStatus.PAUSED})), "r6 r3 r2"),
            (RunFilter(statuses=frozenset(RunStatus)), "r6 r5 r4 r3 r2 r1"),
            (RunFilter(statuses=frozenset({RunStatus.COMPLETED})), ""),
            (RunFilter(needs_attention=True), "r5 r4 r2"),
            (
                RunFilter(needs_attention=True, statuses=frozenset({RunStatus.FAILED})),
                "r2",
            ),
            (RunFilter(created_after=NOW + 3), "r6 r5 r4 r3"),
            (RunFilter(created_before=NOW + 3), "r2 r1"),
            (RunFilter(created_after=NOW + 2, created_before=NOW + 5), "r4 r3 r2"),
            (RunFilter(idempotency_key="key-3"), "r3"),
            (RunFilter(correlation_id="req-4"), "r5 r4"),
            (RunFilter(correlation_id="req-4", reactor="Refund"), "r5"),
            (RunFilter(parent_id="r1"), "c2 c1"),
            (RunFilter(parent_id="r1", statuses=frozenset({RunStatus.RUNNING})), "c2"),
            (RunFilter(parent_id="c1"), "g1"),
            (RunFilter(parent_id="c1", needs_attention=True), "g1"),
            (RunFilter(parent_id="r2"), ""),
        ],
    )
    def test_every_filter(self, varied: RunStore, where: RunFilter, expected: str) -> None:
        assert _ids(varied.list_runs(where)) == expected.split()
        # the same, a run at a time
        seen: list[str] = []
        after = None
        while page := varied.list_runs(where, after=after, limit=1):
            seen += _ids(page)
            after = RunCursor(page[-1].run.created_at, page[-1].run.id)
        assert seen == expected.split()

    def test_a_listed_run_is_the_run_as_loaded(self, store: RunStore, other: RunStore) -> None:
        leased(store, new_run(idempotency_key="key", correlation_id="req"))
        assert list(other.list_runs(RunFilter())) == [store.load_run("run-1")]

    def test_equal_instants_are_ordered_by_id(self, store: RunStore) -> None:
        for run_id in ("b", "d", "a", "e", "c"):
            _add(store, run_id)
        assert _ids(store.list_runs(RunFilter())) == ["e", "d", "c", "b", "a"]

    def test_pages_through_equal_instants_have_no_gap_and_no_overlap(self, store: RunStore) -> None:
        statuses = [*RunStatus]
        for number in range(30):
            header = RunHeader(statuses[number % len(statuses)])
            _add(store, f"r{number:02}", header, created_at=NOW + number // 10)
        everything = [f"r{number:02}" for number in range(29, -1, -1)]
        for where in (RunFilter(), RunFilter(statuses=frozenset(RunStatus))):
            seen: list[str] = []
            after = None
            while page := store.list_runs(where, after=after, limit=7):
                seen += _ids(page)
                after = RunCursor(page[-1].run.created_at, page[-1].run.id)
            assert seen == everything

    def test_runs_made_while_paging_do_not_disturb_it(self, store: RunStore) -> None:
        for number in range(4):
            _add(store, f"r{number}", created_at=NOW + number)
        page = store.list_runs(RunFilter(), limit=2)
        _add(store, "r9", created_at=NOW + 9)
        cursor = RunCursor(page[-1].run.created_at, page[-1].run.id)
        assert _ids(page) + _ids(store.list_runs(RunFilter(), after=cursor)) == [
            "r3",
            "r2",
            "r1",
            "r0",
        ]

    def test_a_run_that_moves_on_changes_its_place_in_filters(self, store: RunStore) -> None:
        lease = leased(store)
        running = RunFilter(statuses=frozenset({RunStatus.RUNNING}))
        attention = RunFilter(needs_attention=True)
        assert _ids(store.list_runs(running)) == ["run-1"]
        bad = RunHeader(RunStatus.FAILED, RollbackState.INCOMPLETE, finished_at=NOW)
        store.commit(lease, Changes(header=bad, now=NOW))
        assert _ids(store.list_runs(running)) == []
        assert _ids(store.list_runs(attention)) == ["run-1"]
        good = RunHeader(RunStatus.FAILED, RollbackState.COMPLETE, finished_at=NOW)
        store.commit(lease, Changes(header=good, now=NOW))
        assert _ids(store.list_runs(attention)) == []

    def test_a_listing_sees_leases_by_the_storages_clock(self, store: RunStore) -> None:
        leased(store, new_run("long"))
        leased(store, new_run("short"), ttl=SHORT_TTL)

        def only_one_live() -> list[str] | None:
            live = [each.run.id for each in store.list_runs(RunFilter()) if each.lease_live]
            return live if len(live) == 1 else None

        assert eventually(only_one_live) == ["long"]
