from __future__ import annotations

from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calandria.plan.drawing.channel import assign_rows
from calandria.plan.drawing.layers import Link, into_layers
from calandria.plan.drawing.layout import Layout, Size, Spacing, arrange
from calandria.plan.drawing.ordering import Neighbours, order_layers

SPACING = Spacing(between=10, lane=6, port=8, gap_height=lambda ends: 20)


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[Size], list[Link]]:
    count = draw(st.integers(1, 30))
    sizes = [Size(draw(st.integers(20, 200)), draw(st.integers(10, 90))) for _ in range(count)]
    pairs = [(a, b) for a, b in combinations(range(count), 2)]
    chosen = draw(st.sets(st.sampled_from(pairs), max_size=50)) if pairs else set()
    return sizes, [Link(a, b, dashed=draw(st.booleans())) for a, b in sorted(chosen)]


def boxes(sizes: list[Size], layout: Layout) -> list[tuple[float, float, float, float]]:
    return [
        (x, y, x + size.width, y + size.height)
        for (x, y), size in zip(layout.corners, sizes, strict=True)
    ]


@given(graphs())
def test_what_depends_on_something_stands_below_it(
    graph: tuple[list[Size], list[Link]],
) -> None:
    sizes, links = graph
    placed = boxes(sizes, arrange(sizes, links, SPACING))
    for link in links:
        assert placed[link.source][3] <= placed[link.target][1]


@given(graphs())
def test_boxes_keep_their_distance_and_stay_on_the_page(
    graph: tuple[list[Size], list[Link]],
) -> None:
    sizes, links = graph
    layout = arrange(sizes, links, SPACING)
    placed = boxes(sizes, layout)
    for (l1, t1, r1, b1), (l2, t2, r2, b2) in combinations(placed, 2):
        beside = r1 + 9.99 <= l2 or r2 + 9.99 <= l1
        assert beside or b1 + 19.99 <= t2 or b2 + 19.99 <= t1
    for left, top, right, bottom in placed:
        assert left >= -0.01 and top >= 0
        assert right <= layout.width + 0.01 and bottom <= layout.height + 0.01


@given(graphs())
def test_no_edge_runs_over_a_box(graph: tuple[list[Size], list[Link]]) -> None:
    sizes, links = graph
    layout = arrange(sizes, links, SPACING)
    placed = boxes(sizes, layout)
    for edge in layout.crossings:
        assert edge.start <= edge.gap_top < edge.gap_bottom <= edge.end
        upright = [(edge.x1, edge.start, edge.gap_top), (edge.x2, edge.gap_bottom, edge.end)]
        for x, top, bottom in upright:
            for left, box_top, right, box_bottom in placed:
                apart = bottom <= box_top + 0.01 or top >= box_bottom - 0.01
                assert apart or x <= left or x >= right
        for _, box_top, _, box_bottom in placed:
            assert box_bottom <= edge.gap_top + 0.01 or box_top >= edge.gap_bottom - 0.01


@given(graphs())
def test_every_link_can_be_followed_from_box_to_box(
    graph: tuple[list[Size], list[Link]],
) -> None:
    sizes, links = graph
    layered = into_layers(len(sizes), links)
    below: dict[int, list[int]] = {}
    for source, target in layered.edges:
        below.setdefault(source, []).append(target)

    def reached(source: int) -> set[int]:
        found, waiting = set(), list(below.get(source, []))
        while waiting:
            vertex = waiting.pop()
            if vertex < layered.boxes:
                found.add(vertex)
            else:
                waiting.extend(below[vertex])
        return found

    drawn = {(source, target) for source in range(len(sizes)) for target in reached(source)}
    wanted = {(link.source, link.target) for link in links if link not in layered.skipped}
    # links that enter one box share a lane, so a lane never claims a link that is not there
    assert drawn == wanted


@given(graphs())
def test_the_same_graph_gives_the_same_picture(graph: tuple[list[Size], list[Link]]) -> None:
    sizes, links = graph
    assert arrange(sizes, links, SPACING) == arrange(sizes, links, SPACING)


def test_ordering_takes_away_crossings_that_need_not_be() -> None:
    # Given two rows wired back to front
    layered = into_layers(8, [Link(a, 7 - a) for a in range(4)])
    # When they are ordered
    order_layers(layered, Neighbours(layered))
    # Then no two edges cross
    upper, lower = layered.layers
    partners = [lower.index(7 - vertex) for vertex in upper]
    assert partners == sorted(partners)


def test_a_chain_stands_on_one_line() -> None:
    sizes = [Size(40 + 20 * (number % 3), 20) for number in range(6)]
    layout = arrange(sizes, [Link(a, b) for a, b in pairwise(range(6))], SPACING)
    middles = {x + s.width / 2 for (x, _), s in zip(layout.corners, sizes, strict=True)}
    assert len({round(middle, 3) for middle in middles}) == 1


@pytest.mark.parametrize("length", [200, 1000])
def test_bends_stay_in_proportion_to_boxes_and_links(length: int) -> None:
    # Given a chain with a link from everywhere to everywhere much later
    links = [Link(n, n + 1) for n in range(length - 1)]
    links += [Link(n, n + length // 2) for n in range(length // 2)]
    # When it is layered
    layered = into_layers(length, links)
    # Then the lanes are few enough to draw, and the links left out are kept to be drawn straight
    assert layered.size <= 5 * length + 4 * len(links) + 500
    laid = {pair for pair in layered.edges if max(pair) < length}
    assert len(laid) == length - 1
    assert layered.skipped


def test_many_independent_boxes_wrap_into_several_layers() -> None:
    layered = into_layers(100, [])
    assert max(len(layer) for layer in layered.layers) == 20


@given(st.sets(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=12))
def test_edges_in_one_row_of_a_channel_touch_only_if_they_leave_together(
    edges: set[tuple[int, int]],
) -> None:
    rows = assign_rows(sorted(edges))
    assert set(rows) == {edge for edge in edges if edge[0] != edge[1]}
    for one, other in combinations(rows, 2):
        if rows[one] == rows[other] and one[0] != other[0]:
            assert max(one) < min(other) or max(other) < min(one)
