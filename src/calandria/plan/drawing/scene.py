"""What there is to draw of a plan: cards with their words, laid out, nested ones inside."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from calandria.plan.drawing.layers import Link
from calandria.plan.drawing.layout import Layout, Size, Spacing, arrange
from calandria.plan.drawing.states import NOT_REACHED, Look, Statuses
from calandria.plan.model import Node, NodeKind, Plan

LONGEST_LABEL = 32
"""Cells of a name before it is cut; the whole name stays in titles where the format has them."""


TIMES = "\N{MULTIPLICATION SIGN}"


@dataclass(frozen=True)
class Card:
    """One step as it is shown.

    `title` is its name, `target` what it stands for, `marks` the actions it has. `words` tell its
    state, `look` how to show that; both are empty in a picture without a run.
    """

    path: str
    title: str
    target: str
    marks: tuple[str, ...]
    look: Look
    words: str
    is_map: bool
    conditional: bool
    inner: Picture | None = None

    @property
    def heading(self) -> str:
        """The name, marked when it stands for any number of elements."""
        return f"{self.title} {TIMES} n" if self.is_map else self.title

    def lesser_lines(self) -> list[tuple[str, str]]:
        """Return the lines under the heading, each with what it tells: target, marks, state."""
        lines = []
        # a function step's target is `Checkout.charge`: its own name again
        if self.target and self.target.rpartition(".")[2] != self.title:
            lines.append(("target", shorten(self.target, LONGEST_LABEL + 6)))
        notes = (*(("when",) if self.conditional else ()), *self.marks)
        if notes:
            lines.append(("marks", " · ".join(notes)))
        if self.words:
            lines.append(("state", f"{self.look.symbol} {self.words}"))
        return lines


@dataclass(frozen=True)
class Picture:
    """A plan laid out: its cards, and where each stands."""

    reactor: str
    with_statuses: bool
    cards: tuple[Card, ...]
    sizes: tuple[Size, ...]
    layout: Layout


Measure = Callable[[Card], Size]
"""The size of a card in a format; that of its inner picture is already known."""


def compose_picture(
    plan: Plan, statuses: Mapping[str, str] | None, measure: Measure, spacing: Spacing
) -> Picture:
    """Return `plan` laid out for a format, with the statuses of a run if they are given."""
    known = None if statuses is None else Statuses(statuses)
    return _picture(plan, "", known, measure, spacing)


def links_of(plan: Plan) -> list[Link]:
    """Return the dependencies of a plan; those that hand on no value are dashed."""
    positions = plan.positions
    return [
        Link(positions[name], positions[node.name], dashed=name in node.ordering)
        for node in plan.nodes
        for name in dict.fromkeys(node.dependencies)
    ]


def _picture(
    plan: Plan, scope: str, statuses: Statuses | None, measure: Measure, spacing: Spacing
) -> Picture:
    cards = []
    for node in plan.nodes:
        card = card_of(node, scope, statuses)
        if node.inner is not None:
            below = card.path + ("[]/" if card.is_map else "/")
            card = replace(card, inner=_picture(node.inner, below, statuses, measure, spacing))
        cards.append(card)
    sizes = tuple(measure(card) for card in cards)
    layout = arrange(sizes, links_of(plan), spacing)
    return Picture(plan.reactor, statuses is not None, tuple(cards), sizes, layout)


def card_of(node: Node, scope: str, statuses: Statuses | None) -> Card:
    """Return the card of one node; `scope` is the path it stands in, with its separator."""
    path = scope + node.name
    look, words = NOT_REACHED, ""
    if statuses is not None:
        seen = statuses.at(path)
        look, words = seen.look, seen.words
        if node.kind is NodeKind.MAP and (counted := statuses.elements(path)):
            words = f"{words}: {counted}" if words else counted
    return Card(
        path=path,
        title=printable(node.name),
        target=printable(node.target),
        marks=_marks(node),
        look=look,
        words=printable(words),
        is_map=node.kind is NodeKind.MAP,
        conditional=node.conditional,
    )


def _marks(node: Node) -> tuple[str, ...]:
    marks = []
    if node.retry.max_attempts > 1:
        marks.append(f"{node.retry.max_attempts} attempts")
    if node.reconciles:
        marks.append("reconcile")
    # what is nested rolls itself back: only a step of its own has actions to name
    if node.inner is None:
        marks += ["compensate"] * node.compensates + ["undo"] * node.undoes
    return tuple(marks)


def printable(text: str) -> str:
    """Return `text` on one line, without what a picture or an XML file cannot hold."""
    return "".join(
        "\N{REPLACEMENT CHARACTER}" if unicodedata.category(char) in _UNPRINTABLE else char
        for char in text
    )


_UNPRINTABLE = {"Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp"}


def cells(text: str) -> int:
    """Return the width of `text` in cells of a fixed-width font."""
    return sum(_cell(char) for char in text)


def _cell(char: str) -> int:
    if unicodedata.combining(char) or unicodedata.category(char) == "Mn":
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def shorten(text: str, longest: int = LONGEST_LABEL) -> str:
    """Cut `text` to `longest` cells, the last of them an ellipsis."""
    if cells(text) <= longest:
        return text
    kept, width = "", 1
    for char in text:
        width += _cell(char)
        if width > longest:
            break
        kept += char
    return kept + "…"
