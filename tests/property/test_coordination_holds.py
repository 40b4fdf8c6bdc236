"""Locks and semaphores against a model: taken, renewed, lapsed, re-entered, adopted, dropped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from calandria.ports.coordination import Granted, Hold, HoldKind, HoldRequest, Refusal
from tests.property.coordination_world import EXECUTIONS, KEYS, PATHS, World, is_within

TTLS = (1.0, 5.0, 20.0)

requests = st.lists(
    st.builds(
        lambda key, limit, ttl: HoldRequest(
            HoldKind.LOCK if limit == 1 else HoldKind.SEMAPHORE, key, limit, ttl
        ),
        st.sampled_from(KEYS),
        st.sampled_from((1, 1, 2, 3)),
        st.sampled_from(TTLS),
    ),
    min_size=1,
    max_size=2,
    unique_by=lambda request: request.key,
)


@dataclass
class Held:
    """A hold in the model; `place` tells that it did not re-enter another."""

    key: str
    execution: str
    path: str
    kind: HoldKind
    token: int
    expires: float
    place: bool


class Model:
    """Who holds what, by the contract alone."""

    def __init__(self) -> None:
        self.held: list[Held] = []
        self.last_token: dict[str, int] = {}

    def find(self, key: str, execution: str, path: str) -> Held | None:
        mine = (key, execution, path)
        return next((h for h in self.held if (h.key, h.execution, h.path) == mine), None)

    def live(self, key: str, now: float) -> list[Held]:
        return [h for h in self.held if h.key == key and h.expires > now]

    def around(self, key: str, execution: str, path: str, now: float) -> list[Held]:
        return [
            h for h in self.live(key, now) if h.execution == execution and is_within(path, h.path)
        ]

    def refusal(self, execution: str, path: str, wanted: HoldRequest, now: float) -> Refusal | None:
        live = self.live(wanted.key, now)
        if any(h.kind is not wanted.kind for h in live):
            return Refusal.MIXED
        own = self.find(wanted.key, execution, path)
        if own in live or self.around(wanted.key, execution, path, now):
            return None
        counted = [h for h in live if h.place or not self.around(h.key, h.execution, h.path, now)]
        return Refusal.HELD if len(counted) >= wanted.limit else None

    def grant(self, execution: str, path: str, wanted: HoldRequest, now: float, token: int) -> None:
        own = self.find(wanted.key, execution, path)
        around = self.around(wanted.key, execution, path, now)
        if own is not None and own.expires > now:
            assert token == own.token, "taking again must not change the token"
            own.expires = now + wanted.ttl
            return
        if around:
            assert token in {h.token for h in around}, "a re-entry has the token of its outer hold"
        else:
            assert token > self.last_token.get(wanted.key, 0), "tokens must rise"
            # who had lapsed is found out at its next renewal
            self.held = [h for h in self.held if h.key != wanted.key or h.expires > now]
        if own in self.held:
            self.held.remove(own)
        expires = now + wanted.ttl
        held = Held(wanted.key, execution, path, wanted.kind, token, expires, not around)
        self.held.append(held)
        self.last_token[wanted.key] = max(token, self.last_token.get(wanted.key, 0))


class Holds(RuleBasedStateMachine):
    """Any interleaving of what processes may ask."""

    @initialize()
    def begin(self) -> None:
        self.world = World()
        self.model = Model()
        self.known: list[Hold] = []

    @property
    def now(self) -> float:
        return self.world.clock.at

    @rule(execution=st.sampled_from(EXECUTIONS), path=st.sampled_from(PATHS), wanted=requests)
    def acquire(self, execution: str, path: str, wanted: Sequence[HoldRequest]) -> None:
        in_order = sorted(wanted, key=lambda each: (each.kind is HoldKind.SEMAPHORE, each.key))
        refusals = [self.model.refusal(execution, path, each, self.now) for each in in_order]
        answer = self.world.keys.acquire(self.world.ask(execution, path, holds=wanted))
        if not isinstance(answer, Granted):
            first = next(each for each, why in zip(in_order, refusals, strict=True) if why)
            assert answer.key == first.key
            assert answer.reason in refusals
            assert answer.holders
            return
        assert refusals == [None] * len(wanted)
        assert [hold.key for hold in answer.holds] == [each.key for each in in_order]
        for each, hold in zip(in_order, answer.holds, strict=True):
            self.model.grant(execution, path, each, self.now, hold.token)
            self.known.append(hold)

    @rule(
        execution=st.sampled_from(EXECUTIONS),
        pair=st.sampled_from([(a, b) for a in PATHS for b in PATHS if is_within(b, a)]),
        wanted=requests,
        inner_ttl=st.sampled_from(TTLS),
    )
    def nest(
        self,
        execution: str,
        pair: tuple[str, str],
        wanted: Sequence[HoldRequest],
        inner_ttl: float,
    ) -> None:
        """One inside the other, either of which may lapse, or be let go of, first."""
        outer, inner = pair
        self.acquire(execution, outer, wanted)
        self.acquire(execution, inner, [replace(each, ttl=inner_ttl) for each in wanted])

    @rule(execution=st.sampled_from(EXECUTIONS), path=st.sampled_from(PATHS))
    def release(self, execution: str, path: str) -> None:
        gone = [h for h in self.model.held if (h.execution, h.path) == (execution, path)]
        found = self.world.keys.release(execution, path)
        assert sorted(found) == sorted(h.key for h in gone)
        self.model.held = [h for h in self.model.held if h not in gone]

    @rule(data=st.data(), ttl=st.sampled_from(TTLS))
    def renew(self, data: st.DataObject, ttl: float) -> None:
        """Whoever was ever granted a hold may still believe in it."""
        if not self.known:
            return
        hold = data.draw(st.sampled_from(self.known))
        held = self.model.find(hold.key, hold.execution, hold.path)
        if held is not None and held.token == hold.token:
            assert list(self.world.keys.renew([hold], ttls=[ttl])) == []
            held.expires = self.now + ttl
        else:
            assert list(self.world.keys.renew([hold], ttls=[ttl])) == [hold]

    @rule(execution=st.sampled_from(EXECUTIONS))
    def adopt(self, execution: str) -> None:
        found = self.world.keys.adopt(execution, now=self.now)
        mine = [h for h in self.model.held if h.execution == execution]
        live = [h for h in mine if h.expires > self.now]
        assert sorted((h.key, h.path) for h in found) == sorted((h.key, h.path) for h in live)
        for hold in found:
            held = self.model.find(hold.key, execution, hold.path)
            assert held is not None
            assert hold.token > self.model.last_token[hold.key]
            held.token = hold.token
            self.known.append(hold)
        for hold in found:
            self.model.last_token[hold.key] = hold.token
        self.model.held = [h for h in self.model.held if h not in mine or h in live]

    @rule(
        execution=st.sampled_from(EXECUTIONS),
        keep=st.lists(st.sampled_from(PATHS), unique=True),
    )
    def drop(self, execution: str, keep: Sequence[str]) -> None:
        self.world.keys.drop(execution, keep=keep)
        self.model.held = [h for h in self.model.held if h.execution != execution or h.path in keep]

    @rule(seconds=st.sampled_from((0.5, 1.0, 4.0, 30.0)))
    def wait(self, seconds: float) -> None:
        self.world.clock.at += seconds

    @invariant()
    def holds_are_listed(self) -> None:
        listed = {(h.key, h.execution, h.path, h.token) for h in self.world.keys.holds()}
        live = [h for h in self.model.held if h.expires > self.now]
        assert listed == {(h.key, h.execution, h.path, h.token) for h in live}

    @invariant()
    def a_lock_has_one_execution(self) -> None:
        for key in KEYS:
            locked = {
                h.execution
                for h in self.world.keys.holds()
                if h.key == key and h.kind is HoldKind.LOCK
            }
            assert len(locked) <= 1

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.close()


TestHolds = Holds.TestCase
TestHolds.settings = settings(stateful_step_count=40)
