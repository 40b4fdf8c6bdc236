"""What a node stands for: a step class, a function or a reactor, found wrong or ready to wire."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from calandria.definition.contract import Contract
from calandria.definition.functions import readable_name
from calandria.definition.nodes import ComposeNode, DeclaredNode, MapNode, SpawnNode, StepNode
from calandria.definition.steps import Step, unit_of
from calandria.definition.unit import StepUnit
from calandria.errors import DefinitionError
from calandria.plan.policies import ONCE, Retry

if TYPE_CHECKING:
    from calandria.definition.reactors import Reactor


@dataclass(frozen=True, eq=False)
class Target:
    """What a node runs: exactly one of `unit` and `reactor`."""

    name: str
    contract: Contract
    unit: StepUnit | None = None
    reactor: type[Reactor] | None = None


def target_of(node: DeclaredNode) -> Target:
    """Return what `node` stands for; raises `DefinitionError` if it cannot stand for it."""
    if node.problems:
        raise DefinitionError(node.problems[0])
    if isinstance(node, ComposeNode):
        return _reactor_target(node)
    if isinstance(node, (MapNode, SpawnNode)) and _is_reactor(node.target):
        return _reactor_target(node)
    return _unit_target(node)


def retry_of(node: DeclaredNode, target: Target) -> Retry:
    """Return how often the node is tried: its own policy, or that of what it stands for."""
    policy = node.retry_policy
    if policy is not None and isinstance(node, SpawnNode):
        raise DefinitionError(
            "a spawned unit is not retried by its parent. Give the retry to the step itself."
        )
    if policy is not None and not isinstance(policy, Retry):
        raise DefinitionError(f"retry is {policy!r}: give a Retry(...).")
    if target.unit is None:
        if policy is not None:
            raise DefinitionError(
                f"a nested reactor is never retried as a whole. Give the retry to the steps of "
                f"{target.name} that need it."
            )
        return ONCE
    return policy or target.unit.retry


def _reactor_target(node: DeclaredNode) -> Target:
    reactor = node.target
    if not _is_reactor(reactor):
        hint = "step(...)" if _is_step(reactor) or node.functions else "a Reactor subclass"
        raise DefinitionError(f"compose({readable_name(reactor)}) needs a reactor: use {hint}.")
    found: type[Reactor] = reactor  # type: ignore[assignment]
    definition = found.definition()
    return Target(definition.name, definition.contract, reactor=found)


def _unit_target(node: DeclaredNode) -> Target:
    if node.functions is not None:
        unit = _function_unit(node, node.functions.run)
        return Target(unit.name, unit.contract, unit)
    name = readable_name(node.target)
    if _is_reactor(node.target):
        raise DefinitionError(f"{name} is a reactor: use compose({name}, ...).")
    if isinstance(node.target, Step):
        raise DefinitionError("give the step class itself, not an object.")
    if not _is_step(node.target):
        raise DefinitionError(
            f"{node.function}({name}) cannot be run: give a subclass of Step, or a function."
        )
    unit = unit_of(node.target)  # type: ignore[arg-type]
    if not unit.has("run"):
        raise DefinitionError(f"{name} has no run: define it, or use a subclass that does.")
    return Target(unit.name, unit.contract, unit)


def _function_unit(node: DeclaredNode, function: Callable[..., object]) -> StepUnit:
    if getattr(function, "__name__", "") == "<lambda>":
        raise DefinitionError(
            "a lambda cannot be a step: it has no name to show. Use a function, or .map(lambda "
            "...) to transform a value on its way."
        )
    if node.unit is None:
        assert node.functions is not None and node.owner is not None
        options: dict[str, Any] = {}
        if isinstance(node, StepNode) and node.rollback_retry is not None:
            options["rollback_retry"] = node.rollback_retry
        # a reactor's own functions are annotated with what its body and surroundings can see
        scope = node.owner.__dict__["__calandria_scope__"].within_class(node.owner)
        node.unit = node.functions.build(scope, retry=node.retry_policy or ONCE, **options)
    return node.unit


def _is_reactor(target: object) -> bool:
    from calandria.definition.reactors import Reactor

    return isinstance(target, type) and issubclass(target, Reactor)


def _is_step(target: object) -> bool:
    return isinstance(target, type) and issubclass(target, Step)
