"""Plans to draw: small ones with every construct, and generated ones."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from calandria.plan.model import Node, NodeKind, Plan
from calandria.plan.policies import Retry


def node(name: str, after: str = "", **options: Any) -> Node:
    return Node(name=name, dependencies=tuple(after.split()), **options)


def plan(*nodes: Node, reactor: str = "shop:Checkout") -> Plan:
    return Plan(reactor, nodes, returns=nodes[-1].name if nodes else "")


THREE = plan(
    node("validate", target="ValidateOrder"),
    node("charge", "validate", undoes=True, compensates=True, retry=Retry(max_attempts=3)),
    node("receipt", "charge validate", ordering=("validate",), conditional=True),
)

HOTEL = plan(
    node("search", target="Search"),
    node("confirm", "search", target="Confirm", undoes=True),
    reactor="trip:Hotel",
)

TRIP = plan(
    node("validate", target="Validate"),
    node("booking", "validate", kind=NodeKind.COMPOSE, target="trip:Hotel", inner=HOTEL),
    node("lines", "validate", kind=NodeKind.MAP, target="trip:Hotel", inner=HOTEL),
    node("fees", "booking", kind=NodeKind.MAP, target="ChargeFee"),
    node("pay", "fees lines"),
    reactor="trip:Trip",
)


def chain_to_last(length: int) -> Plan:
    """A chain whose last step also depends on every other one."""
    nodes = [node(f"s{number}", f"s{number - 1}" if number else "") for number in range(length)]
    nodes.append(node("last", " ".join(f"s{number}" for number in range(length))))
    return plan(*nodes)


@st.composite
def plans(draw: st.DrawFn, depth: int = 1) -> Plan:
    count = draw(st.integers(1, 14))
    nodes = []
    for number in range(count):
        names = [f"s{earlier}" for earlier in range(number)]
        after = draw(st.lists(st.sampled_from(names), max_size=3)) if names else []
        inner = draw(st.none() | plans(depth=depth - 1)) if depth else None
        nodes.append(
            Node(
                name=f"s{number}",
                kind=draw(st.sampled_from([NodeKind.COMPOSE, NodeKind.MAP]))
                if inner
                else draw(st.sampled_from([NodeKind.STEP, NodeKind.MAP])),
                dependencies=tuple(after),
                ordering=tuple(name for name in after if draw(st.booleans())),
                target=draw(st.sampled_from(["", "T", "SomeLongerTargetName"])),
                undoes=draw(st.booleans()),
                conditional=draw(st.booleans()),
                inner=inner,
            )
        )
    return plan(*nodes)
