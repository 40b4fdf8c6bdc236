"""Rate limits and periods: how often, and whether at all, in a stretch of time."""

# A test's name says what it claims.
# ruff: noqa: D102

from __future__ import annotations

import pytest

from calandria.ports.coordination import (
    CoordinationStore,
    PeriodMark,
    PeriodRequest,
    RateRequest,
    Refusal,
    TurnEnd,
)
from calandria.testing.conformance.coordination import (
    CoordinationTests,
    ask,
    granted,
    lock,
    refused,
)

MINUTE = 1_800_000_000.0
"""An instant at which a minute, and an hour, begin."""


def rate(*windows: tuple[int, int], key: str = "api") -> RateRequest:
    """Return one more start under a key."""
    return RateRequest(key, windows)


class GatingConformance(CoordinationTests):
    """Everything a store promises of windows and marks."""

    def test_a_window_has_room_for_its_limit(self, keys: CoordinationStore) -> None:
        for _ in range(3):
            granted(keys.acquire(ask("a", rates=[rate((60, 3))], now=MINUTE + 59.9)))
        answer = refused(
            keys.acquire(ask("b", rates=[rate((60, 3))], now=MINUTE + 59.9)), Refusal.RATE
        )
        assert (answer.primitive, answer.key) == ("RateLimit", "api")
        assert answer.retry_after == pytest.approx(0.1)
        granted(keys.acquire(ask("b", rates=[rate((60, 3))], now=MINUTE + 60)))
        granted(keys.acquire(ask("b", rates=[rate((60, 3), key="other")], now=MINUTE + 59)))

    def test_several_windows_count_together_or_not_at_all(self, keys: CoordinationStore) -> None:
        both = rate((1, 1), (60, 2))
        granted(keys.acquire(ask("a", rates=[both], now=MINUTE)))
        for _ in range(5):
            # the second is used up: the minute must not be charged
            answer = refused(keys.acquire(ask("a", rates=[both], now=MINUTE + 0.5)), Refusal.RATE)
            assert answer.retry_after == pytest.approx(0.5)
        granted(keys.acquire(ask("a", rates=[both], now=MINUTE + 1)))
        answer = refused(keys.acquire(ask("a", rates=[both], now=MINUTE + 1)), Refusal.RATE)
        assert answer.retry_after == pytest.approx(59)
        assert "2 starts in 60 s" in answer.detail

    def test_a_refused_key_costs_no_start(self, keys: CoordinationStore) -> None:
        granted(keys.acquire(ask("holder", lock())))
        for _ in range(3):
            refused(keys.acquire(ask("a", lock(), rates=[rate((60, 1))], now=MINUTE)), Refusal.HELD)
        keys.release("holder", "step")
        granted(keys.acquire(ask("a", lock(), rates=[rate((60, 1))], now=MINUTE)))
        refused(keys.acquire(ask("b", rates=[rate((60, 1))], now=MINUTE)), Refusal.RATE)

    def test_limits_whose_keys_came_out_equal_count_one_start(
        self, keys: CoordinationStore
    ) -> None:
        twice = [rate((60, 2)), rate((60, 3))]
        granted(keys.acquire(ask("a", rates=twice, now=MINUTE)))
        granted(keys.acquire(ask("a", rates=twice, now=MINUTE)))
        refused(keys.acquire(ask("a", rates=twice, now=MINUTE)), Refusal.RATE)
        granted(keys.acquire(ask("a", rates=[rate((60, 3))], now=MINUTE)))

    def test_a_mark_keeps_others_out_of_its_bucket(self, keys: CoordinationStore) -> None:
        today, tomorrow = (
            PeriodRequest("report", "2027-01-15"),
            PeriodRequest("report", "2027-01-16"),
        )
        granted(keys.acquire(ask("a", periods=[today])))
        # no mark is left by a grant: that takes a success
        granted(keys.acquire(ask("b", periods=[today])))
        _leave(keys, "a")
        answer = refused(keys.acquire(ask("b", periods=[today])), Refusal.PERIOD)
        assert (answer.primitive, answer.key, list(answer.holders)) == ("Period", "report", ["a"])
        granted(keys.acquire(ask("b", periods=[tomorrow])))
        # nor is who made it kept out of it: a recovery does its own work again
        granted(keys.acquire(ask("a", periods=[today])))

    def test_the_first_mark_stays(self, keys: CoordinationStore) -> None:
        _leave(keys, "a")
        _leave(keys, "b")
        today = PeriodRequest("report", "2027-01-15")
        answer = refused(keys.acquire(ask("b", periods=[today])), Refusal.PERIOD)
        assert list(answer.holders) == ["a"]

    def test_work_without_a_run_settles_everything_at_once(self, keys: CoordinationStore) -> None:
        granted(keys.acquire(ask("a", lock())))
        _leave(keys, "a", ends=[TurnEnd("nothing", "step", failed=False)])
        assert list(keys.holds()) == []


def _leave(keys: CoordinationStore, execution: str, ends: list[TurnEnd] | None = None) -> None:
    mark = PeriodMark("report", "2027-01-15", execution, "step")
    keys.settle(execution, "step", marks=[mark], turn_ends=ends or [], now=MINUTE)
