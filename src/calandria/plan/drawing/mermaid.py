"""A plan as a Mermaid flowchart, for places that render Mermaid: READMEs, wikis, issues."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from calandria.plan.drawing.palette import LIGHT
from calandria.plan.drawing.scene import Card, card_of, printable
from calandria.plan.drawing.states import Statuses, Tone
from calandria.plan.model import Plan


def draw_mermaid(plan: Plan, statuses: Mapping[str, str] | None) -> str:
    """Return the text of a flowchart; the reactor's name is its title for screen readers."""
    known = None if statuses is None else Statuses(statuses)
    body = list(_Flowchart(known).lines(plan, "", "n", "    "))
    used = [tone for tone in Tone if any(line.endswith(f" {tone.value}") for line in body)]
    lines = ["flowchart TD", f"    accTitle: {_title(plan.reactor)}", *body]
    for tone in used:
        paint = LIGHT[tone]
        lines.append(
            f"    classDef {tone.value} fill:{paint.fill},stroke:{paint.stroke},color:{paint.text}"
        )
    if any(line.endswith(" conditional") for line in body):
        lines.append("    classDef conditional stroke-dasharray:5 4")
    return "\n".join(lines) + "\n"


class _Flowchart:
    """Writes plans, each node under an id that no name can break."""

    def __init__(self, statuses: Statuses | None) -> None:
        self.statuses = statuses

    def lines(self, plan: Plan, scope: str, prefix: str, indent: str) -> Iterator[str]:
        """Yield the lines of one plan; `prefix` begins the id of each of its nodes."""
        ids = {node.name: f"{prefix}{number}" for number, node in enumerate(plan.nodes)}
        for node in plan.nodes:
            card, key = card_of(node, scope, self.statuses), ids[node.name]
            if node.inner is None:
                opening, closing = ("[[", "]]") if card.is_map else ("[", "]")
                yield f'{indent}{key}{opening}"{_label(card)}"{closing}'
            else:
                below = card.path + ("[]/" if card.is_map else "/")
                yield f'{indent}subgraph {key} ["{_label(card)}"]'
                yield f"{indent}    direction TB"
                yield from self.lines(node.inner, below, f"{key}_", indent + "    ")
                yield f"{indent}end"
            if self.statuses is not None and card.words:
                yield f"{indent}class {key} {card.look.tone.value}"
            if card.conditional:
                yield f"{indent}class {key} conditional"
        for node in plan.nodes:
            for name in dict.fromkeys(node.dependencies):
                arrow = "-.->" if name in node.ordering else "-->"
                yield f"{indent}{ids[name]} {arrow} {ids[node.name]}"


def _label(card: Card) -> str:
    lines = [f"<b>{_escape(card.heading)}</b>"]
    lines += [_escape(text) for _, text in card.lesser_lines()]
    return "<br/>".join(lines)


def _escape(text: str) -> str:
    """Write what Mermaid or Markdown would read as syntax by its number."""
    return "".join(f"#{ord(char)};" if char in _SYNTAX else char for char in text)


_SYNTAX = frozenset('"#&;<>`*_~\\[]{}|')


def _title(text: str) -> str:
    return "".join(" " if char in "#;" else char for char in printable(text))
