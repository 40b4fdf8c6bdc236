"""Pictures of plans: steps in layers, what is nested in its own box, a run's statuses on top."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, get_args

from calandria.plan.drawing.mermaid import draw_mermaid
from calandria.plan.drawing.svg import draw_svg
from calandria.plan.drawing.text import draw_text
from calandria.plan.model import Plan

Format = Literal["text", "mermaid", "svg"]

_DRAW: Mapping[str, Callable[[Plan, Mapping[str, str] | None], str]] = {
    "text": draw_text,
    "mermaid": draw_mermaid,
    "svg": draw_svg,
}


def draw(plan: Plan, format: Format = "text", statuses: Mapping[str, str] | None = None) -> str:
    """Return a picture of `plan`, ending in a newline; the same plan gives the same picture.

    Args:
        plan: the reactor's plan.
        format: `text` for a terminal, `mermaid` for a page that renders it, `svg` for a browser
            or a notebook.
        statuses: a run's statuses by path (`booking/confirm`, `refunds[17]/charge`), in the words
            of `StepStatus` and `StepRollback`; steps without one show as not reached. `None` draws
            the plan without a run.

    Raises `ValueError` for another format.
    """
    if format not in _DRAW:
        known = ", ".join(repr(name) for name in get_args(Format))
        raise ValueError(f"draw(format={format!r}): use one of {known}.")
    return _DRAW[format](plan, statuses)


__all__ = ["Format", "draw"]
