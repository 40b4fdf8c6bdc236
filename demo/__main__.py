"""`python -m demo`: three acts over 830 real orders. Exits with 1 if anything does not add up."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from demo.at_once import place_at_once
from demo.in_turn import place_in_turn
from demo.killed import kill_and_recover
from demo.report import Report

PICTURE = Path("build/demo/order.svg")


Act = Callable[[Path], Report]


def main() -> int:
    """Play the three acts; return the exit code."""
    options = _parse()
    return play(
        [
            lambda folder: place_in_turn(folder, PICTURE),
            place_at_once,
            lambda folder: kill_and_recover(folder, seed=options.seed),
        ],
        console_for_reports(),
    )


def play(acts: Sequence[Act], console: Console) -> int:
    """Play acts, each in a folder of its own; return 1 if any found a difference, else 0."""
    started = time.perf_counter()
    differences = 0
    for act in acts:
        with tempfile.TemporaryDirectory(prefix="calandria-demo-") as folder:
            report = act(Path(folder))
        _print(console, report)
        differences += len(report.differences)
    console.print(f"{time.perf_counter() - started:.0f} s")
    if differences:
        console.print(f"{differences} differences", style="bold red")
        return 1
    console.print("everything adds up", style="bold green")
    return 0


def console_for_reports() -> Console:
    """Return a console that does not fold the tables when the output is kept in a file."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else 120)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="demo", description=__doc__)
    parser.add_argument("--seed", type=int, help="where act three kills (default: at random)")
    return parser.parse_args()


def _print(console: Console, report: Report) -> None:
    table = Table(title=report.title, show_header=False, title_justify="left", min_width=60)
    for what, how in report.rows:
        table.add_row(Text(what), Text(how))
    console.print(table)
    if report.pictured:
        console.print(Text.from_ansi(report.pictured), soft_wrap=True)
    for difference in report.differences:
        console.print(Text(f"difference: {difference}", style="red"))
    console.print()


if __name__ == "__main__":
    sys.exit(main())
