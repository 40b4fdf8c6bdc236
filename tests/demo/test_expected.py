"""The arithmetic the demo is compared with."""

from __future__ import annotations

from decimal import Decimal

from demo import catalogue
from demo.catalogue import Line, Order
from demo.expected import cents_due, expectation


def test_placed_in_turn_95_orders_find_stock_and_735_do_not() -> None:
    expected = expectation(catalogue.orders())

    assert len(expected.fulfilled) == 95
    assert len(expected.rolled_back) == 735
    assert sum(product.units_in_stock for product in catalogue.products()) == 3_119
    assert sum(expected.stock.values()) == 1_060
    assert min(expected.stock.values()) == 0


def test_an_order_that_lacks_one_line_takes_none_of_the_others() -> None:
    plenty, scarce = 1, 5  # 39 units of the one, none of the other
    order = _order(_line(plenty, 10), _line(scarce, 1))

    expected = expectation([order])

    assert expected.rolled_back == [order.id]
    assert expected.stock[plenty] == 39
    assert set(expected.owed_cents.values()) == {0}


def test_a_bill_rounds_each_line_to_a_cent_half_to_even_and_adds_freight() -> None:
    to_even_up = _line(1, 1, price="0.50", discount="0.05")  # 47.5 cents -> 48
    to_even_down = _line(2, 1, price="0.30", discount="0.05")  # 28.5 cents -> 28

    assert cents_due(_order(to_even_up, to_even_down, freight="1.01")) == 48 + 28 + 101


def test_the_data_is_whole() -> None:
    orders = catalogue.orders()

    assert len(orders) == 830
    assert sum(len(order.lines) for order in orders) == 2_155
    assert [order.id for order in orders] == sorted(order.id for order in orders)
    assert len(catalogue.products()) == 77
    assert {order.customer_id for order in orders} <= set(catalogue.customer_ids())


def _order(*lines: Line, freight: str = "0") -> Order:
    return Order(1, "ALFKI", Decimal(freight), "Berlin", lines)


def _line(product_id: int, quantity: int, price: str = "1", discount: str = "0") -> Line:
    return Line(product_id, quantity, Decimal(price), Decimal(discount))
