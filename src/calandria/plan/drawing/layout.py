"""A layered picture of boxes and links, as numbers: no names, no colours, no format."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from calandria.plan.drawing.layers import Layered, Link, into_layers
from calandria.plan.drawing.ordering import Neighbours, order_layers
from calandria.plan.drawing.placing import place


@dataclass(frozen=True)
class Size:
    """The width and height of a box."""

    width: float
    height: float


@dataclass(frozen=True)
class Crossing:
    """One edge across the gap between two layers.

    It leaves `start` (the lower edge of its box, at `x1`) straight down to `gap_top`, crosses the
    gap, and goes straight down from `gap_bottom` to `end`, at `x2`. `arrives` tells whether it
    enters a box there, or goes on as a lane past the layer.
    """

    x1: float
    start: float
    gap_top: float
    x2: float
    gap_bottom: float
    end: float
    dashed: bool
    arrives: bool


@dataclass(frozen=True)
class Layout:
    """Where everything stands; the origin is the upper left corner.

    `corners` are the upper left corners of the boxes. `straight` are the ends of links that were
    too long to lead around other boxes; they are drawn behind them.
    """

    width: float
    height: float
    corners: tuple[tuple[float, float], ...]
    crossings: tuple[Crossing, ...]
    straight: tuple[tuple[float, float, float, float], ...]


GapHeight = Callable[[Sequence[tuple[float, float]]], float]
"""The height a gap needs, from where the edges that cross it leave and arrive."""


@dataclass(frozen=True)
class Spacing:
    """The room a format needs: between boxes, for a lane of bends, between ports on one box."""

    between: float
    lane: float
    port: float
    gap_height: GapHeight
    whole: bool = False
    """Round to whole units, for a grid of characters; widths must then be odd numbers."""


def arrange(sizes: Sequence[Size], links: Sequence[Link], spacing: Spacing) -> Layout:
    """Return a layered layout of boxes of these sizes: what depends on something stands below it.

    The work grows with boxes and links, not with their product, and the same input gives the same
    picture.
    """
    layered = into_layers(len(sizes), links)
    neighbours = Neighbours(layered)
    order_layers(layered, neighbours)
    widths = [size.width for size in sizes] + [spacing.lane] * (layered.size - len(sizes))
    centres = place(layered, neighbours, widths, spacing.between)
    if spacing.whole:
        centres = [_to_cell(centre, width) for centre, width in zip(centres, widths, strict=True)]
    return _Assembly(sizes, layered, neighbours, widths, centres, spacing).layout()


def _to_cell(centre: float, width: float) -> float:
    return float(round(centre - width / 2)) + width // 2


class _Assembly:
    """Turns layers and centres into corners and crossings."""

    def __init__(
        self,
        sizes: Sequence[Size],
        layered: Layered,
        neighbours: Neighbours,
        widths: Sequence[float],
        centres: Sequence[float],
        spacing: Spacing,
    ) -> None:
        self.sizes = sizes
        self.layered = layered
        self.neighbours = neighbours
        self.widths = widths
        self.centres = centres
        self.spacing = spacing
        self.leaves = self._ports(neighbours.below)
        self.enters = self._ports(neighbours.above)

    def layout(self) -> Layout:
        tops, bottoms = self._bands()
        corners = self._corners(tops, bottoms)
        right_edges = [
            centre + width / 2 for centre, width in zip(self.centres, self.widths, strict=True)
        ]
        return Layout(
            width=float(math.ceil(max(right_edges, default=0.0))),
            height=bottoms[-1] if bottoms else 0.0,
            corners=tuple(corners),
            crossings=tuple(self._crossings(tops, bottoms, corners)),
            straight=tuple(self._straight(corners)),
        )

    def _ports(self, adjacent: list[list[int]]) -> dict[tuple[int, int], float]:
        """Spread the edges on one side of each box, in the order of where they lead."""
        ports = {}
        for vertex, others in enumerate(adjacent):
            room = self.widths[vertex] - 2 * self.spacing.port
            step = min(self.spacing.port, room / max(len(others) - 1, 1))
            if self.spacing.whole:
                step = float(step >= self.spacing.port) * self.spacing.port
            if vertex >= self.layered.boxes:
                step = 0.0
            first = self.centres[vertex] - step * ((len(others) - 1) / 2)
            if self.spacing.whole:
                first = float(int(first))
            ordered = sorted(others, key=lambda other: (self.centres[other], other))
            for place_on_box, other in enumerate(ordered):
                ports[vertex, other] = first + step * place_on_box
        return ports

    def _bands(self) -> tuple[list[float], list[float]]:
        tops: list[float] = []
        bottoms: list[float] = []
        edge = 0.0
        for number, layer in enumerate(self.layered.layers):
            if number:
                edge += self.spacing.gap_height(self._crossing_ends(number - 1))
            tops.append(edge)
            edge += max((self.sizes[v].height for v in layer if v < self.layered.boxes), default=0)
            bottoms.append(edge)
        return tops, bottoms

    def _crossing_ends(self, number: int) -> list[tuple[float, float]]:
        return [
            (self.leaves[source, target], self.enters[target, source])
            for source in self.layered.layers[number]
            for target in self.neighbours.below[source]
        ]

    def _corners(self, tops: list[float], bottoms: list[float]) -> list[tuple[float, float]]:
        corners = [(0.0, 0.0)] * len(self.sizes)
        for layer, top, bottom in zip(self.layered.layers, tops, bottoms, strict=True):
            for vertex in layer:
                if vertex < self.layered.boxes:
                    size = self.sizes[vertex]
                    y = top + (bottom - top - size.height) / 2
                    left = self.centres[vertex] - size.width / 2
                    corners[vertex] = (
                        (float(int(left + 0.5)), float(int(y))) if self.spacing.whole else (left, y)
                    )
        return corners

    def _crossings(
        self, tops: list[float], bottoms: list[float], corners: list[tuple[float, float]]
    ) -> list[Crossing]:
        found = []
        for number, (upper, lower) in enumerate(pairwise(range(len(tops)))):
            for source in self.layered.layers[number]:
                for target in self.neighbours.below[source]:
                    box = target < self.layered.boxes
                    leaves = bottoms[upper]
                    if source < self.layered.boxes:
                        leaves = corners[source][1] + self.sizes[source].height
                    found.append(
                        Crossing(
                            x1=self.leaves[source, target],
                            start=leaves,
                            gap_top=bottoms[upper],
                            x2=self.enters[target, source],
                            gap_bottom=tops[lower],
                            end=corners[target][1] if box else bottoms[lower],
                            dashed=self.layered.edges[source, target],
                            arrives=box,
                        )
                    )
        return found

    def _straight(
        self, corners: list[tuple[float, float]]
    ) -> list[tuple[float, float, float, float]]:
        return [
            (
                self.centres[link.source],
                corners[link.source][1] + self.sizes[link.source].height,
                self.centres[link.target],
                corners[link.target][1],
            )
            for link in self.layered.skipped
        ]
