"""Many threads and processes on the same keys: nobody overlaps, and nothing is counted twice."""

# A test's name says what it claims.
# ruff: noqa: D102

from __future__ import annotations

from calandria.ports.coordination import CoordinationStore
from calandria.ports.run_store import RunStore
from calandria.testing.conformance import racers
from calandria.testing.conformance.coordination import CoordinationTests
from calandria.testing.conformance.harness import StoreFactory
from calandria.testing.conformance.races import RACERS, race, ways


class ContendingConformance(CoordinationTests):
    """Everything that is asked for at the same time."""

    def test_one_holder_at_a_time(self, store: RunStore, store_factory: StoreFactory) -> None:
        for processes in ways(store):
            key = f"lock {processes}"
            found = race(store_factory, racers.Locker(key), processes=processes)
            # who writes while another holds the key would write a token that does not rise
            tokens = [token for each in found for token in each]
            assert sorted(tokens) == list(range(1, RACERS * racers.ENTRIES + 1))
            assert all(each == sorted(each) for each in found)

    def test_one_wins_each_key(self, store: RunStore, store_factory: StoreFactory) -> None:
        for processes in ways(store):
            wanted = [f"{processes} {number}" for number in range(25)]
            found = race(store_factory, racers.Grabber(wanted, 1), processes=processes)
            assert sorted(key for won in found for key in won) == sorted(wanted)

    def test_a_semaphore_never_has_more_than_its_limit(
        self, store: RunStore, store_factory: StoreFactory
    ) -> None:
        for processes in ways(store):
            wanted = [f"{processes} {number}" for number in range(25)]
            found = race(store_factory, racers.Grabber(wanted, 3), processes=processes)
            assert sorted(key for won in found for key in won) == sorted(wanted * 3)

    def test_a_window_is_never_overdrawn(
        self, store: RunStore, store_factory: StoreFactory
    ) -> None:
        for processes in ways(store):
            found = race(store_factory, racers.Starter(f"rate {processes}"), processes=processes)
            assert sum(found) == racers.STARTS

    def test_positions_are_given_once(
        self, store: RunStore, keys: CoordinationStore, store_factory: StoreFactory
    ) -> None:
        for processes in ways(store):
            key = f"sequence {processes}"
            race(store_factory, racers.Queuer(key), processes=processes)
            positions = [each.position for each in keys.sequence(key)]
            assert positions == list(range(1, RACERS * racers.ENTRIES + 1))
