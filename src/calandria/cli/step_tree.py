"""The steps of a run as a tree, the elements of long maps cut short."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Group, RenderableType
from rich.text import Text
from rich.tree import Tree

from calandria.cli.console import brief, one_line
from calandria.cli.report import failure_line, rollback_lines, run_status, step_status, took
from calandria.runtime.run import Run
from calandria.runtime.units import child_id
from calandria.runtime.views import StepView
from calandria.statuses import StepRollback, StepStatus

_REMARKABLE = frozenset({StepStatus.FAILED, StepStatus.RETRYING, StepStatus.STARTED})
_LEFT_BEHIND = frozenset({StepRollback.UNDO_FAILED, StepRollback.COMPENSATE_FAILED})


def step_tree(run: Run, *, elements: int) -> RenderableType:
    """Return the steps that were reached.

    Of each map the first `elements` are shown, and as many more that did not go well.
    """
    tree = Tree(Text(one_line(run.reactor)), guide_style="dim")
    units = {child.id: child for child in run.children}
    _grow(tree, run, "", elements, units)
    return tree


def _grow(tree: Tree, run: Run, scope: str, elements: int, units: Mapping[str, Run]) -> None:
    shown = remarkable = left_out = 0
    for step in run.steps(scope):
        if step.kind == "element":
            if shown < elements:
                shown += 1
            elif _did_not_go_well(step) and remarkable < elements:
                remarkable += 1
            else:
                left_out += 1
                continue
        branch = tree.add(_label(step, units.get(child_id(run.id, step.path))))
        _grow(branch, run, step.path, elements, units)
    if left_out:
        tree.add(Text(f"… {left_out} more elements (--elements shows them)", style="dim"))


def _did_not_go_well(step: StepView) -> bool:
    return step.status in _REMARKABLE or step.rollback in _LEFT_BEHIND


def _label(step: StepView, unit: Run | None) -> RenderableType:
    kind = " (spawned)" if unit is not None else " (map)" if step.kind == "map" else ""
    name = one_line(step.name) + kind
    line = Text(f"{name}  ").append_text(step_status(step.status.value))
    if step.rollback is not StepRollback.NONE:
        line.append(", ").append_text(step_status(step.rollback.value))
    notes = [took(step.started_at, step.finished_at)]
    if step.attempts > 1:
        notes.append(f"{step.attempts} attempts")
    if step.recoveries:
        notes.append(f"taken up {step.recoveries} times")
    line.append("".join(f"  {note}" for note in notes if note), style="dim")
    below = []
    if unit is not None:
        below.append(Text(f"run {unit.id}  ", style="dim").append_text(run_status(unit)))
    elif step.result is not None and step.kind == "step":
        below.append(Text(f"= {brief(step.result, 100)}", style="dim"))
    # what happened below a compose, a map or an element is told there
    if step.error is not None and step.error.step in (None, step.path):
        below.append(Text(failure_line(step.error, at=step.path), style="red"))
    if step.rollback in _LEFT_BEHIND:
        own = [failure for failure in step.rollback_failures if failure.step == step.path]
        below += [Text(text, style="red") for text in rollback_lines(own)]
    return Group(line, *below)
