"""The order of taking is one and the same however work is declared, and no schedule deadlocks.

Declarations are drawn for one or two levels of work (a run's reactor and its step), in any order.
What is refused first tells in which order they are taken.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calandria.coordination.primitives import (
    Lock,
    OrderedLock,
    Period,
    Primitive,
    RateLimit,
    Semaphore,
)
from calandria.ports.coordination import (
    AcquireRequest,
    Granted,
    HoldKind,
    HoldRequest,
    PeriodMark,
    Refused,
)
from calandria.runtime.needs import Needs, needs_of
from calandria.runtime.settings import Settings
from calandria.testing.conformance.harness import leased, new_run
from tests.property.coordination_world import World

ORDER = (
    OrderedLock("turn"),
    Period("mark", every="hour"),
    RateLimit("rate", limit=1, per="hour"),
    Lock("a lock"),
    Lock("b lock"),
    Semaphore("a place", limit=2),
    Semaphore("b place", limit=2),
)
"""The fixed order: turn, period, rate limit, locks by key, semaphores by key."""

some = st.lists(st.sampled_from(ORDER), min_size=2, max_size=3, unique_by=lambda each: each.key)


def needs(primitives: Sequence[Primitive], path: str = "step") -> Needs:
    return needs_of(primitives, {}, frozenset(), Settings(), path=path, label="Reactor.step")


def occupy(world: World, wanted: Primitive) -> None:
    """Have strangers take all there is of one primitive."""
    for number in range(2):
        name = f"stranger {number} of {wanted.key}"
        request = needs([wanted], "").request(name, world.clock.at, keep_turn=True)
        world.keys.acquire(request)
        if isinstance(wanted, Period):
            mark = PeriodMark(str(wanted.key), request.periods[0].bucket, name, "")
            world.keys.settle(name, "", marks=[mark], turn_ends=[], now=world.clock.at)


@given(declared=some, data=st.data(), backward=st.booleans())
def test_what_is_refused_first_is_first_in_the_order(
    declared: list[Primitive], data: st.DataObject, backward: bool
) -> None:
    """Of all that is not to be had, the refusal names the first in the order, on every path."""
    world = World()
    taken = data.draw(st.lists(st.sampled_from(declared), min_size=1, unique_by=id))
    for each in taken:
        occupy(world, each)
    request = needs(declared).request("a", world.clock.at, keep_turn=True, backward=backward)
    answer = world.keys.acquire(request)
    # rate limits, periods and turns never gate what goes backward
    gates = [each for each in taken if not backward or isinstance(each, (Lock, Semaphore))]
    if gates:
        assert isinstance(answer, Refused)
        assert answer.key == min(gates, key=ORDER.index).key
        assert not world.keys.holds(execution="a")
    else:
        assert isinstance(answer, Granted)
    world.close()


@pytest.mark.parametrize("size", [2, 3])
def test_every_order_of_declaring_takes_in_one_order(size: int) -> None:
    holds = [each for each in ORDER if isinstance(each, (Lock, Semaphore))]
    for chosen in itertools.combinations(holds, size):
        world = World()
        orders = set()
        for declared in itertools.permutations(chosen):
            answer = world.keys.acquire(needs(declared).request("a", 0.0, keep_turn=True))
            assert isinstance(answer, Granted)
            orders.add(tuple(hold.key for hold in answer.holds))
            world.keys.release("a", "step")
        assert orders == {tuple(each.key for each in chosen)}
        world.close()


@dataclass
class Actor:
    """A run with work inside work; each piece takes what it needs at once, and lets go in reverse.

    `levels` are the keys of each piece, the outermost first.
    """

    name: str
    levels: list[list[HoldRequest]]
    inside: int = 0
    entered: bool = False
    deadlocks: int = 0
    done: bool = False

    def path(self, depth: int) -> str:
        return "/".join(["s"] * depth)


class Schedule:
    """One random interleaving of actors on one store, as workers would run them."""

    def __init__(self, seed: int, world: World) -> None:
        self.random = random.Random(seed)
        self.world = world
        self.actors = [self._actor(number, seed) for number in range(self.random.randint(2, 4))]

    def _actor(self, number: int, seed: int) -> Actor:
        name = f"{seed}-{number}"
        leased(self.world.store, new_run(name), ttl=1e9)
        return Actor(name, [self._level() for _ in range(self.random.randint(1, 3))])

    def _level(self) -> list[HoldRequest]:
        chosen = self.random.sample("abc", self.random.randint(1, 3))
        return [
            HoldRequest(HoldKind.LOCK, key, 1, 1e9)
            if key != "c"
            else HoldRequest(HoldKind.SEMAPHORE, key, 2, 1e9)
            for key in chosen
        ]

    def play(self) -> int:
        """Run every actor to its end; return how many circles were refused."""
        idle = 0
        while left := [actor for actor in self.actors if not actor.done]:
            actor = self.random.choice(left)
            idle = 0 if self._move(actor) else idle + 1
            assert idle < 500, f"nobody gets on: {[(a.name, a.levels, a.inside) for a in left]}"
        assert not self.world.keys.holds()
        return sum(actor.deadlocks for actor in self.actors)

    def _move(self, actor: Actor) -> bool:
        if actor.entered:
            self._leave_one(actor)
            return True
        depth = actor.inside
        request = AcquireRequest(
            actor.name, actor.path(depth), "label", 0.0, holds=actor.levels[depth]
        )
        answer = self.world.keys.acquire(request)
        if isinstance(answer, Granted):
            actor.inside += 1
            actor.entered = actor.inside == len(actor.levels)
            return True
        wait = self.world.keys.wait_for(
            actor.name, answer.key, label="label", now=0.0, holders=answer.holders
        )
        if wait.circle:
            # the step fails, what is around it is rolled back, and lets go
            actor.deadlocks += 1
            actor.entered = True
            self._leave_one(actor)
            return True
        return False

    def _leave_one(self, actor: Actor) -> None:
        if actor.inside:
            actor.inside -= 1
            self.world.keys.release(actor.name, actor.path(actor.inside))
        actor.done = actor.inside == 0


def play(seeds: range) -> int:
    circles = 0
    for seed in seeds:
        world = World()
        circles += Schedule(seed, world).play()
        world.close()
    return circles


def test_no_random_schedule_stands_still() -> None:
    # circles do come up between levels, and are refused instead of waited in
    assert play(range(150)) > 0


@pytest.mark.slow
def test_none_of_ten_thousand_random_schedules_stands_still() -> None:
    assert play(range(10_000)) > 0


def flat(seeds: range) -> None:
    """With all keys on one level of work nothing ever waits while it holds: no circle at all."""
    for seed in seeds:
        world = World()
        schedule = Schedule(seed, world)
        for actor in schedule.actors:
            del actor.levels[1:]
        assert schedule.play() == 0
        world.close()


def test_no_circle_comes_up_where_all_is_taken_at_once() -> None:
    flat(range(100))


@pytest.mark.slow
def test_no_circle_comes_up_in_ten_thousand_schedules() -> None:
    flat(range(10_000))
