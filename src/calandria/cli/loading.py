"""Importing what the user named: modules, and reactors in them."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterable
from types import ModuleType

from calandria.cli.exits import CommandError
from calandria.definition.reactors import Reactor


def import_module(name: str) -> ModuleType:
    """Import a module, also from the working directory.

    Raises `CommandError` if there is no such module, or naming the error that importing it raised.
    """
    working_directory = os.getcwd()
    if working_directory not in sys.path:
        sys.path.insert(0, working_directory)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise CommandError(
                f"There is no module {name!r}: give its dotted name, and run this where it can "
                "be imported."
            ) from error
        raise _broken(name, error) from error
    except (Exception, SystemExit) as error:  # importing runs any code at all
        raise _broken(name, error) from error


def import_modules(names: Iterable[str]) -> None:
    """Import modules, so that the reactors in them are known."""
    for name in names:
        import_module(name)


def load_reactor(spec: str) -> type[Reactor]:
    """Return the reactor at `module:Reactor`; raises `CommandError` if there is none there."""
    module_name, separator, path = spec.partition(":")
    if not separator or not module_name or not path:
        raise CommandError(f"{spec!r}: name a reactor as module:Reactor.")
    found: object = import_module(module_name)
    for part in path.split("."):
        if not hasattr(found, part):
            raise CommandError(f"There is no {path!r} in {module_name}{_known(module_name)}.")
        found = getattr(found, part)
    if not (isinstance(found, type) and issubclass(found, Reactor)) or found is Reactor:
        raise CommandError(f"{spec} is not a reactor{_known(module_name)}.")
    return found


def reactors_in(module: ModuleType) -> list[type[Reactor]]:
    """Return the reactors defined in a module, in order of definition."""
    return [
        found
        for found in vars(module).values()
        if isinstance(found, type)
        and issubclass(found, Reactor)
        and found.__module__ == module.__name__
    ]


def _known(module_name: str) -> str:
    names = [reactor.__qualname__ for reactor in reactors_in(sys.modules[module_name])]
    return f"; it has {', '.join(names)}" if names else "; it has no reactors"


def _broken(name: str, error: BaseException) -> CommandError:
    return CommandError(f"Importing {name} failed: {type(error).__name__}: {error}")
