"""Which row of the gap between two layers each edge crosses in, on a grid of characters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Ends = tuple[float, float]
"""The columns where an edge leaves the upper layer and enters the lower one."""


def assign_rows(edges: Sequence[Ends]) -> dict[Ends, int]:
    """Return the row, from 0, of every edge that changes its column.

    Edges from one column share a row; others in that row do not touch them. An edge that leaves
    at the column where another arrives crosses above it, so that their vertical parts do not run
    into each other; where that would go round in a circle, one of them gives way.
    """
    nets: dict[float, set[Ends]] = {}
    for edge in edges:
        if edge[0] != edge[1]:
            nets.setdefault(edge[0], set()).add(edge)
    rows: dict[Ends, int] = {}
    row = 0
    while nets:
        free = [
            start
            for start, net in nets.items()
            if not any(end in nets and end != start for _, end in net)
        ]
        for start in _side_by_side({start: nets[start] for start in free or list(nets)[:1]}):
            rows.update(dict.fromkeys(nets.pop(start), row))
        row += 1
    return rows


def _side_by_side(nets: Mapping[float, set[Ends]]) -> list[float]:
    """Return the starts of nets that fit into one row, from left to right."""
    spans = sorted(
        (min(min(edge) for edge in net), max(max(edge) for edge in net), start)
        for start, net in nets.items()
    )
    taken: list[float] = []
    reached = float("-inf")
    for left, right, start in spans:
        if left > reached:
            taken.append(start)
            reached = right
    return taken
