"""Locks and semaphores: who gets in, who re-enters, what lapses, and what the tokens say."""

# A test's name says what it claims.
# ruff: noqa: D102

from __future__ import annotations

from calandria.ports.coordination import CoordinationStore, Granted, Hold, HoldKind, Refusal
from calandria.testing.conformance.coordination import (
    CoordinationTests,
    ask,
    granted,
    lock,
    place,
    refused,
)
from calandria.testing.conformance.harness import NOW, SHORT_TTL, TTL, eventually


class HoldingConformance(CoordinationTests):
    """Everything a store promises of holds."""

    # one holder, or `limit`

    def test_a_lock_has_one_holder(self, keys: CoordinationStore) -> None:
        (hold,) = granted(keys.acquire(ask("a", lock())))
        assert hold == Hold(HoldKind.LOCK, "k", "a", "step", "Reactor.step", 1, NOW, TTL)
        answer = refused(keys.acquire(ask("b", lock())), Refusal.HELD)
        assert (answer.primitive, answer.key, list(answer.holders)) == ("Lock", "k", ["a"])
        granted(keys.acquire(ask("b", lock("another"))))
        assert keys.release("a", "step") == ["k"]
        granted(keys.acquire(ask("b", lock())))

    def test_a_semaphore_has_as_many_holders_as_its_limit(self, keys: CoordinationStore) -> None:
        for name in ("a", "b", "c"):
            granted(keys.acquire(ask(name, place(limit=3))))
        answer = refused(keys.acquire(ask("d", place(limit=3))), Refusal.HELD)
        assert (answer.primitive, sorted(answer.holders)) == ("Semaphore", ["a", "b", "c"])
        keys.release("b", "step")
        granted(keys.acquire(ask("d", place(limit=3))))
        refused(keys.acquire(ask("e", place(limit=3))), Refusal.HELD)

    def test_a_key_is_of_one_kind_while_it_is_held(self, keys: CoordinationStore) -> None:
        granted(keys.acquire(ask("a", lock())))
        refused(keys.acquire(ask("b", place())), Refusal.MIXED)
        keys.release("a", "step")
        granted(keys.acquire(ask("b", place())))
        refused(keys.acquire(ask("a", lock())), Refusal.MIXED)

    def test_all_or_nothing_is_taken(self, keys: CoordinationStore) -> None:
        granted(keys.acquire(ask("a", lock("z"))))
        answer = refused(keys.acquire(ask("b", place("x"), lock("z"), lock("y"))), Refusal.HELD)
        assert answer.key == "z"
        assert list(keys.holds(execution="b")) == []
        granted(keys.acquire(ask("c", lock("y"), place("x", 1))))

    def test_keys_that_came_out_equal_count_once(self, keys: CoordinationStore) -> None:
        holds = granted(keys.acquire(ask("a", lock(ttl=SHORT_TTL), lock())))
        assert [(hold.key, hold.expires_in) for hold in holds] == [("k", TTL)]
        assert list(keys.renew(holds, ttls=[TTL])) == []
        refused(keys.acquire(ask("b", lock("n"), place("n"))), Refusal.MIXED)

    # paths

    def test_taking_is_idempotent_per_path(self, keys: CoordinationStore) -> None:
        (first,) = granted(keys.acquire(ask("a", lock())))
        (again,) = granted(keys.acquire(ask("a", lock())))
        assert again.token == first.token
        keys.release("a", "step")
        granted(keys.acquire(ask("b", lock())))

    def test_what_is_nested_re_enters(self, keys: CoordinationStore) -> None:
        (outer,) = granted(keys.acquire(ask("a", lock(), path="")))
        for path in ("step", "step/inner", "map[3]", "step/inner[0]/deep"):
            (inner,) = granted(keys.acquire(ask("a", lock(), path=path)))
            assert inner.token == outer.token
        for path in ("step", "map[3]", "step/inner", "step/inner[0]/deep"):
            keys.release("a", path)
            refused(keys.acquire(ask("b", lock())), Refusal.HELD)
        keys.release("a", "")
        granted(keys.acquire(ask("b", lock())))

    def test_siblings_contend_like_strangers(self, keys: CoordinationStore) -> None:
        granted(keys.acquire(ask("a", lock(), path="step")))
        for path in ("steps", "other", "st", "step2/inner"):
            answer = refused(keys.acquire(ask("a", lock(), path=path)), Refusal.HELD)
            assert list(answer.holders) == ["a"]

    def test_a_re_entry_takes_no_place(self, keys: CoordinationStore) -> None:
        granted(keys.acquire(ask("a", place(), path="step")))
        granted(keys.acquire(ask("a", place(), path="step/inner")))
        granted(keys.acquire(ask("b", place())))
        refused(keys.acquire(ask("c", place())), Refusal.HELD)

    def test_a_key_is_free_when_the_last_path_lets_go(self, keys: CoordinationStore) -> None:
        granted(keys.acquire(ask("a", lock(), path="step")))
        granted(keys.acquire(ask("a", lock(), path="step/inner")))
        keys.release("a", "step")
        refused(keys.acquire(ask("b", lock())), Refusal.HELD)
        keys.release("a", "step/inner")
        granted(keys.acquire(ask("b", lock())))

    def test_letting_go_is_idempotent(self, keys: CoordinationStore) -> None:
        granted(keys.acquire(ask("a", lock("x"), lock("y"), place("z"))))
        granted(keys.acquire(ask("a", lock("w"), path="other")))
        assert sorted(keys.release("a", "step")) == ["x", "y", "z"]
        assert list(keys.release("a", "step")) == []
        assert [hold.key for hold in keys.holds()] == ["w"]

    def test_drop_lets_go_of_all_but_what_is_kept(self, keys: CoordinationStore) -> None:
        for path in ("", "step", "other"):
            granted(keys.acquire(ask("a", lock(path or "whole"), path=path)))
        granted(keys.acquire(ask("b", lock("k"))))
        keys.drop("a", keep=["", "other"])
        assert sorted(hold.key for hold in keys.holds()) == ["k", "other", "whole"]

    # time

    def test_a_hold_expires_by_itself(self, keys: CoordinationStore) -> None:
        (old,) = granted(keys.acquire(ask("a", lock(ttl=SHORT_TTL))))
        refused(keys.acquire(ask("b", lock())), Refusal.HELD)
        new = _get_in(keys, "b")
        assert new.token > old.token
        assert [hold.execution for hold in keys.holds()] == ["b"]

    def test_a_place_expires_by_itself(self, keys: CoordinationStore) -> None:
        granted(keys.acquire(ask("a", place(ttl=SHORT_TTL))))
        granted(keys.acquire(ask("b", place())))
        eventually(lambda: _or_none(keys.acquire(ask("c", place()))))
        refused(keys.acquire(ask("d", place())), Refusal.HELD)

    def test_a_hold_that_is_renewed_does_not_expire(self, keys: CoordinationStore) -> None:
        holds = granted(keys.acquire(ask("a", lock("x", ttl=SHORT_TTL), lock("y", ttl=SHORT_TTL))))
        assert list(keys.renew(holds, ttls=[TTL, SHORT_TTL])) == []
        _get_in(keys, "b", "y")
        refused(keys.acquire(ask("b", lock("x"))), Refusal.HELD)

    def test_a_lapsed_hold_that_nobody_took_is_extended(self, keys: CoordinationStore) -> None:
        holds = granted(keys.acquire(ask("a", lock(ttl=0))))
        assert list(keys.holds()) == []
        assert list(keys.renew(holds, ttls=[TTL])) == []
        refused(keys.acquire(ask("b", lock())), Refusal.HELD)

    def test_a_hold_that_another_took_is_lost(self, keys: CoordinationStore) -> None:
        (old,) = granted(keys.acquire(ask("a", lock(ttl=0))))
        granted(keys.acquire(ask("b", lock())))
        assert list(keys.renew([old], ttls=[TTL])) == [old]
        keys.release("b", "step")
        assert list(keys.renew([old], ttls=[TTL])) == [old]

    def test_a_hold_that_was_let_go_is_lost(self, keys: CoordinationStore) -> None:
        (hold,) = granted(keys.acquire(ask("a", lock())))
        keys.release("a", "step")
        assert list(keys.renew([hold], ttls=[TTL])) == [hold]

    # tokens

    def test_tokens_rise_with_every_grant(self, keys: CoordinationStore) -> None:
        tokens: list[int] = []
        for name in ("a", "b", "a", "c"):
            (hold,) = granted(keys.acquire(ask(name, lock())))
            tokens.append(hold.token)
            keys.release(name, "step")
        assert tokens == sorted(set(tokens))

    def test_who_takes_a_run_up_gets_its_holds_with_new_tokens(
        self, keys: CoordinationStore
    ) -> None:
        (outer,) = granted(keys.acquire(ask("a", lock(), path="")))
        (inner,) = granted(keys.acquire(ask("a", lock(), path="step")))
        adopted = keys.adopt("a", now=NOW)
        assert sorted(hold.path for hold in adopted) == ["", "step"]
        assert all(hold.token > outer.token for hold in adopted)
        assert {hold.token for hold in granted(keys.acquire(ask("a", lock(), path="step")))} == {
            hold.token for hold in adopted
        }
        assert list(keys.renew([outer, inner], ttls=[TTL, TTL])) == [outer, inner]
        assert list(keys.renew(adopted, ttls=[TTL, TTL])) == []

    def test_who_takes_a_run_up_never_shares_a_token(self, keys: CoordinationStore) -> None:
        (old,) = granted(keys.acquire(ask("a", lock(ttl=0))))
        assert list(keys.adopt("a", now=NOW)) == []
        # the stopped process wakes, and renews what had lapsed
        assert list(keys.renew([old], ttls=[TTL])) == [old]
        (new,) = granted(keys.acquire(ask("a", lock())))
        assert new.token > old.token

    def test_holds_are_listed_for_all_and_for_one(self, keys: CoordinationStore) -> None:
        granted(keys.acquire(ask("b", lock("y"), now=NOW + 1)))
        granted(keys.acquire(ask("a", lock("x"), place("z"), now=NOW)))
        assert [(hold.execution, hold.key) for hold in keys.holds()] == [
            ("a", "x"),
            ("a", "z"),
            ("b", "y"),
        ]
        (hold,) = keys.holds(execution="b")
        assert (hold.path, hold.label, hold.acquired_at) == ("step", "Reactor.step", NOW + 1)
        assert 0 < hold.expires_in <= TTL


def _or_none(answer: object) -> Granted | None:
    return answer if isinstance(answer, Granted) else None


def _get_in(keys: CoordinationStore, name: str, key: str = "k") -> Hold:
    return eventually(lambda: _or_none(keys.acquire(ask(name, lock(key))))).holds[0]
