"""The ordered sequences of a runtime's storage, for operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from calandria.ports.coordination import SequencePosition

if TYPE_CHECKING:
    from calandria.runtime.runtime import Runtime


class RuntimeSequences:
    """Looks at the sequences of a runtime, and moves on one that is stuck."""

    def __init__(self, runtime: Runtime) -> None:
        runtime.prepare()
        self._runtime = runtime

    def peek(self, key: str) -> Sequence[SequencePosition]:
        """Return the positions of a sequence, in order; none if it has drained."""
        return self._runtime.gates.store.sequence(key)

    def skip(self, key: str, position: int) -> bool:
        """Pass a position that is not done; false if there is none to pass."""
        passed = self._runtime.gates.store.skip(key, position)
        self._runtime.released()
        return passed

    def reset(self, key: str) -> int:
        """Forget a whole sequence; return how many positions it had."""
        count = self._runtime.gates.store.reset(key)
        self._runtime.released()
        return count
