"""Finding loaded classes by the names that the storage knows them under."""

from __future__ import annotations

from typing import TypeVar

from calandria.definition.reactors import Reactor
from calandria.definition.steps import Step

C = TypeVar("C")


def stored_name(cls: type) -> str:
    """Return the name a reactor or step class is stored under: `module:qualified.name`."""
    return f"{cls.__module__}:{cls.__qualname__}"


def loaded_reactor(name: str) -> type[Reactor] | None:
    """Return the loaded reactor stored under `name`, or `None`; the latest of several wins."""
    return _latest(Reactor, name)


def loaded_step(name: str) -> type[Step] | None:
    """Return the loaded step class stored under `name`, or `None`; the latest of several wins."""
    return _latest(Step, name)


def _latest(base: type[C], name: str) -> type[C] | None:
    found: type[C] | None = None
    waiting = list(base.__subclasses__())
    while waiting:
        cls = waiting.pop(0)
        waiting.extend(cls.__subclasses__())
        if stored_name(cls) == name:
            found = cls
    return found
