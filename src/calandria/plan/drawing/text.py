"""A plan as plain text: boxes and lines where they fit on a page, else a list layer by layer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from calandria.plan.drawing.channel import assign_rows
from calandria.plan.drawing.layout import Crossing, Size, Spacing
from calandria.plan.drawing.outline import draw_outline
from calandria.plan.drawing.scene import Card, Picture, cells, compose_picture, printable, shorten
from calandria.plan.model import Plan

PAGE_WIDTH = 120
"""Cells beyond which boxes would be torn apart by line breaks."""

_MOST_STEPS = 200


def draw_text(plan: Plan, statuses: Mapping[str, str] | None) -> str:
    """Return lines of text, none with blanks at its end."""
    if _steps(plan) <= _MOST_STEPS:
        picture = compose_picture(plan, statuses, _measure, _SPACING)
        if picture.layout.width <= PAGE_WIDTH and not picture.layout.straight:
            grid = _Grid()
            grid.picture(picture, 0, 0)
            return "\n".join([printable(plan.reactor), "", *grid.lines()]) + "\n"
    return draw_outline(plan, statuses)


def _steps(plan: Plan) -> int:
    return sum(1 + (_steps(node.inner) if node.inner else 0) for node in plan.nodes)


def _gap_height(ends: Sequence[tuple[float, float]]) -> float:
    rows = assign_rows(ends)
    return 2 + max(rows.values()) + 1 if rows else 2


_SPACING = Spacing(between=3, lane=1, port=4, gap_height=_gap_height, whole=True)


def _measure(card: Card) -> Size:
    widest = max(cells(line) for line in _lines(card))
    height = 2 + len(_lines(card))
    if card.inner is not None:
        widest = max(widest, int(card.inner.layout.width))
        height += int(card.inner.layout.height)
    width = widest + 4
    return Size(width + (width + 1) % 2, height)


def _lines(card: Card) -> list[str]:
    return [shorten(card.heading), *(text for _, text in card.lesser_lines())]


@dataclass(frozen=True)
class _Border:
    """The characters a box is drawn with."""

    top: str
    bottom: str
    across: str
    down: str
    exit: str


_STEP = _Border("┌┐", "└┘", "─", "│", "┬")
_WHEN = _Border("┌┐", "└┘", "┄", "┊", "┬")
_MAP = _Border("╔╗", "╚╝", "═", "║", "╤")

_UP, _DOWN, _LEFT, _RIGHT = 1, 2, 4, 8
_JOINTS = " ╵╷│╴┘┐┤╶└┌├─┴┬┼"


class _Grid:
    """A page of character cells that grows as it is written on."""

    def __init__(self) -> None:
        self.cells: dict[int, dict[int, str]] = defaultdict(dict)
        self.joints: dict[tuple[int, int], int] = defaultdict(int)
        self.dashed: set[tuple[int, int]] = set()

    def lines(self) -> list[str]:
        """Return the page, line by line."""
        for (y, x), joint in self.joints.items():
            char = _JOINTS[joint]
            if (y, x) in self.dashed:
                char = {"│": "┊", "─": "┄"}.get(char, char)
            self.cells[y].setdefault(x, char)
        found = []
        for y in range(max(self.cells, default=-1) + 1):
            row = self.cells.get(y, {})
            text = "".join(row.get(x, " ") for x in range(max(row, default=-1) + 1))
            found.append(text.rstrip())
        return found

    def write(self, x: int, y: int, text: str) -> None:
        """Write text over whatever is there; wide characters take two cells."""
        for char in text:
            width = cells(char)
            if width == 0:
                self.cells[y][x - 1] = self.cells[y].get(x - 1, "") + char
                continue
            self.cells[y][x] = char
            if width == 2:
                self.cells[y][x + 1] = ""
            x += width

    def picture(self, picture: Picture, x: int, y: int) -> None:
        """Draw a picture with its upper left corner in this cell."""
        for card, size, (left, top) in zip(
            picture.cards, picture.sizes, picture.layout.corners, strict=True
        ):
            self._card(card, size, x + int(left), y + int(top))
        by_gap: dict[float, list[Crossing]] = defaultdict(list)
        for crossing in picture.layout.crossings:
            by_gap[crossing.gap_top].append(crossing)
        for crossings in by_gap.values():
            rows = assign_rows([(crossing.x1, crossing.x2) for crossing in crossings])
            for crossing in crossings:
                self._edge(crossing, rows.get((crossing.x1, crossing.x2), 0), x, y)

    def _card(self, card: Card, size: Size, x: int, y: int) -> None:
        border = _MAP if card.is_map else _WHEN if card.conditional else _STEP
        width, height = int(size.width), int(size.height)
        for edge, corners in ((y, border.top), (y + height - 1, border.bottom)):
            self.write(x, edge, corners[0] + border.across * (width - 2) + corners[1])
        for row in range(y + 1, y + height - 1):
            self.write(x, row, border.down)
            self.write(x + width - 1, row, border.down)
        lines = _lines(card)
        for number, line in enumerate(lines):
            indent = 2 if card.inner is not None else (width - cells(line)) // 2
            self.write(x + indent, y + 1 + number, line)
        if card.inner is not None:
            left = x + (width - int(card.inner.layout.width)) // 2
            self.picture(card.inner, left, y + 1 + len(lines))

    def _edge(self, edge: Crossing, row: int, x: int, y: int) -> None:
        x1, x2 = x + int(edge.x1), x + int(edge.x2)
        turn = y + int(edge.gap_top) + 1 + row
        end = y + int(edge.end) - 1
        self._down(x1, y + int(edge.start), turn - 1, edge.dashed)
        self._joint(x1, turn, _UP, edge.dashed)
        self._across(x1, x2, turn, edge.dashed)
        self._joint(x2, turn, _DOWN, edge.dashed)
        self._down(x2, turn + 1, end, edge.dashed)
        above = self.cells[y + int(edge.start) - 1]
        if above.get(x1) in ("─", "┄", "═"):
            above[x1] = "╤" if above[x1] == "═" else "┬"
        if edge.arrives:
            self.cells[end][x2] = "▼"

    def _down(self, x: int, top: int, bottom: int, dashed: bool) -> None:
        for row in range(top, bottom + 1):
            self._joint(x, row, _UP | _DOWN, dashed)

    def _across(self, x1: int, x2: int, y: int, dashed: bool) -> None:
        low, high = min(x1, x2), max(x1, x2)
        for column in range(low, high + 1):
            joint = (_LEFT if column > low else 0) | (_RIGHT if column < high else 0)
            self._joint(column, y, joint, dashed)

    def _joint(self, x: int, y: int, joint: int, dashed: bool) -> None:
        if dashed and (y, x) not in self.joints:
            self.dashed.add((y, x))
        elif not dashed:
            self.dashed.discard((y, x))
        self.joints[y, x] |= joint
