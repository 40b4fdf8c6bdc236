"""The invariants: what must hold of the shop, and between the shop and the journal, at any time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TypeVar

from demo.catalogue import Order
from demo.expected import Expectation, cents_due
from demo.shop import ShopState

K = TypeVar("K", int, str)


def check_expectation(state: ShopState, expected: Expectation) -> Iterator[str]:
    """Yield every difference between the shop and what arithmetic says it must be."""
    yield from _differences("units of product", state.stock, expected.stock)
    yield from _differences("cents owed by", state.owed_cents, expected.owed_cents)
    shipped = dict.fromkeys(state.shipped, 1)
    yield from _differences("shipments of order", shipped, dict.fromkeys(expected.fulfilled, 1))


def check_shop(state: ShopState, orders: Mapping[int, Order]) -> Iterator[str]:
    """Yield every way in which the shop's own tables do not add up: units lost, sold twice, unpaid.

    Each order must be there whole (every line, one payment, one shipment) or not at all.
    """
    yield from _check_stock(state)
    owed = Counter(dict.fromkeys(state.owed_cents, 0))
    for order_id in state.reserved.keys() | state.paid.keys() | state.shipped.keys():
        order = orders[order_id]
        lines = sorted((line.product_id, line.quantity) for line in order.lines)
        if sorted(state.reserved.get(order_id, [])) != lines:
            yield f"order {order_id}: reserved {state.reserved.get(order_id, [])}, not {lines}"
        if state.paid.get(order_id) != [(order.customer_id, cents_due(order))]:
            yield f"order {order_id}: paid {state.paid.get(order_id, [])}"
        if state.shipped.get(order_id) != [order.ship_city]:
            yield f"order {order_id}: shipped {state.shipped.get(order_id, [])}"
        owed[order.customer_id] += cents_due(order)
    yield from _differences("cents owed by", state.owed_cents, owed)


def check_journal(state: ShopState, ended: Mapping[int, str]) -> Iterator[str]:
    """Yield every order on which shop and journal disagree.

    `ended` holds each placed order's status in the journal, with its rollback where it failed.
    """
    for order_id, status in ended.items():
        right = "completed" if order_id in state.shipped else "failed, rollback complete"
        if status != right:
            yield f"order {order_id}: {status} in the journal, but in the shop: {right}"
    for order_id in state.shipped.keys() - ended.keys():
        yield f"order {order_id}: shipped, but the journal does not know it"


def check_same(state: ShopState, right: ShopState) -> Iterator[str]:
    """Yield every difference between a shop and another in which the same was done undisturbed."""
    yield from _differences("units of product", state.stock, right.stock)
    yield from _differences("cents owed by", state.owed_cents, right.owed_cents)
    if (state.reserved, state.paid, state.shipped) != (right.reserved, right.paid, right.shipped):
        yield "reservations, payments or shipments differ from those of the undisturbed shop"


def check_as_opened(state: ShopState) -> Iterator[str]:
    """Yield everything that is left of any order."""
    yield from _differences("units of product", state.stock, state.opening_stock)
    yield from _differences("cents owed by", state.owed_cents, dict.fromkeys(state.owed_cents, 0))
    for order_id in state.reserved.keys() | state.paid.keys() | state.shipped.keys():
        yield f"order {order_id}: something of it is left"


def _check_stock(state: ShopState) -> Iterator[str]:
    sold = Counter[int]()
    for lines in state.reserved.values():
        for product_id, units in lines:
            sold[product_id] += units
    for product_id, opening in state.opening_stock.items():
        left = state.stock[product_id]
        if left < 0:
            yield f"product {product_id}: {left} units left"
        if left + sold[product_id] != opening:
            yield f"product {product_id}: {opening} - {sold[product_id]} sold is not {left}"
        if left != opening + state.moved.get(product_id, 0):
            yield f"product {product_id}: the books say {state.moved.get(product_id, 0)} moved"


def _differences(what: str, found: Mapping[K, int], right: Mapping[K, int]) -> Iterator[str]:
    for key in sorted(found.keys() | right.keys(), key=str):
        if found.get(key) != right.get(key):
            yield f"{what} {key}: {found.get(key)}, not {right.get(key)}"
