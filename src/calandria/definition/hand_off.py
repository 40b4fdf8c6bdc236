"""Where a reactor leaves the caller's process: `background = after(step)` or `before(step)`."""

from __future__ import annotations

from dataclasses import dataclass

from calandria.definition.nodes import DeclaredNode
from calandria.definition.trouble import wrong
from calandria.definition.wiring import Surroundings
from calandria.plan.model import HandOff


@dataclass(frozen=True, eq=False)
class HandOffPoint:
    """One step as the point of hand-off, as declared."""

    node: DeclaredNode
    is_after: bool


def after(step: DeclaredNode) -> HandOffPoint:
    """Hand the run to a worker once `step` is done: it is the last to run in the caller."""
    return HandOffPoint(step, is_after=True)


def before(step: DeclaredNode) -> HandOffPoint:
    """Hand the run to a worker when it reaches `step`: it is the first to run in the worker."""
    return HandOffPoint(step, is_after=False)


def hand_off_of(reactor: str, declared: object, around: Surroundings) -> HandOff | None:
    """Return a reactor's point of hand-off; raises `DefinitionError` if it is none."""
    if declared is False or declared is None:
        return None
    if declared is True:
        return HandOff()
    if isinstance(declared, (tuple, list)):
        raise wrong(reactor, "background", "there is one hand-off point. Give one, not several.")
    if not isinstance(declared, HandOffPoint):
        raise wrong(
            reactor,
            "background",
            f"{declared!r} is no hand-off point: give True, after(step) or before(step).",
        )
    name = around.step_name(declared.node)
    return HandOff(after=name) if declared.is_after else HandOff(before=name)
