"""From a reactor's class body to its complete, checked definition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from calandria.coordination.checks import check_declarations
from calandria.coordination.primitives import Primitive
from calandria.definition.compatibility import check_iterable, check_wire
from calandria.definition.conditions import condition_of
from calandria.definition.contract import Contract
from calandria.definition.declarations import inherited_inputs
from calandria.definition.functions import readable_name
from calandria.definition.hand_off import hand_off_of
from calandria.definition.members import inherited_nodes
from calandria.definition.node_definition import (
    Condition,
    MapOptions,
    NodeDefinition,
    ReactorDefinition,
)
from calandria.definition.nodes import DeclaredNode, MapNode
from calandria.definition.redacting import Redactor
from calandria.definition.references import Reference, Source, StepRoot, describe
from calandria.definition.shape import fingerprints_of, shape_of
from calandria.definition.sources import UNKNOWN, SourceTypes
from calandria.definition.targets import Target, retry_of, target_of
from calandria.definition.trouble import locating, wrong
from calandria.definition.wiring import Surroundings, collection_of, steps_of, wire
from calandria.errors import DefinitionError
from calandria.plan.model import AWAITED, Node, NodeKind, Plan
from calandria.plan.ordering import find_cycle, topological_order
from calandria.plan.policies import ONCE, Retry

if TYPE_CHECKING:
    from calandria.definition.reactors import Reactor


@dataclass(frozen=True, eq=False)
class WiredNode:
    """A node whose target, sources and dependencies are known."""

    node: DeclaredNode
    name: str
    target: Target
    wiring: Mapping[str, Source]
    over: Source | None
    condition: Condition | None
    dependencies: tuple[str, ...]
    retry: Retry


def build_definition(reactor: type[Reactor]) -> ReactorDefinition:
    """Return the complete definition of `reactor`; raises `DefinitionError` if it is wrong.

    Raises `UnresolvedAnnotation`, a `DefinitionError`, while an annotation refers to something
    that is not defined yet.
    """
    name = readable_name(reactor)
    nodes = inherited_nodes(reactor)
    if not nodes:
        raise wrong(name, None, "there are no steps. Declare one: name = step(...).")
    contract = Contract(name, inherited_inputs(reactor))
    with locating(name, None):
        _check_names(contract, nodes)
        _check_options(reactor)
        contract.resolve()
    around = Surroundings(reactor, contract, nodes)
    wired = {step: _wire_node(around, name, step, node) for step, node in nodes.items()}
    _check_cycles(name, wired)
    returns = _returns(reactor, around)
    types = SourceTypes(contract, {step: _result_type(found) for step, found in wired.items()})
    _check_types(name, wired, types)
    order = topological_order({step: found.dependencies for step, found in wired.items()})
    redactor = Redactor(contract, {step: wired[step] for step in order}, returns)
    awaited = _awaited(wired)
    with locating(name, "background"):
        hand_off = hand_off_of(name, reactor.background, around)
    plan = Plan(
        name,
        tuple(node for w in wired.values() for node in _plan_nodes(w, awaited)),
        _root_step(returns),
        reactor.concurrency,
        hand_off,
    )
    return ReactorDefinition(
        reactor=reactor,
        name=name,
        contract=contract,
        nodes=_node_definitions(name, wired, types, redactor) | _await_definitions(name, awaited),
        plan=plan,
        returns=returns,
        result_annotation=types.type_of(returns),
        concurrency=reactor.concurrency,
        coordination=_reactor_coordination(name, reactor, contract),
        middleware=tuple(reactor.middleware),
        shape=shape_of(contract, wired, returns),
        redaction=redactor.redaction,
        fingerprints=fingerprints_of(wired),
    )


def _check_names(contract: Contract, nodes: Mapping[str, DeclaredNode]) -> None:
    for step in nodes:
        if step in contract.names:
            raise wrong(
                contract.owner, step, "an input and a step have the same name. Rename one of them."
            )


def _check_options(reactor: type[Reactor]) -> None:
    name = readable_name(reactor)
    for option in ("coordination", "middleware"):
        given: object = getattr(reactor, option)
        if not isinstance(given, (list, tuple)):
            raise wrong(name, None, f"{option} is {given!r}: give a list, even of one.")
    concurrency: object = reactor.concurrency
    if not isinstance(concurrency, int) or isinstance(concurrency, bool) or concurrency < 1:
        raise wrong(
            name,
            None,
            f"concurrency = {concurrency!r}: give a whole number of at least 1.",
        )


def _wire_node(around: Surroundings, reactor: str, name: str, node: DeclaredNode) -> WiredNode:
    with locating(reactor, name):
        target = target_of(node)
        wiring = wire(node, target, around)
        over = collection_of(node, around) if isinstance(node, MapNode) else None
        condition = _condition(node, target, around)
        sources: list[object] = [*wiring.values(), condition, over]
        needed = [step for source in sources for step in steps_of(source)]
        needed += [around.step_name(after) for after in node.dependencies]
        if name in needed:
            raise wrong(reactor, name, "the step uses its own result. Refer to another step.")
        dependencies = tuple(dict.fromkeys(needed))
        retry = retry_of(node, target)
    return WiredNode(node, name, target, wiring, over, condition, dependencies, retry)


def _condition(node: DeclaredNode, target: Target, around: Surroundings) -> Condition | None:
    condition = node.condition
    if condition is None:
        return None
    if isinstance(condition, (DeclaredNode, Reference)):
        return around.reference(condition)
    if not callable(condition):
        raise wrong(
            readable_name(around.reactor),
            node.name,
            f".when({condition!r}) needs a reference or a function of the step's inputs.",
        )
    if isinstance(node, MapNode):
        raise wrong(
            readable_name(around.reactor),
            node.name,
            "the inputs of a map_each exist per element only. Give .when a reference, such as "
            "inputs.name.map(lambda value: ...).",
        )
    return condition_of(condition, target.contract, f"{readable_name(around.reactor)}.{node.name}")


def _check_cycles(reactor: str, wired: Mapping[str, WiredNode]) -> None:
    cycle = find_cycle({name: found.dependencies for name, found in wired.items()})
    if cycle:
        raise wrong(
            reactor,
            cycle[0],
            f"the steps wait for each other in a circle: {' -> '.join(cycle)}. Remove one of "
            "these dependencies.",
        )


def _result_type(found: WiredNode) -> object:
    target = found.target
    if found.node.kind in (NodeKind.MAP, NodeKind.SPAWN):
        return UNKNOWN
    if target.reactor is not None:
        return target.reactor.definition().result_annotation
    if target.unit is None or target.unit.output is None:
        return UNKNOWN
    return target.unit.output.annotation


def _returns(reactor: type[Reactor], around: Surroundings) -> Reference:
    declared: object = reactor.returns
    if declared is None:
        names = list(around.nodes)
        awaited = [step for step in names if around.nodes[step].kind is not NodeKind.SPAWN]
        return Reference(StepRoot((awaited or names)[-1]))
    name = readable_name(reactor)
    with locating(name, "returns"):
        if isinstance(declared, (DeclaredNode, Reference)):
            reference = around.reference(declared)
            if isinstance(reference.root, StepRoot):
                if around.nodes[reference.root.name].kind is NodeKind.SPAWN:
                    raise DefinitionError(
                        f"{describe(declared)} is spawned: the run does not wait for it. Return a "
                        "step that uses its result."
                    )
                return reference
    raise wrong(
        name,
        "returns",
        f"{describe(declared)} is no step of this reactor. Give a step, or a path into its result.",
    )


def _check_types(reactor: str, wired: Mapping[str, WiredNode], types: SourceTypes) -> None:
    for name, found in wired.items():
        with locating(reactor, name):
            fields = found.target.contract.fields
            element = None
            if found.over is not None:
                element = check_iterable(found.over, types)
            for field, source in found.wiring.items():
                check_wire(source, fields[field], types, element)


def _awaited(wired: Mapping[str, WiredNode]) -> frozenset[str]:
    """Return the spawned units whose outcome some step uses."""
    spawned = {name for name, found in wired.items() if found.node.kind is NodeKind.SPAWN}
    return frozenset(spawned & {step for found in wired.values() for step in _feeding(found)})


def _plan_nodes(found: WiredNode, awaited: frozenset[str]) -> list[Node]:
    nodes = [_plan_node(found, awaited)]
    if found.name in awaited:
        name = found.name + AWAITED
        nodes.append(Node(name, NodeKind.AWAIT, (found.name,), target=found.target.name))
    return nodes


def _await_definitions(reactor: str, awaited: frozenset[str]) -> dict[str, NodeDefinition]:
    return {
        name + AWAITED: NodeDefinition(
            owner=reactor,
            name=name + AWAITED,
            kind=NodeKind.AWAIT,
            unit=None,
            reactor=None,
            wiring={},
            condition=None,
            retry=ONCE,
            coordination=(),
            redacted=frozenset(),
            result_redacted=False,
            runs_user_code=False,
        )
        for name in awaited
    }


def _plan_node(found: WiredNode, awaited: frozenset[str]) -> Node:
    unit = found.target.unit
    inner = None
    if found.target.reactor is not None:
        inner = found.target.reactor.definition().plan
    return Node(
        name=found.name,
        kind=found.node.kind,
        dependencies=_dependencies(found, awaited),
        retry=found.retry,
        rollback_retry=unit.rollback_retry if unit else ONCE,
        compensates=unit is not None and unit.has("compensate"),
        undoes=found.node.kind in (NodeKind.COMPOSE, NodeKind.MAP)
        or (unit is not None and unit.has("undo")),
        reconciles=unit is not None and unit.has("reconcile"),
        conditional=found.condition is not None,
        target=found.target.name,
        inner=inner,
        ordering=_ordering_only(found),
    )


def _feeding(found: WiredNode) -> set[str]:
    sources: list[object] = [*found.wiring.values(), found.condition, found.over]
    return {step for source in sources for step in steps_of(source)}


def _dependencies(found: WiredNode, awaited: frozenset[str]) -> tuple[str, ...]:
    feeding = _feeding(found)
    return tuple(
        name + AWAITED if name in awaited and name in feeding else name
        for name in found.dependencies
    )


def _ordering_only(found: WiredNode) -> tuple[str, ...]:
    feeding = _feeding(found)
    return tuple(name for name in found.dependencies if name not in feeding)


def _node_definitions(
    reactor: str, wired: Mapping[str, WiredNode], types: SourceTypes, redactor: Redactor
) -> dict[str, NodeDefinition]:
    redaction = redactor.redaction(frozenset())
    return {
        name: NodeDefinition(
            owner=reactor,
            name=name,
            kind=found.node.kind,
            unit=found.target.unit,
            reactor=found.target.reactor,
            wiring=found.wiring,
            condition=found.condition,
            retry=found.retry,
            coordination=_coordination(reactor, found, redaction.inputs[name]),
            redacted=redaction.inputs[name],
            result_redacted=name in redaction.results,
            runs_user_code=_runs_user_code(found, types),
            map=_map_options(found),
        )
        for name, found in wired.items()
    }


def _reactor_coordination(
    name: str, reactor: type[Reactor], contract: Contract
) -> tuple[Primitive, ...]:
    with locating(name, None):
        return check_declarations(reactor.coordination, contract.fields, contract.redacted)


def _coordination(
    reactor: str, found: WiredNode, redacted: frozenset[str]
) -> tuple[Primitive, ...]:
    declared = found.target.unit.coordination if found.target.unit else ()
    with locating(reactor, found.name):
        together = (*declared, *found.node.coordination)
        return check_declarations(together, found.target.contract.fields, redacted)


def _runs_user_code(found: WiredNode, types: SourceTypes) -> bool:
    sources: list[Source] = [*found.wiring.values()]
    if found.over is not None:
        sources.append(found.over)
    if isinstance(found.condition, Reference):
        sources.append(found.condition)
    elif found.condition is not None:
        return True
    element = types.element_of(found.over) if found.over is not None else None
    return found.target.contract.runs_user_code or any(
        types.runs_user_code(source, element) for source in sources
    )


def _map_options(found: WiredNode) -> MapOptions | None:
    node = found.node
    if not isinstance(node, MapNode):
        return None
    assert found.over is not None
    return MapOptions(found.over, node.keeps_going, node.collector, node.bulk_undo)


def _root_step(returns: Reference) -> str:
    assert isinstance(returns.root, StepRoot)
    return returns.root.name
