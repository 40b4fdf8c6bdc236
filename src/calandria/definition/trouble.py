"""Definition errors that say where: reactor, step, what is wrong, and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from calandria.errors import DefinitionError


def wrong(reactor: str, step: str | None, message: str) -> DefinitionError:
    """Return the error for a step of a reactor, or for the reactor itself."""
    place = reactor if step is None else f"{reactor}.{step}"
    return DefinitionError(f"{place}: {message}", reactor=reactor, step=step)


@contextmanager
def locating(reactor: str, step: str | None) -> Iterator[None]:
    """Add the place to a `DefinitionError` raised inside that does not name its reactor yet."""
    try:
        yield
    except DefinitionError as error:
        if error.reactor is not None:
            raise
        place = reactor if step is None else f"{reactor}.{step}"
        message = str(error) if str(error).startswith(f"{place}: ") else f"{place}: {error}"
        raise type(error)(message, reactor=reactor, step=step) from error
