"""Refusing to dispatch what no worker could find: reactors that cannot be imported."""

from __future__ import annotations

from collections.abc import Iterator
from weakref import WeakKeyDictionary

from calandria.definition.node_definition import ReactorDefinition
from calandria.definition.reactors import Reactor
from calandria.errors import CalandriaError
from calandria.plan.model import NodeKind
from calandria.runtime.lookup import importable

_known: WeakKeyDictionary[ReactorDefinition, tuple[type[Reactor], ...]] = WeakKeyDictionary()
"""What a run of each reactor dispatches, worked out once."""


def check_reach(reactor: type[Reactor]) -> None:
    """Raise `CalandriaError` if a run would be handed to workers that cannot import its reactor.

    Asked where no worker runs in this process. What is spawned counts, at any depth.
    """
    definition = reactor.definition()
    found = _known.get(definition)
    if found is None:
        found = _known[definition] = tuple(_dispatched(reactor, set()))
    for dispatched in found:
        if not importable(dispatched):
            raise unreachable(dispatched)


def unreachable(reactor: type[Reactor]) -> CalandriaError:
    """Return the error for a reactor that another process cannot import."""
    return CalandriaError(
        f"{reactor.__module__}:{reactor.__qualname__} cannot be dispatched: a worker in another "
        "process could not import it. Define it at the top of a module that workers import "
        "(`calandria worker MODULE`), or start a worker in this process first "
        "(runtime.start_worker()). Nothing was recorded."
    )


def _dispatched(reactor: type[Reactor], seen: set[ReactorDefinition]) -> Iterator[type[Reactor]]:
    """Yield the reactors by whose names workers will look for the work of a run, and below."""
    definition = reactor.definition()
    if definition.plan.hand_off is not None or _spawns_steps(definition):
        yield reactor
    yield from _spawned(definition, seen)


def _spawned(
    definition: ReactorDefinition, seen: set[ReactorDefinition]
) -> Iterator[type[Reactor]]:
    if definition in seen:
        return
    seen.add(definition)
    for node in definition.nodes.values():
        if node.reactor is None:
            continue
        if node.kind is NodeKind.SPAWN:
            yield node.reactor
            yield from _dispatched(node.reactor, seen)
        else:
            yield from _spawned(node.reactor.definition(), seen)


def _spawns_steps(definition: ReactorDefinition) -> bool:
    """Tell whether a step is spawned in a run of this reactor: it is found by the run's reactor."""
    for node in definition.nodes.values():
        if node.kind is NodeKind.SPAWN:
            if node.reactor is None:
                return True
        elif node.reactor is not None and _spawns_steps(node.reactor.definition()):
            return True
    return False
