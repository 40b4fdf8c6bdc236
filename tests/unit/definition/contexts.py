"""A context and a scope that hold what a test gives them."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

from calandria.definition.context import StepContext


def context(**attributes: Any) -> StepContext:
    """Return a context that has exactly these attributes."""
    return cast(StepContext, SimpleNamespace(**attributes))


class FixedScope:
    """Looks references up in plain mappings."""

    def __init__(
        self,
        inputs: Mapping[str, object] | None = None,
        results: Mapping[str, object] | None = None,
        element: object = None,
        index: int = 0,
    ) -> None:
        self._inputs = inputs or {}
        self._results = results or {}
        self._element = element
        self._index = index

    def input(self, name: str) -> object:
        return self._inputs[name]

    def result(self, step: str) -> object:
        return self._results[step]

    def element(self) -> object:
        return self._element

    def index(self) -> int:
        return self._index
