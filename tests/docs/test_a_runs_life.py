"""The page on a run's life says what `statuses.py` says."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from pathlib import Path

import pytest

from calandria import statuses
from calandria.statuses import (
    FINISHED,
    RUN_TRANSITIONS,
    STEP_ROLLBACK_TRANSITIONS,
    STEP_TRANSITIONS,
    RunStatus,
    StepRollback,
    StepStatus,
)

PAGE = (Path(__file__).parents[2] / "docs" / "a-runs-life.md").read_text(encoding="utf-8")

Moves = Mapping[Enum, Iterable[Enum]]


def diagram(moves: Moves, begins: Enum, ends: Iterable[Enum]) -> str:
    """Return a table of transitions as a Mermaid state diagram, in order of declaration."""
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {begins.value}"]
    order = list(type(begins))
    for status in order:
        reached = sorted(moves[status], key=order.index)
        lines += [f"    {status.value} --> {other.value}" for other in reached if other != status]
    lines += [f"    {status.value} --> [*]" for status in order if status in set(ends)]
    return "\n".join([*lines, "```"])


def documented(kind: type[Enum]) -> Iterator[tuple[str, str]]:
    """Yield the members of an enumeration and the text below each in the source."""
    tree = ast.parse(inspect.getsource(statuses))
    (found,) = [
        node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == kind.__name__
    ]
    for member, below in zip(found.body, found.body[1:], strict=False):
        if isinstance(member, ast.Assign) and isinstance(below, ast.Expr):
            assert isinstance(member.targets[0], ast.Name)
            yield kind[member.targets[0].id].value, ast.literal_eval(below.value)


@pytest.mark.parametrize(
    ("moves", "begins", "ends"),
    [
        (RUN_TRANSITIONS, RunStatus.PENDING, FINISHED),
        (
            STEP_TRANSITIONS,
            StepStatus.STARTED,
            [one for one in StepStatus if not STEP_TRANSITIONS[one]],
        ),
        (
            STEP_ROLLBACK_TRANSITIONS,
            StepRollback.NONE,
            [one for one in StepRollback if not STEP_ROLLBACK_TRANSITIONS[one]],
        ),
    ],
    ids=["run", "step", "rollback of a step"],
)
def test_the_diagrams_are_the_tables(moves: Moves, begins: Enum, ends: Iterable[Enum]) -> None:
    drawn = diagram(moves, begins, ends)
    assert drawn in PAGE, f"docs/a-runs-life.md lacks this diagram:\n{drawn}"


def test_the_page_says_of_each_status_who_moves_it_on() -> None:
    rows = dict(documented(RunStatus))
    assert list(rows) == [status.value for status in RunStatus]
    for status, text in rows.items():
        assert f"| `{status}` | {text} |" in PAGE, f"docs/a-runs-life.md lacks {status}: {text}"
