"""Finding loaded classes by the names that the storage knows them under."""

from __future__ import annotations

import sys
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


def importable(reactor: type[Reactor]) -> bool:
    """Tell whether another process has this very class once it has imported its module."""
    module = sys.modules.get(reactor.__module__)
    if module is None or reactor.__module__ == "__main__":
        return False
    found: object = module
    for part in reactor.__qualname__.split("."):
        found = getattr(found, part, None)
    # what a function makes is found too if its module keeps it under any name
    return found is reactor or any(value is reactor for value in vars(module).values())


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
