"""Act two: several processes place the orders at the same time, over one shop and one journal."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

from calandria import Runtime
from demo import catalogue
from demo.report import Report, check, endings, open_shop, storage_in, summarize

ROOT = Path(__file__).parent.parent


def place_at_once(folder: Path, limit: int | None = None, processes: int = 4) -> Report:
    """Place the first `limit` orders (default: all), shared out among `processes`.

    Which orders find stock depends on the interleaving; that each is there whole or not at all,
    that no unit is lost or sold twice, and that the journal agrees, does not.
    """
    report = Report(f"Act two: {processes} processes at once")
    placed = catalogue.orders()[:limit]
    shop = open_shop(folder)
    started = time.perf_counter()
    children = [
        start_placing(folder, [order.id for order in placed[share::processes]])
        for share in range(processes)
    ]
    run_ids: dict[int, str] = {}
    for child in children:
        run_ids.update(_await(child, report))
    seconds = time.perf_counter() - started
    with Runtime(storage=storage_in(folder)):
        ended = endings(run_ids)
    state = shop.state()
    shop.close()
    summarize(report, state, ended)
    report.say("runs per second", f"{len(placed) / seconds:,.0f}, start of processes included")
    report.differences += check(state, placed, ended)
    return report


def start_placing(folder: Path, order_ids: list[int], *options: str) -> subprocess.Popen[str]:
    """Start a process that places these orders; see `demo.place` for its options."""
    arguments = ["--shop", str(folder / "shop.db"), "--storage", storage_in(folder), *options]
    return subprocess.Popen(
        [sys.executable, "-m", "demo.place", *arguments, *map(str, order_ids)],
        cwd=ROOT,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )


def _await(child: subprocess.Popen[str], report: Report) -> dict[int, str]:
    output, _ = child.communicate()
    if child.returncode != 0:
        report.differences.append(f"a placing process ended with exit code {child.returncode}")
    told = [json.loads(line) for line in output.splitlines()]
    return {line["order"]: line["run"] for line in told}
