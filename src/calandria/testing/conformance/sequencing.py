"""Ordered sequences: one at a time, in order, whoever dies, fails, or is passed."""

# A test's name says what it claims.
# ruff: noqa: D102

from __future__ import annotations

from calandria.ports.coordination import CoordinationStore, Granted, Refusal, TurnEnd
from calandria.ports.run_store import Changes, RunStore
from calandria.testing.conformance.coordination import (
    CoordinationTests,
    ask,
    granted,
    lock,
    refused,
    turn,
)
from calandria.testing.conformance.harness import (
    NOW,
    SHORT_TTL,
    TTL,
    eventually,
    finished,
    leased,
    new_run,
)


class SequencingConformance(CoordinationTests):
    """Everything a store promises of turns."""

    def test_turns_come_in_the_order_of_positions(self, keys: CoordinationStore) -> None:
        for name in ("a", "b", "c"):
            keys.assign(ask(name, turns=[turn()]))
        answer = refused(keys.acquire(ask("c", turns=[turn()])), Refusal.TURN)
        assert (answer.primitive, answer.key, list(answer.holders)) == ("OrderedLock", "k", ["a"])
        for name in ("a", "b", "c"):
            granted(keys.acquire(ask(name, turns=[turn()])))
            _end(keys, name)
        assert list(keys.sequence("k")) == []

    def test_an_active_turn_is_one_at_a_time(self, keys: CoordinationStore) -> None:
        granted(keys.acquire(ask("a", turns=[turn()])))
        refused(keys.acquire(ask("b", turns=[turn()])), Refusal.TURN)
        granted(keys.acquire(ask("a", turns=[turn()])))
        assert [each.state for each in keys.sequence("k")] == ["active", "waiting"]

    def test_a_position_is_assigned_once(self, keys: CoordinationStore) -> None:
        for _ in range(3):
            for name in ("a", "b"):
                keys.assign(ask(name, turns=[turn()]))
        assert [(each.position, each.execution) for each in keys.sequence("k")] == [
            (1, "a"),
            (2, "b"),
        ]

    def test_who_does_not_wait_hands_its_position_back(self, keys: CoordinationStore) -> None:
        granted(keys.acquire(ask("a", turns=[turn()])))
        refused(keys.acquire(ask("b", turns=[turn(keep=False)])), Refusal.TURN)
        refused(keys.acquire(ask("c", turns=[turn()])), Refusal.TURN)
        _end(keys, "a")
        granted(keys.acquire(ask("c", turns=[turn()])))

    def test_a_failure_ends_a_strict_chain(self, keys: CoordinationStore) -> None:
        for name in ("a", "b", "c"):
            keys.assign(ask(name, turns=[turn()]))
        granted(keys.acquire(ask("a", turns=[turn()])))
        _end(keys, "a", failed=True)
        refused(keys.acquire(ask("b", turns=[turn()])), Refusal.CHAIN_FAILED)
        refused(keys.acquire(ask("c", turns=[turn()])), Refusal.CHAIN_FAILED)
        # drained: the next batch starts anew
        granted(keys.acquire(ask("d", turns=[turn()])))
        assert [each.position for each in keys.sequence("k")] == [1]

    def test_a_failure_does_not_end_a_lenient_chain(self, keys: CoordinationStore) -> None:
        for name in ("a", "b"):
            keys.assign(ask(name, turns=[turn(strict=False)]))
        granted(keys.acquire(ask("a", turns=[turn(strict=False)])))
        _end(keys, "a", failed=True)
        granted(keys.acquire(ask("b", turns=[turn(strict=False)])))

    def test_a_position_that_proves_no_life_is_passed(
        self, store: RunStore, keys: CoordinationStore
    ) -> None:
        leased(store, new_run("dead"), ttl=0)
        granted(keys.acquire(ask("dead", turns=[turn()])))
        refused(keys.acquire(ask("b", turns=[turn(poison=TTL)])), Refusal.TURN)
        eventually(lambda: _granted_or_none(keys, "b"))
        _end(keys, "b")
        # the sequence has drained, and who was passed is told all the same
        refused(keys.acquire(ask("dead", turns=[turn()])), Refusal.STALE)
        granted(keys.acquire(ask("c", turns=[turn()])))

    def test_a_living_position_is_never_passed(
        self, store: RunStore, keys: CoordinationStore
    ) -> None:
        leased(store, new_run("alive"))
        granted(keys.acquire(ask("alive", turns=[turn()])))
        refused(keys.acquire(ask("b", turns=[turn(poison=0)])), Refusal.TURN)
        finished(store, new_run("over"))
        keys.assign(ask("over", turns=[turn("other")]))
        granted(keys.acquire(ask("b", turns=[turn("other", poison=0)])))

    def test_renewing_proves_life(self, keys: CoordinationStore) -> None:
        holds = granted(keys.acquire(ask("a", lock("l"), turns=[turn()])))
        waits = 0
        while waits < 5:
            assert list(keys.renew(holds, ttls=[TTL])) == []
            # just proved: not passed, however short what is granted
            refused(keys.acquire(ask("b", turns=[turn(poison=SHORT_TTL * 20)])), Refusal.TURN)
            waits += 1

    def test_an_end_counts_once(self, keys: CoordinationStore) -> None:
        for name in ("a", "b", "c"):
            keys.assign(ask(name, turns=[turn()]))
        granted(keys.acquire(ask("a", turns=[turn()])))
        _end(keys, "a")
        _end(keys, "a", failed=True)
        granted(keys.acquire(ask("b", turns=[turn()])))
        refused(keys.acquire(ask("c", turns=[turn()])), Refusal.TURN)

    def test_an_operator_skips_and_resets(self, keys: CoordinationStore) -> None:
        for name in ("a", "b", "c"):
            keys.assign(ask(name, turns=[turn()]))
        assert keys.skip("k", 1)
        assert not keys.skip("k", 1)
        assert not keys.skip("k", 9)
        granted(keys.acquire(ask("b", turns=[turn()])))
        refused(keys.acquire(ask("a", turns=[turn()])), Refusal.STALE)
        assert keys.reset("k") == 3
        assert keys.reset("k") == 0
        granted(keys.acquire(ask("d", turns=[turn()])))

    def test_nothing_else_is_taken_out_of_turn(self, keys: CoordinationStore) -> None:
        granted(keys.acquire(ask("a", turns=[turn()])))
        refused(keys.acquire(ask("b", lock("l"), turns=[turn()])), Refusal.TURN)
        granted(keys.acquire(ask("c", lock("l"))))

    def test_pruned_runs_leave_no_position(self, store: RunStore, keys: CoordinationStore) -> None:
        finished(store, new_run("over"), at=NOW)
        keys.assign(ask("over", turns=[turn()]))
        store.prune(finished_before=NOW + 1)
        assert list(keys.sequence("k")) == []
        store.create_run(new_run("new"), Changes(now=NOW), owner=None, ttl=0)


def _end(keys: CoordinationStore, execution: str, *, failed: bool = False) -> None:
    ends = [TurnEnd("k", "step", failed)]
    keys.settle(execution, "step", marks=[], turn_ends=ends, now=NOW)


def _granted_or_none(keys: CoordinationStore, execution: str) -> Granted | None:
    answer = keys.acquire(ask(execution, turns=[turn(poison=SHORT_TTL)]))
    return answer if isinstance(answer, Granted) else None
