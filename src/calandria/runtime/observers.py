"""Telling middleware what was committed. Nothing a hook does can disturb the run."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from calandria.ports.middleware import Middleware, MiddlewareFactory

logger = logging.getLogger("calandria.middleware")


class Observers:
    """The middleware of one execution of a run, made afresh for it."""

    def __init__(self, factories: Iterable[MiddlewareFactory]) -> None:
        self._observers: list[Middleware] = []
        for factory in factories:
            try:
                self._observers.append(factory())
            except Exception:
                logger.exception("event=middleware.failed middleware=%r hook=__init__", factory)

    def __bool__(self) -> bool:
        return bool(self._observers)

    def notify(self, hook: str, *arguments: Any) -> None:
        """Call one hook of each middleware; an error in one is logged and passed over."""
        for observer in self._observers:
            try:
                getattr(observer, hook)(*arguments)
            except Exception:
                logger.exception(
                    "event=middleware.failed middleware=%s hook=%s", type(observer).__name__, hook
                )
