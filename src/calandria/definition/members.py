"""Reading the steps that a reactor's class body declares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from calandria.definition.functions import readable_name
from calandria.definition.names import REACTOR_RESERVED
from calandria.definition.namespaces import own_annotations
from calandria.definition.nodes import DeclaredNode
from calandria.definition.steps import Step
from calandria.definition.trouble import wrong


def mentioned_annotations(cls: type) -> Iterator[object]:
    """Return every annotation in the body: of inputs, and of the functions that are steps."""
    yield from own_annotations(cls).values()
    for value in cls.__dict__.values():
        if isinstance(value, DeclaredNode) and value.functions is not None:
            yield from getattr(value.functions.run, "__annotations__", {}).values()


def collect_nodes(cls: type) -> dict[str, DeclaredNode]:
    """Return the steps that the body of `cls` itself declares, named and frozen.

    Raises `DefinitionError` for names that are reserved, taken by an input, or not the only one.
    """
    reactor = readable_name(cls)
    annotated = own_annotations(cls)
    found: dict[str, DeclaredNode] = {}
    for name, value in cls.__dict__.items():
        if isinstance(value, DeclaredNode) and name != "returns":
            _check_name(reactor, name, annotated)
            if not _is_alias(name, value, cls):
                _check_node(cls, name, value)
                if value.owner is None:
                    value.freeze(cls, name)
                found[name] = value
        elif _is_forgotten(name, value):
            raise wrong(
                reactor, name, f"{readable_name(value)} is not declared as a step: use step(...)."
            )
    for value in cls.__dict__.values():
        if isinstance(value, DeclaredNode) and value.owner is None:
            raise wrong(reactor, value.label, "the step has no name. Assign it to one.")
    return found


def inherited_nodes(cls: type) -> dict[str, DeclaredNode]:
    """Return all steps of `cls`, those of its bases first, each replaced in its place."""
    found: dict[str, DeclaredNode] = {}
    for base in reversed(cls.__mro__):
        found.update(base.__dict__.get("__calandria_nodes__", {}))
    return found


def _is_alias(name: str, node: DeclaredNode, cls: type) -> bool:
    # a decorated undo or compensate leaves its node under the function's name as well
    if name == "_":
        return True
    if node.owner is not None and node.owner in cls.__mro__ and node.name != name:
        return name in node.action_names
    return False


def _check_name(reactor: str, name: str, annotated: Mapping[str, object]) -> None:
    if name in REACTOR_RESERVED:
        raise wrong(
            reactor,
            name,
            "the library uses this name. Rename the step or function; docs/reserved-names.md "
            "lists the reserved names.",
        )
    if name in annotated:
        raise wrong(reactor, name, "a step is declared without an annotation. Remove it.")


def _check_node(cls: type, name: str, node: DeclaredNode) -> None:
    reactor = readable_name(cls)
    if node.owner is not None and (node.owner is cls or node.owner not in cls.__mro__):
        raise wrong(
            reactor,
            name,
            f"this step is {readable_name(node.owner)}.{node.name} already. Declare another one "
            "with step(...).",
        )
    if node.owner is not None and node.name != name:
        raise wrong(reactor, name, f"this step is inherited as {node.name!r}. Declare another one.")


def _is_forgotten(name: str, value: object) -> bool:
    return isinstance(value, type) and issubclass(value, Step) and value.__name__ != name
