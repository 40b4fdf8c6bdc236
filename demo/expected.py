"""What must come of the orders, worked out with nothing but arithmetic.

Nothing here knows of Calandria or of the shop's database: money is counted in whole cents from the
digits in the files, stock in a dictionary.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction

from demo import catalogue


@dataclass
class Expectation:
    """The end state after the orders were placed one at a time."""

    stock: dict[int, int]
    owed_cents: dict[str, int]
    fulfilled: list[int] = field(default_factory=list)
    rolled_back: list[int] = field(default_factory=list)


def expectation(placed: Iterable[catalogue.Order]) -> Expectation:
    """Go through the orders: all of an order's lines are in stock, or none is taken."""
    expected = Expectation(
        stock={product.id: product.units_in_stock for product in catalogue.products()},
        owed_cents=dict.fromkeys(catalogue.customer_ids(), 0),
    )
    for order in placed:
        wanted = _units_by_product(order)
        if all(expected.stock[product] >= units for product, units in wanted.items()):
            for product, units in wanted.items():
                expected.stock[product] -= units
            expected.owed_cents[order.customer_id] += cents_due(order)
            expected.fulfilled.append(order.id)
        else:
            expected.rolled_back.append(order.id)
    return expected


def cents_due(order: catalogue.Order) -> int:
    """Return what an order costs: each line rounded to a cent (half to even), plus freight."""
    due = round(Fraction(order.freight) * 100)
    for line in order.lines:
        price = Fraction(line.unit_price) * line.quantity * (1 - Fraction(line.discount))
        due += round(price * 100)
    return due


def _units_by_product(order: catalogue.Order) -> dict[int, int]:
    wanted: dict[int, int] = {}
    for line in order.lines:
        wanted[line.product_id] = wanted.get(line.product_id, 0) + line.quantity
    return wanted
