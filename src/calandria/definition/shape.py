"""A digest of a definition that changes when a stored run may no longer fit it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from calandria.definition.contract import Contract
from calandria.definition.references import Computed, Literal, Reference, Source, describe

if TYPE_CHECKING:
    from calandria.definition.building import WiredNode


def shape_of(contract: Contract, nodes: Mapping[str, WiredNode], returns: Reference) -> str:
    """Return the digest of names, wiring and contracts; literals and defaults are no part of it."""
    text = "\n".join(_lines(contract, nodes, returns))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _lines(contract: Contract, nodes: Mapping[str, WiredNode], returns: Reference) -> Iterator[str]:
    yield from _contract_lines(contract)
    for name, found in nodes.items():
        yield f"{found.node.kind.value} {name}: {found.target.name} after {found.dependencies}"
        if found.target.reactor is not None:
            yield found.target.reactor.definition().shape
        else:
            yield from _contract_lines(found.target.contract)
        for field, source in found.wiring.items():
            yield f"  {field} = {_source_text(source)}"
        if found.over is not None:
            yield f"  over {_source_text(found.over)}"
    yield f"returns {describe(returns)}"


def _contract_lines(contract: Contract) -> Iterator[str]:
    for field in contract.fields.values():
        yield f"  {field.name}: {field.annotation!r} {'required' if field.required else ''}"


def _source_text(source: Source) -> str:
    if isinstance(source, Literal):
        return "a literal"
    if isinstance(source, Computed):
        return "computed"
    return describe(source)
