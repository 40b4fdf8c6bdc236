"""Which layer each box stands in, and how the links that skip layers are led past the others.

Vertices are numbers: the boxes from 0 in declaration order, then the bends of long links.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush


@dataclass(frozen=True)
class Link:
    """A dependency to draw, from the box it leaves to the box it enters."""

    source: int
    target: int
    dashed: bool = False


@dataclass
class Layered:
    """Boxes and bends by layer; every edge leads from one layer to the next.

    `boxes` is how many of the vertices are boxes. `edges` tells whether each is dashed. `skipped`
    are links too long to be led through the layers.
    """

    boxes: int
    layers: list[list[int]]
    edges: dict[tuple[int, int], bool] = field(default_factory=dict)
    skipped: list[Link] = field(default_factory=list)
    size: int = 0
    """How many vertices there are, bends included."""

    def add_bend(self, layer: int) -> int:
        """Put a bend into `layer` and return its number."""
        bend = self.size
        self.layers[layer].append(bend)
        self.size += 1
        return bend


def into_layers(count: int, links: Sequence[Link]) -> Layered:
    """Return `count` boxes in layers, each below everything it depends on."""
    layer = _longest_paths(count, links)
    layered = Layered(count, [[] for _ in range(max(layer, default=-1) + 1)], size=count)
    for vertex in range(count):
        layered.layers[layer[vertex]].append(vertex)
    _lead_through(layered, links, layer)
    return layered


def _longest_paths(count: int, links: Sequence[Link]) -> list[int]:
    below: list[list[int]] = [[] for _ in range(count)]
    waiting = [0] * count
    for link in links:
        below[link.source].append(link.target)
        waiting[link.target] += 1
    # A layer wider than this makes a picture nobody can read: the rest moves to the next one.
    widest = max(8, math.ceil(2 * math.sqrt(count)))
    room: dict[int, int] = defaultdict(lambda: widest)
    layer = [0] * count
    ready = [vertex for vertex in range(count) if not waiting[vertex]]
    first_open: dict[int, int] = {}
    while ready:
        vertex = heappop(ready)
        layer[vertex] = _first_open(first_open, layer[vertex])
        room[layer[vertex]] -= 1
        if not room[layer[vertex]]:
            first_open[layer[vertex]] = layer[vertex] + 1
        for target in below[vertex]:
            layer[target] = max(layer[target], layer[vertex] + 1)
            waiting[target] -= 1
            if not waiting[target]:
                heappush(ready, target)
    _pull_down(layer, links, below, room)
    return layer


def _first_open(first_open: dict[int, int], layer: int) -> int:
    """Return the first layer with room from `layer` on, shortening the way for the next search."""
    passed = []
    while layer in first_open:
        passed.append(layer)
        layer = first_open[layer]
    for full in passed:
        first_open[full] = layer
    return layer


def _pull_down(
    layer: list[int], links: Sequence[Link], below: list[list[int]], room: dict[int, int]
) -> None:
    """Move boxes that depend on nothing to just above what needs them: shorter links."""
    entered = {link.target for link in links}
    for vertex, targets in enumerate(below):
        if targets and vertex not in entered:
            nearest = min(layer[target] for target in targets) - 1
            if nearest > layer[vertex] and room[nearest] > 0:
                room[layer[vertex]] += 1
                room[nearest] -= 1
                layer[vertex] = nearest


def _lead_through(layered: Layered, links: Sequence[Link], layer: list[int]) -> None:
    long_links = []
    for link in links:
        if layer[link.target] - layer[link.source] == 1:
            layered.edges[link.source, link.target] = link.dashed
        else:
            long_links.append(link)
    for trunk in _affordable(layered, _trunks(long_links), layer):
        _lay_trunk(layered, trunk, layer)


@dataclass(frozen=True)
class _Trunk:
    """Long links that share a lane, because they leave the same box or enter the same one."""

    shared_source: bool
    links: list[Link]

    def span(self, layer: list[int]) -> tuple[int, int]:
        """Return the first layer the lane passes and the one it no longer reaches."""
        first = min(layer[link.source] for link in self.links) + 1
        return first, max(layer[link.target] for link in self.links)


def _trunks(links: Sequence[Link]) -> list[_Trunk]:
    leaving: dict[tuple[int, bool], int] = defaultdict(int)
    entering: dict[tuple[int, bool], int] = defaultdict(int)
    for link in links:
        leaving[link.source, link.dashed] += 1
        entering[link.target, link.dashed] += 1
    trunks: dict[tuple[bool, int, bool], list[Link]] = defaultdict(list)
    for link in links:
        shared_source = leaving[link.source, link.dashed] >= entering[link.target, link.dashed]
        end = link.source if shared_source else link.target
        trunks[shared_source, end, link.dashed].append(link)
    return [_Trunk(shared_source, members) for (shared_source, _, _), members in trunks.items()]


def _affordable(layered: Layered, trunks: list[_Trunk], layer: list[int]) -> list[_Trunk]:
    """Return the trunks to lay, shortest first, so that bends stay in proportion to boxes."""
    links = len(layered.edges) + sum(len(trunk.links) for trunk in trunks)
    budget = 4 * (layered.boxes + links) + 500
    kept = []
    for trunk in sorted(trunks, key=lambda trunk: _length(trunk, layer)):
        budget -= _length(trunk, layer)
        if budget >= 0:
            kept.append(trunk)
        else:
            layered.skipped.extend(trunk.links)
    return kept


def _length(trunk: _Trunk, layer: list[int]) -> int:
    first, end = trunk.span(layer)
    return end - first


def _lay_trunk(layered: Layered, trunk: _Trunk, layer: list[int]) -> None:
    first, end = trunk.span(layer)
    dashed = trunk.links[0].dashed
    bends: dict[int, int] = {}
    for passed in range(first, end):
        bends[passed] = layered.add_bend(passed)
        if passed > first:
            layered.edges[bends[passed - 1], bends[passed]] = dashed
    for link in trunk.links:
        if trunk.shared_source:
            joined = (bends[layer[link.target] - 1], link.target)
            layered.edges[link.source, bends[first]] = dashed
        else:
            joined = (link.source, bends[layer[link.source] + 1])
            layered.edges[bends[end - 1], link.target] = dashed
        layered.edges[joined] = dashed
