"""A reactor's definition, complete and checked: what the engine and the drawing work from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from calandria.coordination.primitives import Primitive
from calandria.definition.contract import Contract
from calandria.definition.references import Reference, Scope, Source, resolve
from calandria.definition.unit import StepUnit
from calandria.plan.model import NodeKind, Plan
from calandria.plan.policies import Retry
from calandria.ports.middleware import MiddlewareFactory

if TYPE_CHECKING:
    from calandria.definition.reactors import Reactor

Condition = Reference | Callable[[Mapping[str, object]], object]
"""A reference, or a function of the step's resolved inputs by name."""


@dataclass(frozen=True, eq=False)
class MapOptions:
    """What is particular to a map.

    `over` resolves to the collection. `collect` and `undo_all` take the results as their only
    argument.
    """

    over: Source
    keep_going: bool = False
    collect: Callable[..., object] | None = None
    undo_all: Callable[..., object] | None = None


@dataclass(frozen=True, eq=False)
class NodeDefinition:
    """One step of a reactor, everything about it decided.

    A step has a `unit`, a compose a `reactor`, a map one of them. `wiring` is complete: inputs
    wired by name are in it, inputs left to their defaults are not. `redacted` are the target's
    inputs that are not to be shown.
    """

    owner: str
    name: str
    kind: NodeKind
    unit: StepUnit | None
    reactor: type[Reactor] | None
    wiring: Mapping[str, Source]
    condition: Condition | None
    retry: Retry
    coordination: tuple[Primitive, ...]
    redacted: frozenset[str]
    result_redacted: bool
    runs_user_code: bool
    map: MapOptions | None = None
    _places: Mapping[str, str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        places = {name: f"{self.owner}.{self.name}, input {name!r}" for name in self.wiring}
        object.__setattr__(self, "_places", places)

    @property
    def contract(self) -> Contract:
        """The contract of the target."""
        if self.unit is not None:
            return self.unit.contract
        assert self.reactor is not None
        return self.reactor.definition().contract

    def arguments(self, scope: Scope) -> dict[str, object]:
        """Return the wired inputs of the target, resolved and not yet validated.

        Raises `UnresolvedReference` naming reactor, step, input and path.
        """
        places = self._places
        return {name: resolve(source, scope, places[name]) for name, source in self.wiring.items()}


@dataclass(frozen=True, eq=False)
class Redaction:
    """What must not be shown of a run, given which of its reactor's inputs must not.

    `inputs` are redacted inputs by step, `results` the steps whose results are, `nested` the same
    for the reactors of composes and maps. `returns` tells about the reactor's own value.
    """

    inputs: Mapping[str, frozenset[str]]
    results: frozenset[str]
    nested: Mapping[str, Redaction]
    returns: bool


@dataclass(frozen=True, eq=False)
class ReactorDefinition:
    """A reactor, complete and checked.

    `nodes` are in order of declaration. `returns` leads to the reactor's value. `shape` is a
    digest of names, wiring and contracts: it changes when a stored run may no longer fit.
    """

    reactor: type[Reactor] | None
    """The class it is of; `None` for what the runtime puts together itself."""
    name: str
    contract: Contract
    nodes: Mapping[str, NodeDefinition]
    plan: Plan
    returns: Reference
    result_annotation: object
    """The type of the reactor's value as far as annotations tell, else `Any`."""
    concurrency: int
    coordination: tuple[Primitive, ...]
    middleware: tuple[MiddlewareFactory, ...]
    shape: str
    redaction: Callable[[frozenset[str]], Redaction]
    """Returns what to redact when these of the reactor's inputs are fed with redacted values."""
    fingerprints: Mapping[str, str] = field(default_factory=dict)
    """For each step its kind and a digest of its target, wiring and contract."""
