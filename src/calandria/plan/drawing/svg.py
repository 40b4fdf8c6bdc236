"""A plan as one SVG file: nothing outside it is needed, and it reads on light and on dark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape

from calandria.plan.drawing.layout import Crossing, Size, Spacing
from calandria.plan.drawing.palette import style_sheet
from calandria.plan.drawing.scene import Card, Picture, cells, compose_picture, printable, shorten
from calandria.plan.drawing.states import NOT_REACHED, Tone
from calandria.plan.model import Plan

_CELL, _SMALL_CELL = 8.0, 6.7
"""The widest a character of the title and of the lesser lines gets, in any usual font."""

_SIDE, _TITLE_LINE, _LINE, _FOOT = 14.0, 24.0, 16.0, 8.0
_MARGIN, _HEADING, _STACK = 20.0, 34.0, 5.0
_INSIDE = 16.0


def draw_svg(plan: Plan, statuses: Mapping[str, str] | None) -> str:
    """Return the text of an SVG file."""
    picture = compose_picture(plan, statuses, _measure, _SPACING)
    heading = shorten(picture.reactor, 80)
    width = max(picture.layout.width, cells(heading) * _CELL) + 2 * _MARGIN
    height = picture.layout.height + _HEADING + 2 * _MARGIN
    x = (width - picture.layout.width) / 2
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="calandria-plan" role="img"'
        f' width="{_n(width)}" height="{_n(height)}" viewBox="0 0 {_n(width)} {_n(height)}"'
        f' style="max-width:100%;height:auto">',
        f"<title>{_text(picture.reactor)}</title>",
        f"<style>{style_sheet()}</style>",
        f'<rect class="page" width="{_n(width)}" height="{_n(height)}" rx="10"/>',
        f'<text class="heading" x="{_n(_MARGIN)}" y="{_n(_MARGIN + 12)}">{_text(heading)}</text>',
        *_picture(picture, x, _MARGIN + _HEADING),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _gap_height(ends: Sequence[tuple[float, float]]) -> float:
    """Widen the gap where edges travel far, so that they stay apart."""
    furthest = max((abs(x1 - x2) for x1, x2 in ends), default=0.0)
    return min(38 + furthest * 0.07, 110)


_SPACING = Spacing(between=26, lane=14, port=14, gap_height=_gap_height)


def _measure(card: Card) -> Size:
    lines = card.lesser_lines()
    widths = [cells(text) * _SMALL_CELL for _, text in lines]
    width = max(cells(shorten(card.heading)) * _CELL, *widths, 0)
    height = _TITLE_LINE + _LINE * len(lines) + _FOOT
    if card.inner is not None:
        width = max(width, card.inner.layout.width)
        height += card.inner.layout.height + _INSIDE
    stack = _STACK * 2 if card.is_map else 0
    return Size(width + 2 * _SIDE + stack, height + stack)


def _picture(picture: Picture, x: float, y: float) -> Iterator[str]:
    yield f'<g transform="translate({_n(x)} {_n(y)})">'
    for x1, y1, x2, y2 in picture.layout.straight:
        yield f'<path class="edge far" d="M{_n(x1)} {_n(y1)}L{_n(x2)} {_n(y2)}"/>'
    for crossing in picture.layout.crossings:
        yield _edge(crossing)
    placed = zip(picture.cards, picture.sizes, picture.layout.corners, strict=True)
    for card, size, (left, top) in placed:
        yield from _card(card, size, left, top, picture.with_statuses)
    for crossing in picture.layout.crossings:
        if crossing.arrives:
            yield _arrowhead(crossing)
    yield "</g>"


def _edge(edge: Crossing) -> str:
    bend = (edge.gap_bottom - edge.gap_top) * 0.55
    end = edge.end - (5 if edge.arrives else 0)
    curve = (
        f"C{_n(edge.x1)} {_n(edge.gap_top + bend)} {_n(edge.x2)} {_n(edge.gap_bottom - bend)}"
        f" {_n(edge.x2)} {_n(edge.gap_bottom - (5 if edge.arrives else 0))}"
    )
    kind = "edge dashed" if edge.dashed else "edge"
    path = f"M{_n(edge.x1)} {_n(edge.start)}V{_n(edge.gap_top)}{curve}V{_n(end)}"
    return f'<path class="{kind}" d="{path}"/>'


def _arrowhead(edge: Crossing) -> str:
    x, y = edge.x2, edge.end
    return f'<path class="head" d="M{_n(x)} {_n(y)}l-4.5 -8.5h9z"/>'


def _card(card: Card, size: Size, x: float, y: float, with_statuses: bool) -> Iterator[str]:
    tone = card.look.tone.value
    if with_statuses and card.look is NOT_REACHED:
        tone = Tone.QUIET.value
    dashed = " dashed" if card.conditional else ""
    nested = " nested" if card.inner is not None else ""
    stack = _STACK * 2 if card.is_map else 0
    width, height = size.width - stack, size.height - stack
    yield f'<g class="card {tone}{nested}"><title>{_text(_described(card))}</title>'
    for shift in (stack, stack / 2, 0) if card.is_map else (0,):
        yield (
            f'<rect class="box{dashed}" x="{_n(x + shift)}" y="{_n(y + shift)}"'
            f' width="{_n(width)}" height="{_n(height)}" rx="7"/>'
        )
    yield from _words(card, x, y, width)
    if card.inner is not None:
        left = x + (width - card.inner.layout.width) / 2
        yield from _picture(card.inner, left, y + height - _FOOT - card.inner.layout.height - 4)
    yield "</g>"


def _words(card: Card, x: float, y: float, width: float) -> Iterator[str]:
    if card.inner is None:
        at, anchor = x + width / 2, ' text-anchor="middle"'
    else:
        at, anchor = x + _SIDE, ""
    line = y + 19
    title = _text(shorten(card.heading))
    yield f'<text class="name"{anchor} x="{_n(at)}" y="{_n(line)}">{title}</text>'
    for kind, text in card.lesser_lines():
        line += _LINE
        yield f'<text class="{kind}"{anchor} x="{_n(at)}" y="{_n(line)}">{_text(text)}</text>'


def _described(card: Card) -> str:
    """Return everything known of a card, uncut, for the tooltip."""
    parts = [card.path, card.target, *card.marks, card.words]
    if card.conditional:
        parts.append("runs only if its condition holds")
    return " · ".join(part for part in parts if part)


def _text(text: str) -> str:
    return escape(printable(text))


def _n(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")
