"""Runs that are parked for keys: who is woken by what, and which waits can never end."""

# A test's name says what it claims.
# ruff: noqa: D102

from __future__ import annotations

from calandria.ports.coordination import CoordinationStore, TurnEnd
from calandria.ports.run_store import Changes, CoordinationChanges, RunStore
from calandria.testing.conformance.coordination import (
    CoordinationTests,
    ask,
    granted,
    lock,
    note_wait,
    park,
    parked,
    place,
    turn,
    woken,
)
from calandria.testing.conformance.harness import NOW, finished, leased, new_run


class WaitingConformance(CoordinationTests):
    """Everything a store promises of waits."""

    def test_a_release_wakes_who_has_waited_longest(
        self, store: RunStore, keys: CoordinationStore
    ) -> None:
        granted(keys.acquire(ask("holder", lock())))
        for number, name in enumerate(("b", "a", "c")):
            parked(store, name, "k", ["holder"], now=NOW + number)
        assert [waiter.run_id for waiter in keys.waiters()] == ["b", "a", "c"]
        assert woken(store) == []
        keys.release("holder", "step")
        assert woken(store) == ["b"]

    def test_a_release_with_a_commit_wakes_too(
        self, store: RunStore, keys: CoordinationStore
    ) -> None:
        lease = leased(store, new_run("holder"))
        granted(keys.acquire(ask("holder", lock())))
        parked(store, "b", "k", ["holder"])
        store.commit(lease, Changes(coordination=CoordinationChanges(["step"], now=NOW), now=NOW))
        assert woken(store) == ["b"]

    def test_a_release_before_the_wait_is_noted_is_not_missed(
        self, store: RunStore, keys: CoordinationStore
    ) -> None:
        granted(keys.acquire(ask("holder", lock())))
        keys.release("holder", "step")
        parked(store, "b", "k", ["holder"])
        assert woken(store) == ["b"]

    def test_a_release_before_the_run_is_put_down_is_not_missed(
        self, store: RunStore, keys: CoordinationStore
    ) -> None:
        granted(keys.acquire(ask("holder", lock())))
        store.create_run(new_run("b"), Changes(now=NOW), owner=None, ttl=0)
        note_wait(store, "b", "k", ["holder"])
        keys.release("holder", "step")
        park(store, "b")
        assert woken(store) == ["b"]

    def test_a_place_that_came_free_is_not_missed(
        self, store: RunStore, keys: CoordinationStore
    ) -> None:
        for name in ("x", "y"):
            granted(keys.acquire(ask(name, place())))
        parked(store, "a", "k", ["x", "y"])
        assert woken(store) == []
        keys.release("x", "step")
        parked(store, "b", "k", ["x", "y"], now=NOW + 1)
        assert sorted(woken(store)) == ["a", "b"]

    def test_each_place_that_comes_free_wakes_one(
        self, store: RunStore, keys: CoordinationStore
    ) -> None:
        for name in ("x", "y"):
            granted(keys.acquire(ask(name, place())))
        for number, name in enumerate(("a", "b", "c")):
            parked(store, name, "k", ["x", "y"], now=NOW + number)
        keys.release("x", "step")
        keys.release("y", "step")
        assert sorted(woken(store)) == ["a", "b"]

    def test_a_place_too_many_for_one_run_is_passed_on(
        self, store: RunStore, keys: CoordinationStore
    ) -> None:
        for name in ("x", "y"):
            granted(keys.acquire(ask(name, place())))
        for number, name in enumerate(("a", "b")):
            parked(store, name, "k", ["x", "y"], now=NOW + number)
        keys.release("x", "step")
        assert woken(store) == ["a"]
        # the second place comes free while the first run is on its way
        keys.release("y", "step")
        granted(keys.acquire(ask("a", place())))
        assert "b" in woken(store)

    def test_who_waits_for_another_key_now_passes_the_wake_on(
        self, store: RunStore, keys: CoordinationStore
    ) -> None:
        for key in ("k", "l"):
            granted(keys.acquire(ask(f"holder of {key}", lock(key))))
        parked(store, "a", "k", ["holder of k"])
        parked(store, "b", "k", ["holder of k"], now=NOW + 1)
        keys.release("holder of k", "step")
        assert woken(store) == ["a"]
        note_wait(store, "a", "l", ["holder of l"])
        assert woken(store) == ["b"]
        assert [(each.run_id, each.key) for each in keys.waiters()] == [("a", "l"), ("b", "k")]

    def test_who_gives_up_passes_the_wake_on(
        self, store: RunStore, keys: CoordinationStore
    ) -> None:
        granted(keys.acquire(ask("holder", lock())))
        parked(store, "a", "k", ["holder"])
        parked(store, "b", "k", ["holder"], now=NOW + 1)
        keys.release("holder", "step")
        assert woken(store) == ["a"]
        keys.stop_waiting("a", "k")
        keys.stop_waiting("a", "k")
        assert woken(store) == ["b"]

    def test_a_run_that_has_ended_swallows_no_wake(
        self, store: RunStore, keys: CoordinationStore
    ) -> None:
        granted(keys.acquire(ask("holder", lock())))
        finished(store, new_run("a"))
        note_wait(store, "a", "k", ["holder"])
        parked(store, "b", "k", ["holder"], now=NOW + 1)
        keys.release("holder", "step")
        assert woken(store) == ["b"]
        assert [waiter.run_id for waiter in keys.waiters()] == ["b"]

    def test_the_end_of_a_turn_wakes_the_next_in_turn(
        self, store: RunStore, keys: CoordinationStore
    ) -> None:
        for name in ("a", "b", "c"):
            keys.assign(ask(name, turns=[turn()]))
        parked(store, "c", "turn:k", ["a"])
        parked(store, "b", "turn:k", ["a"], now=NOW + 1)
        granted(keys.acquire(ask("a", turns=[turn()])))
        assert woken(store) == []
        keys.settle("a", "step", marks=[], turn_ends=[TurnEnd("k", "step", False)], now=NOW)
        assert woken(store) == ["b"]

    def test_a_turn_that_came_before_the_wait_is_noted_is_not_missed(
        self, store: RunStore, keys: CoordinationStore
    ) -> None:
        for name in ("a", "b"):
            keys.assign(ask(name, turns=[turn()]))
        keys.settle("a", "step", marks=[], turn_ends=[TurnEnd("k", "step", False)], now=NOW)
        parked(store, "b", "turn:k", ["a"])
        assert woken(store) == ["b"]

    def test_tries_count_what_no_release_brought_about(
        self, store: RunStore, keys: CoordinationStore
    ) -> None:
        granted(keys.acquire(ask("holder", lock())))
        parked(store, "a", "k", ["holder"])
        waits = [
            keys.wait_for("a", "k", label="Reactor.step", now=NOW, holders=["holder"])
            for _ in range(3)
        ]
        assert [wait.tries for wait in waits] == [2, 3, 4]
        keys.release("holder", "step")
        granted(keys.acquire(ask("barger", lock())))
        wait = keys.wait_for("a", "k", label="Reactor.step", now=NOW, holders=["barger"])
        assert wait.tries == 4
        keys.release("barger", "step")
        granted(keys.acquire(ask("a", lock())))
        assert list(keys.waiters()) == []
        keys.release("a", "step")
        granted(keys.acquire(ask("holder", lock())))
        wait = keys.wait_for("a", "k", label="Reactor.step", now=NOW, holders=["holder"])
        assert wait.tries == 1

    def test_a_wait_that_would_close_a_circle_is_refused(
        self, store: RunStore, keys: CoordinationStore
    ) -> None:
        for name, key in (("a", "x"), ("b", "y"), ("c", "z")):
            granted(keys.acquire(ask(name, lock(key))))
        parked(store, "a", "y", ["b"])
        parked(store, "b", "z", ["c"])
        wait = keys.wait_for("c", "x", label="Reactor.step", now=NOW, holders=["a"])
        assert list(wait.circle) == ["c", "a", "b"]
        assert [waiter.run_id for waiter in keys.waiters()] == ["a", "b"]

    def test_a_circle_of_holds_and_turns_is_seen(
        self, store: RunStore, keys: CoordinationStore
    ) -> None:
        for name in ("a", "b"):
            keys.assign(ask(name, turns=[turn()]))
        granted(keys.acquire(ask("b", lock("x"), path="")))
        parked(store, "b", "turn:k", ["a"])
        wait = keys.wait_for("a", "x", label="Reactor.step", now=NOW, holders=["b"])
        assert list(wait.circle) == ["a", "b"]

    def test_a_circle_is_seen_behind_those_who_only_wait_for_their_turn(
        self, store: RunStore, keys: CoordinationStore
    ) -> None:
        for name in ("a", "b", "c", "d"):
            keys.assign(ask(name, turns=[turn()]))
        granted(keys.acquire(ask("d", lock("x"), path="")))
        for name in ("b", "c", "d"):
            parked(store, name, "turn:k", ["a"])
        wait = keys.wait_for("a", "x", label="Reactor.step", now=NOW, holders=["d"])
        assert list(wait.circle) == ["a", "d"]
        keys.release("d", "")
        granted(keys.acquire(ask("outside", lock("x"))))
        wait = keys.wait_for("a", "x", label="Reactor.step", now=NOW, holders=["outside"])
        assert not wait.circle
