"""What an act found, and what all acts do alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from calandria import Result, Run, RunStatus
from demo import audit, catalogue, orders
from demo.catalogue import Order
from demo.shop import Shop, ShopState


@dataclass
class Report:
    """What an act did, in words and figures, and every difference it found."""

    title: str
    rows: list[tuple[str, str]] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)
    pictured: str = ""
    """One run as text."""

    def say(self, what: str, how: object) -> None:
        """Add a line to the summary."""
        self.rows.append((what, str(how)))


def storage_in(folder: Path) -> str:
    """Return the address of the journal kept in `folder`."""
    return f"sqlite:///{folder / 'calandria.db'}"


def open_shop(folder: Path) -> Shop:
    """Open a new shop in `folder`, shelves full."""
    return Shop.open_new(folder / "shop.db", catalogue.products(), catalogue.customer_ids())


def run_id_of(result: Result[object]) -> str:
    """Return the id of the run a result came from."""
    if result.run_id is None:
        raise RuntimeError(f"the order was refused before it became a run: {result}")
    return result.run_id


def ending_of(run: Run) -> str:
    """Say how a run ended, as the audit wants it: its status, and a failed one's rollback."""
    status = run.status.value
    if status == RunStatus.FAILED.value:
        return f"{status}, rollback {run.rollback.value}"
    return status


def endings(run_ids: Mapping[int, str]) -> dict[int, str]:
    """Say how each order's run ended."""
    return {id: ending_of(orders.FulfilOrder.find(run_id)) for id, run_id in run_ids.items()}


def summarize(report: Report, state: ShopState, ended: Mapping[int, str]) -> None:
    """Add the figures every act ends with."""
    fulfilled = sum(status == "completed" for status in ended.values())
    report.say("orders fulfilled", fulfilled)
    report.say("orders rolled back", len(ended) - fulfilled)
    report.say("units in stock, before", f"{sum(state.opening_stock.values()):,}")
    report.say("units in stock, after", f"{sum(state.stock.values()):,}")
    report.say("owed by customers", f"{sum(state.owed_cents.values()) / 100:,.2f}")


def check(state: ShopState, placed: Iterable[Order], ended: Mapping[int, str]) -> list[str]:
    """Return every broken invariant of the shop, and every disagreement with the journal."""
    by_id = {order.id: order for order in placed}
    missing = [f"order {id}: no run" for id in by_id.keys() - ended.keys()]
    return [*missing, *audit.check_shop(state, by_id), *audit.check_journal(state, ended)]
