"""What nested work runs: a step or a reactor, found again by the name in its path."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from calandria.coordination.checks import check_declarations
from calandria.definition.node_definition import NodeDefinition
from calandria.definition.steps import unit_of
from calandria.plan.model import Node, NodeKind
from calandria.plan.policies import ONCE
from calandria.runtime.lookup import loaded_reactor, loaded_step, stored_name

if TYPE_CHECKING:
    from calandria.definition.reactors import Reactor
    from calandria.definition.steps import Step
    from calandria.definition.unit import StepUnit

MARK = "~"
"""What the path of nested work begins with, below the step that does it: `~1:module:Name`."""


def nested_target_name(part: str) -> str | None:
    """Return the name of what a part of a path runs as nested work, or `None` for other parts."""
    return part.partition(":")[2] if part.startswith(MARK) else None


@dataclass(frozen=True)
class Target:
    """What nested work runs: a step, or a reactor."""

    name: str
    unit: StepUnit | None = None
    reactor: type[Reactor] | None = None

    @classmethod
    def step(cls, step: type[Step]) -> Target:
        """Return the target that is a step class."""
        return cls(stored_name(step), unit=unit_of(step))

    @classmethod
    def of_reactor(cls, reactor: type[Reactor]) -> Target:
        """Return the target that is a reactor."""
        return cls(stored_name(reactor), reactor=reactor)

    @classmethod
    def loaded(cls, name: str) -> Target | None:
        """Return the target stored under a name, if its class is loaded."""
        step = loaded_step(name)
        if step is not None:
            return cls.step(step)
        reactor = loaded_reactor(name)
        return None if reactor is None else cls.of_reactor(reactor)

    def node(self, key: str) -> Node:
        """Return its node in the plan of a nested level."""
        unit = self.unit
        if unit is None:
            return Node(key, NodeKind.COMPOSE, target=self.name)
        return Node(
            key,
            rollback_retry=unit.rollback_retry,
            compensates=unit.has("compensate"),
            undoes=unit.has("undo"),
            reconciles=unit.has("reconcile"),
            target=self.name,
        )

    def definition(self, owner: str, key: str) -> NodeDefinition:
        """Return its definition at a nested level."""
        contract = (
            self.unit.contract if self.unit is not None else self.reactor.definition().contract  # type: ignore[union-attr]
        )
        redacted = frozenset(name for name, field in contract.fields.items() if field.redacted)
        declared = self.unit.coordination if self.unit is not None else ()
        return NodeDefinition(
            owner=owner,
            name=key,
            kind=NodeKind.STEP if self.unit is not None else NodeKind.COMPOSE,
            unit=self.unit,
            reactor=self.reactor,
            wiring={},
            condition=None,
            retry=ONCE,
            coordination=check_declarations(declared, contract.fields, redacted),
            redacted=redacted,
            result_redacted=False,
            runs_user_code=True,
        )
