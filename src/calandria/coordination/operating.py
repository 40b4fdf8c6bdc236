"""The port to the sequences of a storage, for operators: a runtime registers itself here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from calandria.ports.coordination import SequencePosition

if TYPE_CHECKING:
    from calandria.runtime.runtime import Runtime


class Sequences(Protocol):
    """Looks at ordered sequences, and moves on one that is stuck."""

    def peek(self, key: str) -> Sequence[SequencePosition]:
        """Return the positions of a sequence, in order; none if it has drained."""
        ...

    def skip(self, key: str, position: int) -> bool:
        """Pass a position that is not done; false if there is none to pass."""
        ...

    def reset(self, key: str) -> int:
        """Forget a whole sequence; return how many positions it had."""
        ...


_reach: Callable[[Runtime | None], Sequences] | None = None


def reach_sequences_with(reach: Callable[[Runtime | None], Sequences]) -> None:
    """Have `reach` called for the sequences of a runtime, or of the process's default one."""
    global _reach
    _reach = reach


def sequences_of(runtime: Runtime | None) -> Sequences:
    """Return the sequences of a runtime; raises `RuntimeError` if nothing keeps any."""
    if _reach is None:
        raise RuntimeError("Nothing keeps sequences yet: import the calandria package first.")
    return _reach(runtime)
