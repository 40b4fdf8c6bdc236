"""A digest of a definition that changes when a stored run may no longer fit it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from calandria.definition.contract import Contract
from calandria.definition.references import Computed, Literal, Reference, Source, describe

if TYPE_CHECKING:
    from calandria.definition.building import WiredNode


def shape_of(contract: Contract, nodes: Mapping[str, WiredNode], returns: Reference) -> str:
    """Return the digest of names, wiring and contracts; literals and defaults are no part of it."""
    return _digest(_lines(contract, nodes, returns))[:32]


def fingerprints_of(nodes: Mapping[str, WiredNode]) -> dict[str, str]:
    """Return for each step its kind and a digest of its target, wiring and contract."""
    return {
        name: f"{found.node.kind.value} {_digest(_step_lines(name, found))[:8]}"
        for name, found in nodes.items()
    }


def _digest(lines: Iterator[str]) -> str:
    # where functions and objects are in memory differs from one process to the next
    text = _ADDRESS.sub("", "\n".join(lines))
    return hashlib.sha256(text.encode()).hexdigest()


_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def _lines(contract: Contract, nodes: Mapping[str, WiredNode], returns: Reference) -> Iterator[str]:
    yield from _contract_lines(contract)
    for name, found in nodes.items():
        yield from _step_lines(name, found)
    yield f"returns {describe(returns)}"


def _step_lines(name: str, found: WiredNode) -> Iterator[str]:
    yield f"{found.node.kind.value} {name}: {found.target.name} after {found.dependencies}"
    if found.target.reactor is not None:
        yield found.target.reactor.definition().shape
    else:
        yield from _contract_lines(found.target.contract)
    for field, source in found.wiring.items():
        yield f"  {field} = {_source_text(source)}"
    if found.over is not None:
        yield f"  over {_source_text(found.over)}"


def _contract_lines(contract: Contract) -> Iterator[str]:
    for field in contract.fields.values():
        yield f"  {field.name}: {field.annotation!r} {'required' if field.required else ''}"


def _source_text(source: Source) -> str:
    if isinstance(source, Literal):
        return "a literal"
    if isinstance(source, Computed):
        return "computed"
    return describe(source)
