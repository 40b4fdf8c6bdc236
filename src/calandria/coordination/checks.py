"""What of a declaration can be found wrong before anything runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from calandria.coordination.keys import fields_of
from calandria.coordination.primitives import (
    PRIMITIVES,
    Lock,
    OrderedLock,
    Period,
    Primitive,
    Semaphore,
)
from calandria.errors import DefinitionError


def check_declarations(
    declared: Sequence[object], inputs: Iterable[str], redacted: frozenset[str]
) -> tuple[Primitive, ...]:
    """Return the declarations of one reactor or step; raises `DefinitionError` if one is wrong.

    `inputs` are the names that keys may use, `redacted` those they may not.
    """
    known = frozenset(inputs)
    checked: list[Primitive] = []
    for primitive in declared:
        if not isinstance(primitive, PRIMITIVES):
            raise DefinitionError(
                f"coordination holds {primitive!r}: give Lock, Semaphore, RateLimit, Period or "
                "OrderedLock."
            )
        if isinstance(primitive.key, str):
            _check_template(primitive, primitive.key, known, redacted)
        checked.append(primitive)
    _check_together(checked)
    return tuple(checked)


def _check_template(
    primitive: Primitive, key: str, known: frozenset[str], redacted: frozenset[str]
) -> None:
    kind = type(primitive).__name__
    for name in sorted(fields_of(key)):
        if name not in known:
            raise DefinitionError(
                f"{kind}({key!r}): there is no input {name!r}. Its inputs: "
                f"{', '.join(sorted(known)) or 'none'}."
            )
        if name in redacted:
            raise DefinitionError(
                f"{kind}({key!r}): the input {name!r} is redacted, and a key is shown in logs and "
                "views. Use another input."
            )


def _check_together(primitives: Sequence[Primitive]) -> None:
    seen: dict[str, Primitive] = {}
    ordered = [primitive for primitive in primitives if isinstance(primitive, OrderedLock)]
    periods = [primitive for primitive in primitives if isinstance(primitive, Period)]
    for kind, found in (("OrderedLock", ordered), ("Period", periods)):
        if len(found) > 1:
            raise DefinitionError(f"coordination has {len(found)} of {kind}: give one.")
    for primitive in primitives:
        if not isinstance(primitive, (Lock, Semaphore)) or not isinstance(primitive.key, str):
            continue
        other = seen.setdefault(primitive.key, primitive)
        if other is primitive:
            continue
        if type(other) is not type(primitive):
            raise DefinitionError(
                f"the key {primitive.key!r} is both a lock's and a semaphore's: whoever holds one "
                "would not keep out the other. Use two keys."
            )
        raise DefinitionError(f"the key {primitive.key!r} is declared twice. Keep one of them.")
