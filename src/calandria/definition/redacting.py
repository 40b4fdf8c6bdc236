"""Following redacted values along their wires, into nested reactors and back out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from calandria.definition.contract import Contract
from calandria.definition.node_definition import Redaction
from calandria.definition.references import (
    Computed,
    ElementRoot,
    InputRoot,
    Literal,
    Reference,
    Source,
    StepRoot,
)

if TYPE_CHECKING:
    from calandria.definition.building import WiredNode


class Redactor:
    """Works out what must not be shown of one reactor's runs; remembers each answer."""

    def __init__(
        self, contract: Contract, ordered: Mapping[str, WiredNode], returns: Reference
    ) -> None:
        self._contract = contract
        self._ordered = ordered
        self._returns = returns
        self._known: dict[frozenset[str], Redaction] = {}

    def redaction(self, fed: frozenset[str] = frozenset()) -> Redaction:
        """Return what to redact when these inputs are fed with redacted values.

        Inputs that are declared `Redacted` count in any case.
        """
        found = self._known.get(fed)
        if found is None:
            found = self._known[fed] = self._follow(self._contract.redacted | fed)
        return found

    def _follow(self, redacted_inputs: frozenset[str]) -> Redaction:
        inputs: dict[str, frozenset[str]] = {}
        results: set[str] = set()
        nested: dict[str, Redaction] = {}
        for name, found in self._ordered.items():
            element = found.over is not None and _leaks(found.over, redacted_inputs, results)
            fed = {
                field
                for field, source in found.wiring.items()
                if _leaks(source, redacted_inputs, results, element)
            }
            inputs[name] = found.target.contract.redacted | fed
            if found.target.reactor is not None:
                nested[name] = found.target.reactor.definition().redaction(frozenset(fed))
                redacted_result = nested[name].returns
            else:
                output = found.target.unit.output if found.target.unit else None
                redacted_result = output is not None and output.redacted
            if redacted_result:
                results.add(name)
        returns = _leaks(self._returns, redacted_inputs, results)
        return Redaction(inputs, frozenset(results), nested, returns)


def _leaks(
    source: Source,
    inputs: frozenset[str],
    results: set[str],
    element: bool = False,
) -> bool:
    if isinstance(source, Literal):
        return False
    if isinstance(source, Computed):
        return any(_leaks(argument, inputs, results) for argument in source.arguments.values())
    root = source.root
    if isinstance(root, InputRoot):
        return root.name in inputs
    if isinstance(root, StepRoot):
        return root.name in results
    return element and isinstance(root, ElementRoot)
