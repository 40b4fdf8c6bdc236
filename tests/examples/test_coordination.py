"""FR-030 and FR-031: coordination is shown by a runnable demonstration and explained."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path

from calandria import Lock, OrderedLock, Period, RateLimit, Runtime, Semaphore, Success

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
PAGE = (ROOT / "docs" / "coordination.md").read_text(encoding="utf-8")


def output_of(example: str, folder: Path) -> dict[str, str]:
    """Run an example as its user does; return its lines by the word each begins with."""
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / f"{example}.py")],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(line.split(": ", 1) for line in done.stdout.splitlines() if ": " in line)


def test_fr_030_the_three_paths_are_shown(tmp_path: Path) -> None:
    """The serialised, the contended (parked and refused) and the compensated path."""
    said = output_of("step_locks", tmp_path)

    assert list(said) == ["serialised", "parked", "refused", "compensated"]
    assert said["serialised"] == "{'alice': 20}"
    assert said["parked"] == "running ['lock till:1 (Till.serve)']"
    assert said["refused"].startswith("ImpatientTill.serve: Lock 'till:1' was not to be had")
    assert said["compensated"] == "there is none left {'alice': 50}"


def test_fr_030_the_demonstrations_reactors_are_tested_with_the_public_surface_alone() -> None:
    shown = runpy.run_path(str(EXAMPLES / "step_locks.py"))
    pay, balance, diary = shown["Pay"], shown["balance"], shown["diary"]

    with Runtime("memory://"):
        paid = pay.run(account="alice", amount=30)
        assert paid == Success("tea, 70 left")
        assert [hold.key for hold in pay.find(paid.run_id).holds] == [], "let go of at its end"
        failed = pay.run(account="alice", amount=30, goods="sold out")
        assert not failed.ok and failed.rollback_failures == []
        kinds = [entry.kind for entry in pay.find(failed.run_id).trace if "hold" in entry.kind]

    assert balance == {"alice": 70}
    assert diary == ["in", "out", "in", "out", "put back"]
    assert kinds == ["hold.acquired", "hold.released"] * 2, "once forward, once to undo"


def test_fr_030_there_is_an_example_of_every_primitive() -> None:
    for primitive, example in {
        Lock: "step_locks",
        Semaphore: "semaphore",
        RateLimit: "rate_limit",
        Period: "period",
        OrderedLock: "ordered_lock",
    }.items():
        text = (EXAMPLES / f"{example}.py").read_text(encoding="utf-8")
        assert re.search(rf"coordination *= *\[.*{primitive.__name__}\b", text), example


def test_fr_031_the_documentation_shows_the_forms_on_steps() -> None:
    assert re.search(r"class \w+\(Step\):\n(    .*\n|\n)*?    coordination = \[Lock\(", PAGE)
    assert "@step(coordination=[Lock(" in PAGE
    assert ".coordinate(Lock(" in PAGE


def test_fr_031_the_documentation_says_when_to_prefer_which_level() -> None:
    section = PAGE.split("## On a step, or on a reactor?")[1].split("\n## ")[0]

    assert "| a step |" in section and "| a reactor |" in section and "Begin here" in section


def test_fr_031_the_documentation_says_what_contention_does_on_either_path() -> None:
    section = PAGE.split("## What happens when a key is not to be had")[1].split("\n## ")[0]

    header, *rows = [line for line in section.splitlines() if line.startswith("| ")]
    assert "in the caller's process" in header and "in a worker" in header
    step = next(row for row in rows if row.startswith("| a step |"))
    reactor = next(row for row in rows if row.startswith("| a reactor |"))
    assert "fails with the contention error" in step and "**parks**" in step
    assert "**raises**" in reactor and "parks" in reactor
