"""Act three: kill -9 in mid-order, recover in another process, compare with an untouched run."""

from __future__ import annotations

import random
import subprocess
import time
from pathlib import Path

from calandria import Run, RunBusy, RunStatus, Runtime, Settings, runs
from demo import audit, catalogue, orders
from demo.at_once import start_placing
from demo.catalogue import Line, Order
from demo.report import Report, check, ending_of, open_shop, storage_in
from demo.shop import Shop, ShopState

LEASE_SECONDS = 1.0
"""Short, because a run is taken up only when its dead owner's lease has lapsed."""

PATIENCE_SECONDS = 30.0


def kill_and_recover(folder: Path, rounds: int = 6, seed: int | None = None) -> Report:
    """Kill a process at a random point of each of `rounds` orders; take each run up here.

    Every other order is one that rolls back. At the end every fulfilled order is undone by hand,
    newest first, and the shop must be as it opened. The same `seed` kills at the same points.
    """
    seed = random.randrange(1_000_000) if seed is None else seed
    report = Report(f"Act three: kill -9 in mid-order, then recover (seed {seed})")
    chance = random.Random(seed)
    shop = open_shop(folder)
    placed: list[Order] = []
    run_ids: dict[int, str] = {}
    ended: dict[int, str] = {}
    for number in range(rounds):
        order = _choose(chance, shop.state(), placed, fulfillable=number % 2 == 0)
        points, right = _rehearse(folder / f"rehearsal-{number}.db", shop, order)
        point = chance.randrange(len(points))
        _kill_at(folder, order, point)
        placed.append(order)
        run_ids[order.id], ended[order.id] = _take_up(folder, shop)
        report.say(f"killed at: {points[point]}", f"then: {ended[order.id]}")
        state = shop.state()
        report.differences += audit.check_same(state, right)
        report.differences += check(state, placed, ended)
    fulfilled = [run_ids[order.id] for order in placed if ended[order.id] == "completed"]
    _undo_all(folder, shop, fulfilled, report)
    shop.close()
    return report


def _choose(
    chance: random.Random, state: ShopState, placed: list[Order], *, fulfillable: bool
) -> Order:
    def in_stock(line: Line) -> bool:
        return state.stock[line.product_id] >= line.quantity

    def fits(order: Order) -> bool:
        if fulfillable:
            return all(in_stock(line) for line in order.lines)
        # The first line is in stock and a later one is not: there is something to roll back.
        return in_stock(order.lines[0]) and not all(in_stock(line) for line in order.lines)

    done = {order.id for order in placed}
    return chance.choice([o for o in catalogue.orders() if o.id not in done and fits(o)])


def _rehearse(path: Path, shop: Shop, order: Order) -> tuple[list[str], ShopState]:
    """Place the order in a copy of the shop; return the points it passed and the end state."""
    points: list[str] = []
    shop.copy_to(path)
    copy = Shop(path, announce=points.append)
    orders.use(copy)
    with Runtime(storage="memory://"):
        orders.place(order)
    passed = list(points)
    state = copy.state()
    copy.close()
    return passed, state


def _kill_at(folder: Path, order: Order, point: int) -> None:
    """Let a process place the order up to the point it announces as number `point`; kill -9 it."""
    child = start_placing(folder, [order.id], "--announce", "--lease-ttl", str(LEASE_SECONDS))
    assert child.stdin is not None
    for _ in range(point):
        _await_announcement(child)
        child.stdin.write("go on\n")
        child.stdin.flush()
    _await_announcement(child)
    child.kill()
    child.communicate()


def _await_announcement(child: subprocess.Popen[str]) -> None:
    assert child.stdout is not None
    line = child.stdout.readline()
    if not line.startswith("at "):
        raise RuntimeError(f"the placing process said {line!r} where it should announce a point")


def _take_up(folder: Path, shop: Shop) -> tuple[str, str]:
    """Recover the one run that is unfinished; return its id and how it ended."""
    orders.use(shop)
    with Runtime(storage=storage_in(folder), settings=Settings(lease_ttl=LEASE_SECONDS)):
        (run,) = [
            run
            for status in (RunStatus.RUNNING, RunStatus.ROLLING_BACK)
            for run in runs(reactor=orders.FulfilOrder, status=status)
        ]
        _recover(run)
        return run.id, ending_of(orders.FulfilOrder.find(run.id))


def _recover(run: Run) -> None:
    """Take a run up as soon as its dead owner's lease has lapsed."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            run.recover()
            return
        except RunBusy:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def _undo_all(folder: Path, shop: Shop, fulfilled: list[str], report: Report) -> None:
    """Undo the fulfilled orders, newest first: the shop must be as it opened."""
    orders.use(shop)
    with Runtime(storage=storage_in(folder)):
        for run_id in reversed(fulfilled):
            orders.FulfilOrder.undo(run_id)
    state = shop.state()
    report.say(f"then {len(fulfilled)} orders undone by hand", _how_it_stands(state))
    report.differences += audit.check_as_opened(state)


def _how_it_stands(state: ShopState) -> str:
    units = sum(state.stock.values())
    return f"{units:,} of {sum(state.opening_stock.values()):,} units in stock"
