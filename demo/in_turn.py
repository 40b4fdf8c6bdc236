"""Act one: every order, one at a time, in order of id; the end state is known beforehand."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from calandria import Runtime
from demo import audit, catalogue, orders
from demo.expected import expectation
from demo.report import (
    Report,
    check,
    endings,
    open_shop,
    run_id_of,
    storage_in,
    summarize,
)


def place_in_turn(folder: Path, picture: Path, limit: int | None = None) -> Report:
    """Place the first `limit` orders (default: all) and compare with the arithmetic.

    Writes a picture of the most telling run to `picture`, as SVG.
    """
    report = Report("Act one: one at a time, in order of id")
    placed = catalogue.orders()[:limit]
    shop = open_shop(folder)
    orders.use(shop)
    with Runtime(storage=storage_in(folder)):
        started = time.perf_counter()
        run_ids = {order.id: run_id_of(orders.place(order)) for order in placed}
        seconds = time.perf_counter() - started
        ended = endings(run_ids)
        report.pictured = _draw_most_telling(run_ids, ended, picture)
    state = shop.state()
    shop.close()
    summarize(report, state, ended)
    report.say("runs per second", f"{len(placed) / seconds:,.0f}")
    report.say("picture of the run below", picture)
    report.differences += check(state, placed, ended)
    report.differences += audit.check_expectation(state, expectation(placed))
    return report


def _draw_most_telling(run_ids: Mapping[int, str], ended: Mapping[int, str], picture: Path) -> str:
    """Draw the run that was rolled back after it had reserved most."""
    failed = [
        orders.FulfilOrder.find(run_id)
        for order_id, run_id in run_ids.items()
        if ended[order_id] != "completed"
    ]
    if not failed:
        return ""
    run = max(failed, key=lambda run: len(list(run.trace)))
    picture.parent.mkdir(parents=True, exist_ok=True)
    picture.write_text(run.draw("svg"), encoding="utf-8")
    return run.draw("text")
