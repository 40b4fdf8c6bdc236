"""The Northwind data: 77 products, 91 customers, 830 orders with 2,155 lines."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

DATA = Path(__file__).parent / "northwind"


@dataclass(frozen=True)
class Product:
    """A product and the units in stock when the shop opens."""

    id: int
    name: str
    units_in_stock: int


@dataclass(frozen=True)
class Line:
    """One line of an order: `discount` is a fraction of the price, 0 to 1."""

    product_id: int
    quantity: int
    unit_price: Decimal
    discount: Decimal


@dataclass(frozen=True)
class Order:
    """An order as the customer placed it."""

    id: int
    customer_id: str
    freight: Decimal
    ship_city: str
    lines: tuple[Line, ...]


def products() -> Sequence[Product]:
    """Return all products, by id."""
    return [
        Product(int(row["product_id"]), row["name"], int(row["units_in_stock"]))
        for row in _rows("products.csv")
    ]


def customer_ids() -> Sequence[str]:
    """Return the id of every customer."""
    return [row["customer_id"] for row in _rows("customers.csv")]


def orders() -> Sequence[Order]:
    """Return all orders, by id, each with its lines in the order they were given."""
    lines = defaultdict[int, list[Line]](list)
    for row in _rows("order_lines.csv"):
        lines[int(row["order_id"])].append(_line(row))
    found = [
        Order(
            id=int(row["order_id"]),
            customer_id=row["customer_id"],
            freight=Decimal(row["freight"]),
            ship_city=row["ship_city"],
            lines=tuple(lines[int(row["order_id"])]),
        )
        for row in _rows("orders.csv")
    ]
    return sorted(found, key=lambda order: order.id)


def _line(row: dict[str, str]) -> Line:
    return Line(
        product_id=int(row["product_id"]),
        quantity=int(row["quantity"]),
        unit_price=Decimal(row["unit_price"]),
        discount=Decimal(row["discount"]),
    )


def _rows(name: str) -> Iterator[dict[str, str]]:
    with (DATA / name).open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)
