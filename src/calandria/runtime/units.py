"""Spawned steps as runs of their own: a reactor of one step, made from where it was spawned.

Such a run is stored under the name of the reactor that spawned it, followed by the step's path in
it: `shop:Checkout/email`. Whoever takes the run up finds the step by that name.
"""

from __future__ import annotations

import hashlib
import re
import weakref

from calandria.definition.node_definition import NodeDefinition, ReactorDefinition, Redaction
from calandria.definition.references import InputRoot, Reference, StepRoot
from calandria.definition.unit import StepUnit
from calandria.plan.model import Node, NodeKind, Plan
from calandria.runtime.lookup import loaded_reactor
from calandria.runtime.targets import Target, nested_target_name

_INDEX = re.compile(r"\[\d+\]$")


def child_id(parent_id: str, path: str) -> str:
    """Return the id of the run that is spawned at `path`: the same whenever it is asked for."""
    return f"{parent_id}.{hashlib.sha256(path.encode()).hexdigest()[:12]}"


def stored_definition(name: str) -> ReactorDefinition | None:
    """Return the definition of the reactor, or of the unit, that is stored under `name`.

    `None` if it is not loaded, or is there no more.
    """
    reactor_name, _, path = name.partition("/")
    reactor = loaded_reactor(reactor_name)
    if reactor is None:
        return None
    definition = reactor.definition()
    if not path:
        return definition
    node = _locate(definition, path)
    if node is None or node.unit is None or node.kind is not NodeKind.SPAWN:
        return None
    return _unit_definition(node, node.unit)


def _locate(definition: ReactorDefinition, path: str) -> NodeDefinition | None:
    *above, last = path.split("/")
    for part in above:
        nested = nested_target_name(part)
        if nested is not None:
            target = Target.loaded(nested)
            reactor = None if target is None else target.reactor
        else:
            node = definition.nodes.get(_INDEX.sub("", part))
            if node is not None and node.kind is NodeKind.STEP:
                # nested work stands below the step that does it
                continue
            reactor = None if node is None else node.reactor
        if reactor is None:
            return None
        definition = reactor.definition()
    return definition.nodes.get(last)


_made: weakref.WeakKeyDictionary[NodeDefinition, ReactorDefinition] = weakref.WeakKeyDictionary()


def _unit_definition(node: NodeDefinition, unit: StepUnit) -> ReactorDefinition:
    found = _made.get(node)
    if found is None:
        found = _made[node] = _make_unit_definition(node, unit)
    return found


def _make_unit_definition(node: NodeDefinition, unit: StepUnit) -> ReactorDefinition:
    name = f"{node.owner}/{node.name}"
    plan = Plan(
        name,
        (
            Node(
                node.name,
                retry=node.retry,
                rollback_retry=unit.rollback_retry,
                compensates=unit.has("compensate"),
                undoes=unit.has("undo"),
                reconciles=unit.has("reconcile"),
                target=unit.name,
            ),
        ),
        node.name,
    )
    step = NodeDefinition(
        owner=name,
        name=node.name,
        kind=NodeKind.STEP,
        unit=unit,
        reactor=None,
        wiring={field: Reference(InputRoot(field)) for field in unit.contract.fields},
        condition=None,
        retry=node.retry,
        coordination=node.coordination,
        redacted=node.redacted,
        result_redacted=node.result_redacted,
        runs_user_code=unit.contract.runs_user_code,
    )
    results = frozenset({node.name}) if node.result_redacted else frozenset[str]()

    def redaction(fed: frozenset[str]) -> Redaction:
        return Redaction({node.name: node.redacted | fed}, results, {}, node.result_redacted)

    return ReactorDefinition(
        reactor=None,
        name=name,
        contract=unit.contract,
        nodes={node.name: step},
        plan=plan,
        returns=Reference(StepRoot(node.name)),
        result_annotation=unit.output.annotation if unit.output is not None else object,
        concurrency=1,
        coordination=(),
        middleware=(),
        shape="",
        redaction=redaction,
    )
