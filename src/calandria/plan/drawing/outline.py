"""A plan as a list, for plans too wide for boxes: layer by layer, with what each step follows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from calandria.plan.drawing.layers import into_layers
from calandria.plan.drawing.scene import Card, card_of, cells, links_of, printable
from calandria.plan.drawing.states import Statuses
from calandria.plan.model import Node, Plan


def draw_outline(plan: Plan, statuses: Mapping[str, str] | None) -> str:
    """Return one line per step; steps of one layer stand together, nested ones are indented."""
    known = None if statuses is None else Statuses(statuses)
    return "\n".join([printable(plan.reactor), *_lines(plan, "", known, "  ")]) + "\n"


def _lines(plan: Plan, scope: str, statuses: Statuses | None, indent: str) -> Iterator[str]:
    layers = into_layers(len(plan.nodes), links_of(plan)).layers
    longest = max((cells(node.name) for node in plan.nodes), default=0)
    column = min(longest, 40) + 2
    for number, layer in enumerate(layers, start=1):
        steps = [plan.nodes[vertex] for vertex in layer if vertex < len(plan.nodes)]
        for place, node in enumerate(steps):
            bracket = _bracket(place, len(steps))
            layer_number = f"{number:>3}" if place == 0 else "   "
            card = card_of(node, scope, statuses)
            yield f"{indent}{layer_number} {bracket} {_line(card, node, column, statuses)}".rstrip()
            if node.inner is not None:
                below = card.path + ("[]/" if card.is_map else "/")
                yield from _lines(node.inner, below, statuses, indent + "      ")


def _bracket(place: int, count: int) -> str:
    if count == 1:
        return "─"
    return "┌" if place == 0 else "└" if place == count - 1 else "│"


def _line(card: Card, node: Node, column: int, statuses: Statuses | None) -> str:
    symbol = f"{card.look.symbol} " if statuses is not None else ""
    name = card.heading + " " * max(column - cells(card.heading), 1)
    parts = [text for kind, text in card.lesser_lines() if kind != "state"]
    if card.words:
        parts.insert(0, card.words)
    if node.dependencies:
        parts.append("after " + ", ".join(printable(d) for d in dict.fromkeys(node.dependencies)))
    return symbol + name + "  ".join(parts)
