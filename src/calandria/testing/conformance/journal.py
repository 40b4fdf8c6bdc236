"""Reading a journal: steps by scope and position in both directions, events by sequence."""

# A test's name says what it claims.
# ruff: noqa: D102

from __future__ import annotations

from collections.abc import Sequence

import pytest

from calandria.ports.run_store import Changes, RunStore, StepRecord
from calandria.statuses import StepStatus
from calandria.testing.conformance.harness import NOW, StoreTests, event, leased, step

_NAMES = ["a", "a[1]", "a[10]", "a[1]/b", "a/b", "ab", "a%", "a_", "A", "é"]


def _positions(steps: Sequence[StepRecord]) -> list[int]:
    return [each.position for each in steps]


class JournalConformance(StoreTests):
    """What `read_steps` and `read_events` promise."""

    @pytest.fixture
    def elements(self, store: RunStore) -> RunStore:
        """Give a store whose run has a map of ten elements, written in no order."""
        steps = [
            step(
                f"items[{n}]",
                scope="items",
                position=n,
                status=StepStatus.FAILED if n % 3 == 0 else StepStatus.COMPLETED,
            )
            for n in (7, 2, 9, 0, 4, 1, 8, 3, 6, 5)
        ]
        store.commit(leased(store), Changes(steps=steps, now=NOW))
        return store

    def test_steps_come_by_position(self, elements: RunStore) -> None:
        assert _positions(elements.read_steps("run-1", "items")) == list(range(10))

    def test_steps_come_in_the_opposite_order(self, elements: RunStore) -> None:
        found = elements.read_steps("run-1", "items", descending=True)
        assert _positions(found) == list(range(9, -1, -1))

    def test_position_zero_is_after_the_default(self, elements: RunStore) -> None:
        assert _positions(elements.read_steps("run-1", "items", limit=1)) == [0]

    @pytest.mark.parametrize(
        ("after", "before", "expected"),
        [
            (-1, None, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]),
            (3, None, [4, 5, 6, 7, 8, 9]),
            (-1, 3, [0, 1, 2]),
            (3, 6, [4, 5]),
            (3, 4, []),
            (9, None, []),
            (-1, 0, []),
        ],
    )
    def test_bounds_are_exclusive(
        self, elements: RunStore, after: int, before: int | None, expected: list[int]
    ) -> None:
        found = elements.read_steps("run-1", "items", after=after, before=before)
        assert _positions(found) == expected
        found = elements.read_steps("run-1", "items", after=after, before=before, descending=True)
        assert _positions(found) == expected[::-1]

    def test_pages_upwards_join_without_gap_or_overlap(self, elements: RunStore) -> None:
        seen: list[int] = []
        after = -1
        while page := elements.read_steps("run-1", "items", after=after, limit=3):
            seen += _positions(page)
            after = page[-1].position
        assert seen == list(range(10))

    def test_pages_downwards_join_without_gap_or_overlap(self, elements: RunStore) -> None:
        seen: list[int] = []
        before: int | None = None
        while page := elements.read_steps(
            "run-1", "items", before=before, descending=True, limit=3
        ):
            seen += _positions(page)
            before = page[-1].position
        assert seen == list(range(9, -1, -1))

    def test_statuses_filter_before_the_limit(self, elements: RunStore) -> None:
        failed = frozenset({StepStatus.FAILED})
        found = elements.read_steps("run-1", "items", statuses=failed, limit=3)
        assert _positions(found) == [0, 3, 6]
        found = elements.read_steps("run-1", "items", statuses=failed, descending=True, limit=3)
        assert _positions(found) == [9, 6, 3]
        both = frozenset({StepStatus.FAILED, StepStatus.COMPLETED})
        assert len(elements.read_steps("run-1", "items", statuses=both)) == 10
        halted = frozenset({StepStatus.HALTED})
        assert list(elements.read_steps("run-1", "items", statuses=halted)) == []

    def test_scopes_are_exact(self, store: RunStore) -> None:
        steps = [
            step(f"{scope}|{place}", scope=scope, position=place)
            for scope in ["", *_NAMES]
            for place in (0, 1)
        ]
        store.commit(leased(store), Changes(steps=steps, now=NOW))
        for scope in ["", *_NAMES]:
            found = [each.path for each in store.read_steps("run-1", scope)]
            assert found == [f"{scope}|0", f"{scope}|1"]

    def test_paths_are_exact(self, store: RunStore) -> None:
        steps = [step(name, position=place) for place, name in enumerate(_NAMES)]
        store.commit(leased(store), Changes(steps=steps, now=NOW))
        for record in steps:
            assert store.read_step("run-1", record.path) == record
        assert [each.path for each in store.read_steps("run-1", "")] == _NAMES
        assert store.read_step("run-1", "e\u0301") is None

    def test_events_page_by_sequence(self, store: RunStore) -> None:
        lease = leased(store)
        for first in (1, 11, 21):
            events = [event(number, f"kind {number}") for number in range(first, first + 10)]
            store.commit(lease, Changes(events=events, now=NOW))

        seen: list[int] = []
        after = 0
        while page := store.read_events("run-1", after=after, limit=7):
            seen += [each.sequence for each in page]
            after = page[-1].sequence
        assert seen == list(range(1, 31))
        assert [each.sequence for each in store.read_events("run-1", after=28)] == [29, 30]
