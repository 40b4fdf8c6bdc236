"""Wiring: where each input of a step comes from, given explicitly or found by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from calandria.definition.complaints import suggestion
from calandria.definition.contract import Contract
from calandria.definition.functions import parameters_of, readable_name
from calandria.definition.nodes import DeclaredNode, MapNode
from calandria.definition.references import (
    Computed,
    ElementRoot,
    IndexRoot,
    InputRoot,
    Literal,
    Reference,
    Source,
    StepRoot,
    describe,
)
from calandria.definition.targets import Target
from calandria.errors import DefinitionError


@dataclass(frozen=True, eq=False)
class Surroundings:
    """What the steps of one reactor can be wired to."""

    reactor: type
    contract: Contract
    nodes: Mapping[str, DeclaredNode]

    def step_name(self, node: object) -> str:
        """Return the name of a step of this reactor; raises `DefinitionError` for any other."""
        if not isinstance(node, DeclaredNode):
            raise DefinitionError(f"{node!r} is no step of this reactor: give the step itself.")
        if node.owner is None or node.name is None:
            raise DefinitionError(
                f"{describe(node)} is used but has no name. Assign it to a name of its own in the "
                "class body."
            )
        if node.owner not in self.reactor.__mro__:
            owner = readable_name(node.owner)
            raise DefinitionError(
                f"{owner}.{node.name} is a step of another reactor. Use compose({owner}, ...) and "
                "refer to its result."
            )
        return node.name

    def reference(self, source: DeclaredNode | Reference, *, in_map: bool = False) -> Reference:
        """Return a reference whose root is known to this reactor, steps by their names."""
        if isinstance(source, DeclaredNode):
            return Reference(StepRoot(self.step_name(source)))
        root = source.root
        if isinstance(root, StepRoot):
            return Reference(StepRoot(self.step_name(root.step)), source.operations)
        if isinstance(root, InputRoot) and root.name not in self.contract.fields:
            raise DefinitionError(
                f"{describe(source)}: the reactor has no input {root.name!r}"
                f"{suggestion(root.name, self.contract.fields)}. Declare it, or correct the name."
            )
        if isinstance(root, (ElementRoot, IndexRoot)) and not in_map:
            raise DefinitionError(
                f"{describe(source)} exists only in the wiring of map_each(...): use it there, or "
                "refer to an input or a step."
            )
        return source

    def source(self, value: object, *, in_map: bool = False) -> Source:
        """Return what a wired value means: a reference, or itself."""
        if isinstance(value, (DeclaredNode, Reference)):
            return self.reference(value, in_map=in_map)
        hidden = next(_references_in(value), None)
        if hidden is not None:
            raise DefinitionError(
                f"{describe(hidden)} is inside a {type(value).__name__}, where it would not be "
                "resolved. Wire it to an input of its own, or build the value in .map(...)."
            )
        return Literal(value)


def wire(node: DeclaredNode, target: Target, around: Surroundings) -> dict[str, Source]:
    """Return where each input of the target comes from, in the contract's order.

    Raises `DefinitionError` for inputs that do not exist, and for required ones that nothing is
    wired to.
    """
    fields = target.contract.fields
    unknown = [name for name in node.wiring if name not in fields]
    if unknown:
        raise DefinitionError(
            f"{target.name} has no input {unknown[0]!r}{suggestion(unknown[0], fields)}. Its "
            f"inputs: {', '.join(fields) or 'none'}."
        )
    in_map = isinstance(node, MapNode)
    wired: dict[str, Source] = {}
    missing: list[str] = []
    for name, field in fields.items():
        if name in node.wiring:
            wired[name] = around.source(node.wiring[name], in_map=in_map)
            continue
        found = _by_name(name, around, steps_too=node.functions is not None)
        if found is not None:
            wired[name] = found
        elif field.required:
            missing.append(name)
    if missing:
        raise DefinitionError(_missing_message(node, target, missing))
    return wired


def collection_of(node: MapNode, around: Surroundings) -> Source:
    """Return what a map goes over; raises `DefinitionError` if it is not given or no collection."""
    over = node.over
    if over is None:
        raise DefinitionError(
            "map_each needs over=: a reference to a collection, a collection, or a function that "
            "returns one."
        )
    if isinstance(over, (DeclaredNode, Reference)):
        return around.reference(over)
    if callable(over):
        return _computed(over, around)
    if not isinstance(over, Iterable):
        raise DefinitionError(f"over={over!r} cannot be iterated over: give a collection.")
    return around.source(over)


def steps_of(source: object) -> Iterator[str]:
    """Return the names of the steps whose results `source` needs."""
    if isinstance(source, Reference) and isinstance(source.root, StepRoot):
        yield source.root.name
    elif isinstance(source, Computed):
        for argument in source.arguments.values():
            yield from steps_of(argument)


def _by_name(name: str, around: Surroundings, *, steps_too: bool) -> Reference | None:
    if name in around.contract.fields:
        return Reference(InputRoot(name))
    if steps_too and name in around.nodes:
        return Reference(StepRoot(name))
    return None


def _computed(function: Callable[..., object], around: Surroundings) -> Computed:
    if inspect.iscoroutinefunction(function):
        raise DefinitionError(
            f"over={readable_name(function)} is async. Fetch the collection in a step, and give "
            "that step."
        )
    arguments: dict[str, Reference] = {}
    for name, parameter in parameters_of(function).items():
        found = _by_name(name, around, steps_too=True)
        if found is not None:
            arguments[name] = found
        elif parameter.default is inspect.Parameter.empty:
            raise DefinitionError(
                f"over={readable_name(function)}: its parameter {name!r} is neither an input nor "
                "a step of the reactor. Name one, or give it a default."
            )
    return Computed(function, arguments)


def _missing_message(node: DeclaredNode, target: Target, missing: Sequence[str]) -> str:
    first = missing[0]
    names = ", ".join(repr(name) for name in missing)
    plural = "s" if len(missing) > 1 else ""
    if isinstance(node, MapNode):
        fix = f"Wire the element to it: map_each({target.name}, over=..., {first}=element)"
    elif node.functions is not None:
        fix = f"Call the parameter like an input or a step of the reactor, or wire it: {first}=..."
    else:
        fix = f"Wire it: {node.function}({target.name}, {first}=...)"
    return (
        f"nothing is wired to the required input{plural} {names} of {target.name}. {fix}, or "
        f"declare a reactor input called {first!r}."
    )


def _references_in(value: object) -> Iterator[DeclaredNode | Reference]:
    if isinstance(value, (DeclaredNode, Reference)):
        yield value
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from _references_in(part)
    elif isinstance(value, (list, tuple, Set)):
        for part in value:
            yield from _references_in(part)
