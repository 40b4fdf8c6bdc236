"""Keeps databases whole through `os.fork`: no connection and no held lock reaches a child."""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class Forkable(Protocol):
    """What must be told of a fork."""

    def before_fork(self) -> bool:
        """Get ready; false means that it could not, and the child must not use it."""
        ...

    def after_fork(self, *, in_child: bool) -> None:
        """Go on, in parent and child, after a `before_fork` that returned true."""
        ...

    def abandon(self) -> list[object]:
        """Refuse all use in a child; return what was inherited and must never be closed there."""
        ...


_known: weakref.WeakSet[Forkable] = weakref.WeakSet()
_ready: list[Forkable] = []
_unready: list[Forkable] = []
# kept for the life of a child: even closing these would touch files its parent has locked
_inherited: list[object] = []


def register(database: Forkable) -> None:
    """Have `database` told of every fork for as long as it lives."""
    _known.add(database)


def _before() -> None:
    for database in list(_known):
        (_ready if database.before_fork() else _unready).append(database)


def _after_in_parent() -> None:
    while _ready:
        _ready.pop().after_fork(in_child=False)
    _unready.clear()


def _after_in_child() -> None:
    while _ready:
        _ready.pop().after_fork(in_child=True)
    while _unready:
        _inherited.extend(_unready.pop().abandon())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child
    )
