"""Circles are found wherever they are, and an order is given wherever there is none."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from calandria.plan.ordering import find_cycle, topological_order

GRAPHS = st.integers(1, 8).flatmap(
    lambda size: st.fixed_dictionaries(
        {str(n): st.lists(st.sampled_from([str(m) for m in range(size)])) for n in range(size)}
    )
)


@given(GRAPHS)
def test_a_circle_is_one_and_without_one_there_is_an_order(graph: dict[str, list[str]]) -> None:
    cycle = find_cycle(graph)

    if cycle:
        assert cycle[0] == cycle[-1]
        assert all(after in graph[before] for before, after in pairwise(cycle))
        assert len(set(cycle)) == len(cycle) - 1
        assert len(topological_order(graph)) < len(graph)
    else:
        order = topological_order(graph)
        assert sorted(order) == sorted(graph)
        places = {name: place for place, name in enumerate(order)}
        assert all(places[n] < places[name] for name, needed in graph.items() for n in needed)


def test_a_chain_longer_than_pythons_stack_is_no_problem() -> None:
    chain = {str(n): [str(n + 1)] for n in range(20_000)} | {"20000": []}

    assert find_cycle(chain) == []
    assert topological_order(chain)[0] == "20000"
    assert len(find_cycle(chain | {"20000": ["0"]})) == 20_002


def test_independent_steps_keep_their_order() -> None:
    assert topological_order({"b": [], "a": [], "c": ["a"]}) == ["b", "a", "c"]
