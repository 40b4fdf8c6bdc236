"""Where in its layer each vertex stands: near the middle of its neighbours, never overlapping."""

from __future__ import annotations

import math
from collections.abc import Sequence

from calandria.plan.drawing.layers import Layered
from calandria.plan.drawing.ordering import Neighbours

_STRAIGHT = 8.0
"""How much more a lane of bends wants to be straight than two boxes want to be aligned."""


def place(
    layered: Layered, neighbours: Neighbours, widths: Sequence[float], gap: float
) -> list[float]:
    """Return the centre of every vertex, the leftmost edge at 0.

    `widths` are those of all vertices, bends included; `gap` is kept free between any two.
    """
    centres = [0.0] * layered.size
    for layer in layered.layers:
        edge = 0.0
        for vertex in layer:
            centres[vertex] = edge + widths[vertex] / 2
            edge += widths[vertex] + gap
        for vertex in layer:
            centres[vertex] -= edge / 2
    for sweep in range(10):
        downward = sweep % 2 == 0
        adjacent = neighbours.above if downward else neighbours.below
        for layer in layered.layers if downward else reversed(layered.layers):
            _settle(layer, [adjacent], layered.boxes, centres, widths, gap)
    for _ in range(2):
        for layer in layered.layers:
            both = [neighbours.above, neighbours.below]
            _settle(layer, both, layered.boxes, centres, widths, gap)
    for _ in range(2):
        _straighten(layered, neighbours, centres, widths, gap)
    left = min((centres[v] - widths[v] / 2 for layer in layered.layers for v in layer), default=0)
    return [centre - left for centre in centres]


def _settle(
    layer: Sequence[int],
    sides: Sequence[list[list[int]]],
    boxes: int,
    centres: list[float],
    widths: Sequence[float],
    gap: float,
) -> None:
    """Move one layer as close to its neighbours as its order and widths allow."""
    wishes, weights, offsets = [], [], []
    offset = 0.0
    for place_in_layer, vertex in enumerate(layer):
        if place_in_layer:
            offset += (widths[layer[place_in_layer - 1]] + widths[vertex]) / 2 + gap
        wish, weight = _wish(vertex, sides, boxes, centres)
        offsets.append(offset)
        wishes.append(wish - offset)
        weights.append(weight)
    for vertex, moved, offset in zip(layer, _rising(wishes, weights), offsets, strict=True):
        centres[vertex] = moved + offset


def _straighten(
    layered: Layered,
    neighbours: Neighbours,
    centres: list[float],
    widths: Sequence[float],
    gap: float,
) -> None:
    """Put what follows one after the other on one line, as far as there is room for it."""
    side: dict[int, tuple[int | None, int | None]] = {}
    for layer in layered.layers:
        for number, vertex in enumerate(layer):
            right = layer[number + 1] if number + 1 < len(layer) else None
            side[vertex] = (layer[number - 1] if number else None, right)

    def room(vertex: int) -> tuple[float, float]:
        left, right = side[vertex]
        half = widths[vertex] / 2 + gap
        low = -math.inf if left is None else centres[left] + widths[left] / 2 + half
        high = math.inf if right is None else centres[right] - widths[right] / 2 - half
        # rounding must not make the place where the vertex stands now seem taken
        return min(low, centres[vertex]), max(high, centres[vertex])

    for chain in _chains(layered, neighbours):
        start = 0
        while start < len(chain):
            low, high = room(chain[start])
            end = start + 1
            while end < len(chain):
                lowest, highest = room(chain[end])
                if max(low, lowest) > min(high, highest):
                    break
                low, high, end = max(low, lowest), min(high, highest), end + 1
            mean = sum(centres[vertex] for vertex in chain[start:end]) / (end - start)
            for vertex in chain[start:end]:
                centres[vertex] = min(max(mean, low), high)
            start = end


def _chains(layered: Layered, neighbours: Neighbours) -> list[list[int]]:
    """Return the lanes, and the boxes that follow one another alone, longest first."""
    following: dict[int, int] = {}
    for source, target in layered.edges:
        alone = len(neighbours.below[source]) == len(neighbours.above[target]) == 1
        if alone or min(source, target) >= layered.boxes:
            following[source] = target
    inside = set(following.values())
    chains = []
    for layer in layered.layers:
        for vertex in layer:
            if vertex in following and vertex not in inside:
                chain = [vertex]
                while chain[-1] in following:
                    chain.append(following[chain[-1]])
                chains.append(chain)
    return sorted(chains, key=len, reverse=True)


def _wish(
    vertex: int, sides: Sequence[list[list[int]]], boxes: int, centres: list[float]
) -> tuple[float, float]:
    total = weight = 0.0
    for adjacent in sides:
        for other in adjacent[vertex]:
            pull = _STRAIGHT if vertex >= boxes and other >= boxes else 1.0
            total += pull * centres[other]
            weight += pull
    if not weight:
        return centres[vertex], 0.1
    return total / weight, weight


def _rising(wishes: Sequence[float], weights: Sequence[float]) -> list[float]:
    """Return the closest values to `wishes`, by weighted squares, that never fall."""
    blocks: list[tuple[float, float, int]] = []
    for wish, weight in zip(wishes, weights, strict=True):
        mean, heavy, members = wish, weight, 1
        while blocks and blocks[-1][0] > mean:
            before, before_weight, before_members = blocks.pop()
            mean = (before * before_weight + mean * heavy) / (before_weight + heavy)
            heavy += before_weight
            members += before_members
        blocks.append((mean, heavy, members))
    return [mean for mean, _, members in blocks for _ in range(members)]
