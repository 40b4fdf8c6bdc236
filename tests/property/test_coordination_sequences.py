"""Ordered sequences against a model: deaths, skips, drains, hand-backs, stale redeliveries."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from calandria.ports.coordination import Granted, Refusal, TurnEnd, TurnRequest
from calandria.ports.run_store import Changes, Lease, RunHeader
from calandria.statuses import RunStatus
from calandria.testing.conformance.harness import leased, new_run
from tests.property.coordination_world import World

TIMEOUT = 10.0
RUNS = ("run-a", "run-b")
"""Executions with a lease that holds until they end."""
OTHERS = ("call-c", "call-d", "call-e")
"""Executions that prove life only by what they ask."""


@dataclass
class Position:
    """A position in the model."""

    number: int
    execution: str
    seen: float
    state: str = "waiting"

    @property
    def open(self) -> bool:
        return self.state in ("waiting", "active")


class Sequences(RuleBasedStateMachine):
    """One sequence, anyone who may be in it, and an operator."""

    @initialize(strict=st.booleans())
    def begin(self, strict: bool) -> None:
        self.world = World()
        self.strict = strict
        self.line: list[Position] = []
        self.next_number = 1
        self.leases: dict[str, Lease] = {
            name: leased(self.world.store, new_run(name), ttl=1e6) for name in RUNS
        }

    @property
    def now(self) -> float:
        return self.world.clock.at

    def alive(self, position: Position) -> bool:
        return position.seen > self.now - TIMEOUT or position.execution in self.leases

    def own(self, execution: str) -> Position | None:
        return next((p for p in self.line if p.execution == execution), None)

    def arrive(self, execution: str) -> Position:
        found = self.own(execution)
        if found is None:
            found = Position(self.next_number, execution, self.now)
            self.next_number += 1
            self.line.append(found)
        return found

    def drain(self) -> None:
        if any(position.open for position in self.line):
            return
        self.line = [p for p in self.line if p.state == "stale" and p.execution in self.leases]
        if not self.line:
            self.next_number = 1

    @rule(name=st.sampled_from(RUNS + OTHERS))
    def assign(self, name: str) -> None:
        self.world.keys.assign(self.world.ask(name, "", turns=[self.turn(keep=True)]))
        self.arrive(name)

    def turn(self, *, keep: bool) -> TurnRequest:
        return TurnRequest("k", self.strict, TIMEOUT, keep)

    @rule(name=st.sampled_from(RUNS + OTHERS), keep=st.booleans())
    def take(self, name: str, keep: bool) -> None:
        answer = self.world.keys.acquire(self.world.ask(name, "", turns=[self.turn(keep=keep)]))
        expected, holder = self.expect(name, keep)
        if isinstance(answer, Granted):
            assert expected is None
        else:
            assert answer.reason is expected
            assert list(answer.holders) == ([holder] if holder else [])

    def expect(self, name: str, keep: bool) -> tuple[Refusal | None, str | None]:
        own = self.arrive(name)
        if not own.open:
            return Refusal.STALE, None
        for position in self.line:
            if position.number >= own.number or not position.open:
                continue
            if not self.alive(position):
                position.state = "stale"
                continue
            if keep:
                own.seen = self.now
            else:
                self.line.remove(own)
            return Refusal.TURN, position.execution
        if self.strict and any(p.state == "failed" and p.number < own.number for p in self.line):
            own.state = "stale"
            self.drain()
            return Refusal.CHAIN_FAILED, None
        own.state, own.seen = "active", self.now
        return None, None

    @rule(name=st.sampled_from(RUNS + OTHERS), failed=st.booleans(), back=st.booleans())
    def end(self, name: str, failed: bool, back: bool) -> None:
        """The end of one that has ended, or was never there, changes nothing."""
        ends = [TurnEnd("k", "", failed, handed_back=back)]
        self.world.keys.settle(name, "", marks=[], turn_ends=ends, now=self.now)
        own = self.own(name)
        if own is not None and own.open:
            if back:
                self.line.remove(own)
            else:
                own.state = "failed" if failed else "done"
            self.drain()

    @rule(name=st.sampled_from(OTHERS))
    def see(self, name: str) -> None:
        self.world.keys.see(name)
        own = self.own(name)
        if own is not None and own.open:
            own.seen = self.now

    @rule(number=st.integers(1, 6))
    def skip(self, number: int) -> None:
        found = next((p for p in self.line if p.number == number and p.open), None)
        assert self.world.keys.skip("k", number) is (found is not None)
        if found is not None:
            found.state = "stale"
            self.drain()

    @rule()
    def reset(self) -> None:
        assert self.world.keys.reset("k") == len(self.line)
        self.line, self.next_number = [], 1

    @rule(name=st.sampled_from(RUNS))
    def end_run(self, name: str) -> None:
        """From here on nothing proves its life but what it asks."""
        lease = self.leases.pop(name, None)
        if lease is not None:
            header = RunHeader(RunStatus.COMPLETED, finished_at=self.now)
            self.world.store.commit(lease, Changes(header=header, release=True, now=self.now))

    @rule(seconds=st.sampled_from((1.0, 6.0, TIMEOUT, 25.0)))
    def wait(self, seconds: float) -> None:
        self.world.clock.at += seconds

    @invariant()
    def the_line_is_as_in_the_model(self) -> None:
        found = [(p.position, p.execution, p.state) for p in self.world.keys.sequence("k")]
        assert found == [(p.number, p.execution, p.state) for p in self.line]

    @invariant()
    def nobody_works_beside_a_living_turn(self) -> None:
        active = [p for p in self.line if p.state == "active"]
        assert len(active) <= 1

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.close()


TestSequences = Sequences.TestCase
TestSequences.settings = settings(stateful_step_count=40)
