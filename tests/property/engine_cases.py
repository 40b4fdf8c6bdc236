"""What hypothesis draws: a plan, what its steps do, and what befalls them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

from calandria.plan.model import AWAITED, HandOff, Node, NodeKind, Plan
from calandria.plan.policies import Retry
from tests.property.engine_facts import Budget, Script, Verdict
from tests.property.engine_level_world import LevelWorld

FEWER = settings(max_examples=max(30, settings().max_examples // 3))
"""For the properties beside the main ones, so that all together stay quick."""

LARGEST_PLAN = 12
MOST_CHOICES = 150
VERDICTS = [*Verdict, *[Verdict.SUCCEED] * 6, *[Verdict.FAIL] * 2]
"""Mostly successes, so that a history gets somewhere before it turns."""


def retries(most: int) -> st.SearchStrategy[Retry]:
    return st.integers(1, most).map(lambda attempts: Retry(max_attempts=attempts))


@st.composite
def nodes(draw: st.DrawFn, position: int) -> Node:
    dependencies = draw(st.sets(st.integers(0, position - 1), max_size=3)) if position else set()
    kind = draw(st.sampled_from([NodeKind.STEP] * 4 + [NodeKind.COMPOSE, NodeKind.MAP]))
    leaf = kind is NodeKind.STEP
    return Node(
        name=f"s{position}",
        kind=kind,
        dependencies=tuple(f"s{number}" for number in sorted(dependencies)),
        retry=draw(retries(3)) if leaf else Retry(max_attempts=1),
        rollback_retry=draw(retries(2)) if leaf else Retry(max_attempts=1),
        compensates=leaf and draw(st.booleans()),
        undoes=leaf and draw(st.integers(0, 3)) > 0,
        reconciles=leaf and draw(st.booleans()),
    )


@st.composite
def plans(draw: st.DrawFn, concurrency: st.SearchStrategy[int]) -> Plan:
    size = draw(st.integers(1, LARGEST_PLAN))
    return Plan(
        reactor="Generated",
        nodes=tuple(draw(nodes(position)) for position in range(size)),
        returns=f"s{size - 1}",
        concurrency=draw(concurrency),
    )


@st.composite
def background_plans(draw: st.DrawFn) -> Plan:
    """Like `plans`, with spawned units, steps that wait for them, and a point of hand-off."""
    plan = draw(plans(st.integers(1, 3)))
    made: list[Node] = []
    results: dict[str, str] = {}
    for node in plan.nodes:
        # a step that depends on a unit may use its outcome, or only come after it
        names = (results.get(name, name) for name in node.dependencies)
        dependencies = tuple(
            result if draw(st.booleans()) else result.removesuffix(AWAITED) for result in names
        )
        if draw(st.integers(0, 2)):
            made.append(replace(node, dependencies=dependencies))
            continue
        made.append(Node(node.name, NodeKind.SPAWN, dependencies))
        results[node.name] = node.name + AWAITED
        made.append(Node(results[node.name], NodeKind.AWAIT, (node.name,)))
    point = draw(st.sampled_from([node.name for node in plan.nodes]))
    hand_off = draw(st.sampled_from([None, HandOff(after=point), HandOff(before=point)]))
    return replace(plan, nodes=tuple(made), hand_off=hand_off)


@st.composite
def scripts(draw: st.DrawFn, verdicts: Sequence[Verdict]) -> Script:
    return Script(
        verdicts=tuple(draw(st.lists(st.sampled_from(verdicts), min_size=1, max_size=3))),
        nested=draw(st.integers(0, 5)) == 5,
        incomplete=draw(st.integers(0, 3)) == 3,
        bad_rollbacks=draw(st.sampled_from([0, 0, 0, 1, 2, 3])),
        hopeless=draw(st.integers(0, 3)) == 3,
        heals=draw(st.booleans()),
    )


@st.composite
def numbers(draw: st.DrawFn) -> bytes:
    size = draw(st.integers(0, MOST_CHOICES))
    return draw(st.binary(min_size=size, max_size=size))


@dataclass(frozen=True)
class Case:
    """A plan, what its steps do, and what befalls them."""

    plan: Plan
    scripts: dict[str, Script]
    numbers: bytes
    budget: Budget
    undos: int

    def world(self, **budget: Any) -> LevelWorld:
        """Return a fresh world for it, with parts of its budget replaced."""
        return LevelWorld(self.plan, self.scripts, self.numbers, replace(self.budget, **budget))


@st.composite
def cases(
    draw: st.DrawFn,
    *,
    concurrency: st.SearchStrategy[int] = st.integers(1, 4),  # noqa: B008 - a constant
    verdicts: Sequence[Verdict] = VERDICTS,
    stops: int = 2,
    max_recoveries: int | None = None,
) -> Case:
    plan = draw(plans(concurrency))
    return Case(
        plan=plan,
        scripts={node.name: draw(scripts(verdicts)) for node in plan.nodes},
        numbers=draw(numbers()),
        budget=Budget(
            crashes=draw(st.integers(0, 6)),
            stops=draw(st.integers(0, stops)),
            max_recoveries=(draw(st.integers(0, 2)) if max_recoveries is None else max_recoveries),
        ),
        undos=draw(st.integers(0, 2)),
    )


@st.composite
def background_cases(draw: st.DrawFn) -> Case:
    """Return a case whose level is handed over and parked, and whose processes die."""
    plan = draw(background_plans())
    made: dict[str, Script] = {}
    for node in plan.nodes:
        match node.kind:
            case NodeKind.SPAWN:
                verdicts = [Verdict.SUCCEED, Verdict.SUCCEED, Verdict.SKIP, Verdict.NEVER_START]
                made[node.name] = Script((draw(st.sampled_from(verdicts)),))
            case NodeKind.AWAIT:
                verdicts = [Verdict.SUCCEED] * 3 + [Verdict.FAIL_FOR_GOOD]
                made[node.name] = Script((draw(st.sampled_from(verdicts)),))
            case _:
                made[node.name] = draw(scripts(VERDICTS))
    budget = Budget(
        crashes=draw(st.integers(0, 4)),
        stops=draw(st.integers(0, 1)),
        parks=draw(st.integers(0, 6)),
        max_recoveries=draw(st.integers(0, 2)),
    )
    return Case(plan, made, draw(numbers()), budget, draw(st.integers(0, 1)))
