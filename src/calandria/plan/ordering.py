"""The order that dependencies leave possible, and the circles that leave none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def find_cycle(dependencies: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the steps of one circle, the first one again at the end, or nothing.

    Each step in it needs the one after it.
    """
    done: set[str] = set()
    for start in dependencies:
        # depth first, with the path kept by hand: a plan may be longer than Python's stack
        path: list[str] = [start]
        on_path = {start}
        remaining = [iter(dependencies[start])]
        while path:
            needed = next((n for n in remaining[-1] if n not in done), None)
            if needed is None:
                done.add(path[-1])
                on_path.discard(path.pop())
                remaining.pop()
            elif needed in on_path:
                return [*path[path.index(needed) :], needed]
            else:
                path.append(needed)
                on_path.add(needed)
                remaining.append(iter(dependencies[needed]))
    return []


def topological_order(dependencies: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the steps so that each comes after all it needs, else as they were declared.

    There must be no circle among them.
    """
    waiting = {name: len(set(needed)) for name, needed in dependencies.items()}
    dependents: dict[str, list[str]] = {name: [] for name in dependencies}
    for name, needed in dependencies.items():
        for other in set(needed):
            dependents[other].append(name)
    ready = [name for name, count in waiting.items() if count == 0]
    for name in ready:
        for dependent in dependents[name]:
            waiting[dependent] -= 1
            if waiting[dependent] == 0:
                ready.append(dependent)
    return ready
