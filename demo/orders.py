"""The reactor: an order is validated, reserved line by line, charged and shipped, or none of it.

The steps act on the shop that `use` named; each passes its idempotency key on, and each keeps that
key in its result, so that its undo takes back exactly what it did.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Annotated

from pydantic import Field

from calandria import Reactor, Result, Step, Success, element, fail, inputs, map_each, step
from demo.catalogue import Line, Order
from demo.shop import Shop

_shop: Shop | None = None


def use(shop: Shop) -> None:
    """Let the steps of this process act on `shop`."""
    global _shop
    _shop = shop


def _the_shop() -> Shop:
    if _shop is None:
        raise RuntimeError("no shop is open in this process: call demo.orders.use(shop) first")
    return _shop


@dataclass(frozen=True)
class Bill:
    """What an order costs."""

    cents: int


@dataclass(frozen=True)
class Effect:
    """Something done in the shop, and the key under which it can be taken back."""

    key: str


class ValidateOrder(Step):
    """Works out what an order costs; changes nothing, so there is nothing to undo."""

    lines: Annotated[list[Line], Field(min_length=1)]
    freight: Annotated[Decimal, Field(ge=0)]

    def run(self) -> Bill:
        amounts = [line.unit_price * line.quantity * (1 - line.discount) for line in self.lines]
        total = sum((_to_cents(amount) for amount in amounts), _to_cents(self.freight))
        return Bill(total)


class ReserveStock(Step):
    """Takes a line's units out of stock; undo puts them back."""

    order_id: int
    product_id: int
    quantity: Annotated[int, Field(ge=1)]

    def run(self) -> Effect:
        key = self.context.idempotency_key
        if not _the_shop().take(key, self.order_id, self.product_id, self.quantity):
            fail(f"fewer than {self.quantity} of product {self.product_id} in stock")
        return Effect(key)

    def undo(self, result: Effect) -> None:
        _the_shop().put_back(result.key)


class ChargeCustomer(Step):
    """Puts the bill on the customer's account; undo refunds it."""

    order_id: int
    customer_id: str
    cents: Annotated[int, Field(ge=0)]

    def run(self) -> Effect:
        key = self.context.idempotency_key
        _the_shop().charge(key, self.order_id, self.customer_id, self.cents)
        return Effect(key)

    def reconcile(self) -> Success[Effect] | None:
        key = self.context.idempotency_key
        return Success(Effect(key)) if _the_shop().was_charged(key) else None

    def undo(self, result: Effect) -> None:
        _the_shop().refund(result.key)


class ShipOrder(Step):
    """Hands the order to the carrier; undo calls it back."""

    order_id: int
    ship_city: str

    def run(self) -> Effect:
        key = self.context.idempotency_key
        _the_shop().ship(key, self.order_id, self.ship_city)
        return Effect(key)

    def undo(self, result: Effect) -> None:
        _the_shop().recall(result.key)


class FulfilOrder(Reactor):
    """One order, all or nothing."""

    order_id: int
    customer_id: str
    freight: Decimal
    ship_city: str
    lines: list[Line]

    bill = step(ValidateOrder)
    reserve = map_each(
        ReserveStock,
        over=inputs.lines,
        product_id=element["product_id"],
        quantity=element["quantity"],
    ).after(bill)
    charge = step(ChargeCustomer, cents=bill["cents"]).after(reserve)
    ship = step(ShipOrder).after(charge)

    returns = ship


def place(order: Order) -> Result[object]:
    """Place an order; placing it again returns the first result."""
    return FulfilOrder.options(idempotency_key=f"order-{order.id}").run(
        order_id=order.id,
        customer_id=order.customer_id,
        freight=order.freight,
        ship_city=order.ship_city,
        lines=list(order.lines),
    )


def _to_cents(amount: Decimal) -> int:
    return int((amount * 100).quantize(Decimal(1), rounding=ROUND_HALF_EVEN))
