"""The order of the vertices within each layer: barycentres first, then swaps of neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from calandria.plan.drawing.layers import Layered

_SWAPS_UP_TO = 400
"""Vertices beyond which neighbours are not swapped one by one: it would take too long."""


class Neighbours:
    """The edges of a layered graph, from both ends."""

    def __init__(self, layered: Layered) -> None:
        self.above: list[list[int]] = [[] for _ in range(layered.size)]
        self.below: list[list[int]] = [[] for _ in range(layered.size)]
        for source, target in layered.edges:
            self.above[target].append(source)
            self.below[source].append(target)


def order_layers(layered: Layered, neighbours: Neighbours) -> None:
    """Reorder each layer in place so that few edges cross; the same graph gives the same order."""
    layers = layered.layers
    position = [0] * layered.size
    for layer in layers:
        _number(layer, position)
    best, fewest = [list(layer) for layer in layers], _all_crossings(layers, neighbours, position)
    for sweep in range(12 if layered.size < 2000 else 4):
        if fewest == 0:
            break
        downward = sweep % 2 == 0
        for layer in layers if downward else reversed(layers):
            _by_barycentre(layer, neighbours.above if downward else neighbours.below, position)
        crossings = _all_crossings(layers, neighbours, position)
        if crossings < fewest:
            best, fewest = [list(layer) for layer in layers], crossings
    layered.layers[:] = best
    if layered.size <= _SWAPS_UP_TO and fewest:
        _swap_neighbours(layered.layers, neighbours, position)


def _number(layer: Sequence[int], position: list[int]) -> None:
    for place, vertex in enumerate(layer):
        position[vertex] = place


def _by_barycentre(layer: list[int], adjacent: list[list[int]], position: list[int]) -> None:
    def barycentre(vertex: int) -> float:
        near = adjacent[vertex]
        return sum(position[other] for other in near) / len(near) if near else position[vertex]

    layer.sort(key=barycentre)
    _number(layer, position)


def _all_crossings(layers: list[list[int]], neighbours: Neighbours, position: list[int]) -> int:
    return sum(
        _crossings(upper, len(lower), neighbours.below, position)
        for upper, lower in pairwise(layers)
    )


def _crossings(upper: list[int], width: int, below: list[list[int]], position: list[int]) -> int:
    """Count inversions among the lower ends, with a binary indexed tree."""
    tree = [0] * (width + 1)
    seen = crossings = 0
    for vertex in upper:
        ends = sorted(position[other] for other in below[vertex])
        for end in ends:
            index, not_right = end + 1, 0
            while index:
                not_right += tree[index]
                index -= index & -index
            crossings += seen - not_right
        for end in ends:
            index = end + 1
            while index <= width:
                tree[index] += 1
                index += index & -index
        seen += len(ends)
    return crossings


def _swap_neighbours(layers: list[list[int]], neighbours: Neighbours, position: list[int]) -> None:
    for layer in layers:
        _number(layer, position)
    for _ in range(8):
        improved = False
        for layer in layers:
            for place in range(len(layer) - 1):
                left, right = layer[place], layer[place + 1]
                if _gain(left, right, neighbours, position) > 0:
                    layer[place], layer[place + 1] = right, left
                    position[left], position[right] = place + 1, place
                    improved = True
        if not improved:
            return


def _gain(left: int, right: int, neighbours: Neighbours, position: list[int]) -> int:
    """Return how many crossings swapping two neighbours takes away."""
    gain = 0
    for adjacent in (neighbours.above, neighbours.below):
        for one in adjacent[left]:
            for other in adjacent[right]:
                gain += (position[one] > position[other]) - (position[one] < position[other])
    return gain
