"""What must not be shown of a stored run, by the paths of its steps."""

from __future__ import annotations

import re
from typing import Literal

from calandria.definition.node_definition import ReactorDefinition, Redaction
from calandria.plan.model import NodeKind
from calandria.runtime.levels import NOTHING_REDACTED

_INDEX = re.compile(r"\[\d+\]$")


class RunRedaction:
    """Answers by path, from the reactor's definition.

    Without one (`None`: the reactor is not loaded) nothing can be told to be harmless, so
    `unknown` has every input and result kept back.
    """

    def __init__(self, definition: ReactorDefinition | None) -> None:
        self._definition = definition
        self.unknown = definition is None
        self.top: frozenset[str] = (
            NOTHING_REDACTED if definition is None else definition.contract.redacted
        )
        self._redaction = None if definition is None else definition.redaction(self.top)

    def inputs(self, path: str) -> frozenset[str]:
        """Return which inputs of the step at `path` must not be shown."""
        found = self._around(path)
        if found is None:
            return NOTHING_REDACTED
        redaction, _, name = found
        return redaction.inputs.get(name, NOTHING_REDACTED)

    def result(self, path: str) -> bool:
        """Tell whether the result of the step at `path` must not be shown."""
        found = self._around(path)
        if found is None:
            return False
        redaction, _, name = found
        return name in redaction.results

    def kind(self, path: str) -> Literal["step", "compose", "map"]:
        """Tell what the step at `path` is; a step where that is not known."""
        found = self._around(path)
        if found is None:
            return "step"
        _, definition, name = found
        node = definition.nodes.get(name)
        if node is None or node.kind is NodeKind.STEP:
            return "step"
        return "compose" if node.kind is NodeKind.COMPOSE else "map"

    def _around(self, path: str) -> tuple[Redaction, ReactorDefinition, str] | None:
        """Return the redaction and definition of the reactor around a step, and its name there."""
        definition, redaction = self._definition, self._redaction
        if definition is None or redaction is None:
            return None
        *above, last = path.split("/")
        for part in above:
            name = _INDEX.sub("", part)
            node = definition.nodes.get(name)
            if node is None or node.reactor is None or name not in redaction.nested:
                return None
            definition, redaction = node.reactor.definition(), redaction.nested[name]
        return redaction, definition, _INDEX.sub("", last)
