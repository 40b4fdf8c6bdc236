"""Races between processes, or threads where the back end is for one process: one winner each."""

# A test's name says what it claims.
# ruff: noqa: D102

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from typing import TypeVar

from calandria.ports.run_store import Changes, RunFilter, RunStore
from calandria.testing.conformance import racers
from calandria.testing.conformance.harness import (
    DEADLINE,
    NOW,
    StoreFactory,
    StoreTests,
    finished,
    leased,
    new_run,
)

T = TypeVar("T")

RACERS = 4


def race(
    store_factory: StoreFactory, racer: Callable[[StoreFactory, int], T], *, processes: bool
) -> list[T]:
    """Start `racer` `RACERS` times at the same moment; return what each returned."""
    numbers = range(RACERS)
    if not processes:
        racers.barrier = threading.Barrier(RACERS)
        with ThreadPoolExecutor(RACERS) as threads:
            return list(threads.map(racer, [store_factory] * RACERS, numbers))
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(RACERS)
    with ProcessPoolExecutor(
        RACERS, mp_context=context, initializer=racers.set_barrier, initargs=(barrier,)
    ) as pool:
        # each racer waits for all at the barrier, so no process can run two of them
        started = [pool.submit(racer, store_factory, number) for number in numbers]
        return [each.result(timeout=DEADLINE) for each in started]


class RacesConformance(StoreTests):
    """Everything that may be asked for at the same time."""

    def test_one_creator_wins_a_key(self, store: RunStore, store_factory: StoreFactory) -> None:
        for processes in ways(store):
            key = f"key {processes}"
            found = race(store_factory, racers.Creator(key), processes=processes)
            winners = [number for number, (won, _) in enumerate(found) if won]
            assert len(winners) == 1
            assert {run_id for _, run_id in found} == {f"{key} {winners[0]}"}
            runs = store.list_runs(RunFilter(idempotency_key=key))
            assert [each.run.id for each in runs] == [f"{key} {winners[0]}"]

    def test_one_taker_wins_each_lease(self, store: RunStore, store_factory: StoreFactory) -> None:
        for processes in ways(store):
            run_ids = [f"run {processes} {number}" for number in range(25)]
            for run_id in run_ids:
                store.create_run(new_run(run_id), Changes(now=NOW), owner=None, ttl=0)
            found = race(store_factory, racers.Taker(run_ids), processes=processes)
            assert sorted(run_id for won in found for run_id in won) == sorted(run_ids)

    def test_commits_to_one_run_count_every_one_of_the_owner(
        self, store: RunStore, store_factory: StoreFactory
    ) -> None:
        for processes in ways(store):
            run_id = f"run {processes}"
            leased(store, new_run(run_id), ttl=0)
            found = race(store_factory, racers.Usurper(run_id), processes=processes)
            written = sorted(sequence for each in found for sequence in each)
            events = store.read_events(run_id)
            assert [each.sequence for each in events] == list(range(1, len(events) + 1))
            assert [each.sequence for each in events] == written

    def test_commits_to_many_runs_all_arrive(
        self, store: RunStore, store_factory: StoreFactory
    ) -> None:
        for processes in ways(store):
            found = race(store_factory, racers.Worker(f"{processes}"), processes=processes)
            for run_id in found:
                events = store.read_events(run_id)
                assert [each.sequence for each in events] == list(range(1, racers.COMMITS + 1))
                assert len(store.read_steps(run_id, "")) == racers.COMMITS

    def test_a_new_storage_is_prepared_by_all_at_once(self, store_factory: StoreFactory) -> None:
        # one handle stays open, so that a storage in memory stays too
        keeper = store_factory()
        found = race(
            store_factory, racers.prepare_and_create, processes=keeper.capabilities.multi_process
        )
        assert sorted(each.run.id for each in keeper.list_runs(RunFilter())) == sorted(found)
        keeper.close()

    def test_pruners_share_the_work(self, store: RunStore, store_factory: StoreFactory) -> None:
        for processes in ways(store):
            for number in range(40):
                finished(store, new_run(f"run {processes} {number}"))
            found = race(store_factory, racers.prune, processes=processes)
            assert sum(found) == 40
            assert list(store.list_runs(RunFilter())) == []


def ways(store: RunStore) -> Sequence[bool]:
    """Return whether to race with processes, for each way to race on this storage."""
    return (False, True) if store.capabilities.multi_process else (False,)
