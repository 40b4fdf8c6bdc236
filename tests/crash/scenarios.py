"""What is run, and how: each scenario starts one run and does to it what a user might."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import Any

from calandria import Reactor, UndoIncomplete
from tests.crash import victims


@dataclass(frozen=True)
class Scenario:
    """`undo`: the run is undone by hand once it has ended. `options` go to the reactor."""

    reactor: type[Reactor]
    inputs: dict[str, Any] = field(default_factory=dict)
    undo: bool = False
    in_loop: bool = False
    same_steps: bool = True
    """Whether each step ends as without a crash; a cancel may cut off another one instead."""

    def start(self) -> None:
        bound = self.reactor.options(idempotency_key="the only one")
        if self.in_loop:
            asyncio.run(bound.arun(**self.inputs))  # type: ignore[attr-defined]
        else:
            bound.run(**self.inputs)  # type: ignore[attr-defined]


def _named(*scenarios: tuple[str, Scenario]) -> dict[str, Scenario]:
    return dict(scenarios)


SCENARIOS = _named(
    ("forward", Scenario(victims.Forward)),
    ("back", Scenario(victims.Back)),
    ("back-whole", Scenario(victims.BackWhole)),
    ("back-in-loop", Scenario(victims.BackWhole, in_loop=True)),
    ("forward-then-undo", Scenario(victims.Forward, undo=True)),
    ("compose", Scenario(victims.Composed)),
    ("compose-fails-deep", Scenario(victims.Composed, {"deep": "fail"})),
    ("compose-fails-late", Scenario(victims.Composed, {"late": "fail"})),
    ("compose-cannot-undo", Scenario(victims.Composed, {"deep": "undo_broken", "late": "fail"})),
    ("compose-undo", Scenario(victims.Composed, undo=True)),
    ("map", Scenario(victims.Mapped, {"scripts": ["", "flaky", "skip", ""]})),
    ("map-fails", Scenario(victims.Mapped, {"scripts": ["", "undo_flaky", "skip", "fail", ""]})),
    ("map-fails-late", Scenario(victims.Mapped, {"scripts": ["", "", "skip"], "late": "fail"})),
    ("map-undo", Scenario(victims.Mapped, {"scripts": ["", "undo_broken", ""]}, undo=True)),
    ("map-of-reactors", Scenario(victims.MappedReactors, {"scripts": ["", "fail"]})),
    ("map-halts", Scenario(victims.MappedReactors, {"scripts": ["", "halt"], "late": "fail"})),
    ("tolerant", Scenario(victims.Tolerant, {"scripts": ["", "fail", "", "raise"]})),
    (
        "tolerant-fails",
        Scenario(
            victims.Tolerant,
            {"scripts": ["", "fail", "", "fail compensate_broken"], "late": "fail"},
        ),
    ),
    ("bulk-fails", Scenario(victims.Bulk, {"scripts": ["", "", "fail"]})),
    ("bulk-undo", Scenario(victims.Bulk, {"scripts": ["", "", ""]}, undo=True)),
    ("broken-source", Scenario(victims.BrokenSource, {"scripts": ["", "", "skip"]})),
    ("broken-return", Scenario(victims.BrokenReturn)),
    ("broken-return-inside", Scenario(victims.ComposedBrokenReturn)),
    ("nested", Scenario(victims.Nesting)),
    ("nested-fails", Scenario(victims.Nesting, {"inner": "fail"})),
    ("nested-fails-after", Scenario(victims.Nesting, {"script": "fail"})),
    ("nested-flaky", Scenario(victims.Nesting, {"script": "flaky"})),
    ("nested-fails-late", Scenario(victims.Nesting, {"late": "fail"})),
    ("nested-undo", Scenario(victims.Nesting, undo=True)),
    ("parallel", Scenario(victims.Parallel)),
    ("parallel-fails", Scenario(victims.Parallel, {"late": "fail"})),
    ("async", Scenario(victims.Async)),
    ("async-fails", Scenario(victims.Async, {"late": "fail"})),
    ("async-in-loop-fails", Scenario(victims.Async, {"late": "fail"}, in_loop=True)),
    ("halt", Scenario(victims.Halting)),
    ("halt-undo", Scenario(victims.Halting, undo=True)),
    ("cancel", Scenario(victims.Cancelled, same_steps=False)),
    ("cancel-undo", Scenario(victims.Cancelled, undo=True, same_steps=False)),
    (
        "everything",
        Scenario(victims.Everything, {"scripts": ["", ""], "late": "fail"}),
    ),
)


def by_hand(scenario: Scenario, run: Any) -> None:
    """Undo the run, if that is part of the scenario and not done."""
    if scenario.undo and run.rollback.value == "none":
        with contextlib.suppress(UndoIncomplete):
            run.undo()
