"""What must not be shown of a stored run, by the paths of its steps."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from calandria.definition.node_definition import ReactorDefinition, Redaction
from calandria.plan.model import AWAITED, NodeKind
from calandria.runtime.levels import NOTHING_REDACTED
from calandria.runtime.targets import Target, nested_target_name

_INDEX = re.compile(r"\[\d+\]$")


@dataclass(frozen=True)
class Place:
    """What is known of one step: what of it is redacted, and the reactor below it, if any."""

    inputs: frozenset[str]
    result: bool
    kind: Literal["step", "compose", "map"] = "step"
    below: tuple[ReactorDefinition, Redaction] | None = None


class RunRedaction:
    """Answers by path, from the definitions of the run's reactor and of its nested work.

    Where the definition is not loaded, or does not have the step any more, nothing can be told to
    be harmless, and every input and result is kept back.
    """

    def __init__(
        self, definition: ReactorDefinition | None, fed: frozenset[str] = NOTHING_REDACTED
    ) -> None:
        """`fed` are inputs that the run's parent gave redacted values to."""
        self._top: tuple[ReactorDefinition, Redaction] | None = None
        self._fed = fed
        if definition is not None:
            self._top = definition, definition.redaction(definition.contract.redacted | fed)

    def run_inputs(self, names: Iterable[str]) -> frozenset[str]:
        """Return which of the run's own inputs must not be shown."""
        if self._top is None:
            return frozenset(names)
        return self._top[0].contract.redacted | self._fed

    def inputs(self, path: str, names: Iterable[str]) -> frozenset[str]:
        """Return which of the inputs `names` of the step at `path` must not be shown."""
        place = self._place(path)
        return frozenset(names) if place is None else place.inputs

    def result(self, path: str) -> bool:
        """Tell whether the result of the step at `path` must not be shown."""
        place = self._place(path)
        return place is None or place.result

    def kind(self, path: str) -> Literal["step", "compose", "map"]:
        """Tell what the step at `path` is; a step where that is not known."""
        place = self._place(path)
        return "step" if place is None else place.kind

    def _place(self, path: str) -> Place | None:
        around, place = self._top, None
        for part in path.split("/"):
            nested = nested_target_name(part)
            if nested is not None:
                place = _nested_place(nested)
            else:
                place = None if around is None else _declared_place(around, _INDEX.sub("", part))
            if place is None:
                return None
            around = place.below
        return place


def _declared_place(around: tuple[ReactorDefinition, Redaction], name: str) -> Place | None:
    definition, redaction = around
    # what awaits a unit has the unit's own outcome
    name = name.removesuffix(AWAITED)
    node = definition.nodes.get(name)
    if node is None:
        return None
    kind: Literal["step", "compose", "map"] = "step"
    if node.kind in (NodeKind.COMPOSE, NodeKind.MAP):
        kind = "compose" if node.kind is NodeKind.COMPOSE else "map"
    below = None
    if node.reactor is not None and name in redaction.nested:
        below = node.reactor.definition(), redaction.nested[name]
    inputs = redaction.inputs.get(name, NOTHING_REDACTED)
    return Place(inputs, name in redaction.results, kind, below)


def _nested_place(target_name: str) -> Place | None:
    target = Target.loaded(target_name)
    if target is None:
        return None
    if target.reactor is not None:
        definition = target.reactor.definition()
        redaction = definition.redaction(definition.contract.redacted)
        inputs = definition.contract.redacted
        return Place(inputs, redaction.returns, below=(definition, redaction))
    assert target.unit is not None
    output = target.unit.output
    return Place(target.unit.contract.redacted, output is not None and output.redacted)
