"""The demo's audit finds every kind of damage: each test damages a sound shop in one way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from demo import audit
from demo.catalogue import Line, Order, Product
from demo.expected import cents_due, expectation
from demo.shop import Shop, ShopState

TEA, SALT = 1, 2
ORDER = Order(
    7,
    "ANNA",
    Decimal("3.10"),
    "Bern",
    (Line(TEA, 4, Decimal("2.50"), Decimal(0)), Line(SALT, 1, Decimal(1), Decimal(0))),
)
ORDERS = {ORDER.id: ORDER}


@pytest.fixture
def sound(tmp_path: Path) -> Iterator[ShopState]:
    """A shop in which the order was fulfilled and another one was rolled back."""
    products = [Product(TEA, "Tea", 10), Product(SALT, "Salt", 1)]
    shop = Shop.open_new(tmp_path / "shop.db", products, ["ANNA"])
    for line in ORDER.lines:
        shop.take(f"7-{line.product_id}", 7, line.product_id, line.quantity)
    shop.charge("7", 7, "ANNA", cents_due(ORDER))
    shop.ship("7", 7, "Bern")
    shop.take("8", 8, TEA, 2)
    shop.put_back("8")
    yield shop.state()
    shop.close()


def test_a_sound_shop_passes(sound: ShopState) -> None:
    journal = {7: "completed", 8: "failed, rollback complete"}

    assert list(audit.check_shop(sound, ORDERS)) == []
    assert list(audit.check_journal(sound, journal)) == []
    assert list(audit.check_same(sound, replace(sound))) == []


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        ({"stock": {TEA: 5, SALT: 0}}, "product 1: 10 - 4 sold is not 5"),
        ({"stock": {TEA: 6, SALT: -1}}, "product 2: -1 units left"),
        ({"moved": {TEA: -5, SALT: -1}}, "product 1: the books say -5 moved"),
        ({"reserved": {7: [(TEA, 4)]}}, "order 7: reserved [(1, 4)]"),
        ({"reserved": {7: [(TEA, 4), (TEA, 4), (SALT, 1)]}}, "order 7: reserved"),
        ({"paid": {}}, "order 7: paid []"),
        ({"paid": {7: [("ANNA", 1_410), ("ANNA", 1_410)]}}, "order 7: paid"),
        ({"shipped": {}}, "order 7: shipped []"),
        ({"owed_cents": {"ANNA": 0}}, "cents owed by ANNA: 0, not 1410"),
    ],
)
def test_damage_is_told(sound: ShopState, damage: dict[str, object], told: str) -> None:
    damaged = replace(sound, **damage)  # type: ignore[arg-type]

    found = list(audit.check_shop(damaged, ORDERS))

    assert any(line.startswith(told) for line in found), found


@pytest.mark.parametrize(
    "journal",
    [
        {7: "failed, rollback complete"},
        {7: "running"},
        {7: "completed", 8: "completed"},
        {7: "completed", 8: "failed, rollback incomplete"},
        {},
    ],
)
def test_a_journal_that_disagrees_is_told(sound: ShopState, journal: dict[int, str]) -> None:
    assert len(list(audit.check_journal(sound, journal))) == 1


def test_a_shop_that_is_not_as_expected_is_told(sound: ShopState) -> None:
    nothing_placed = expectation([])
    nothing_placed.stock = {TEA: 10, SALT: 1}
    nothing_placed.owed_cents = {"ANNA": 0}

    assert list(audit.check_expectation(sound, nothing_placed)) == [
        "units of product 1: 6, not 10",
        "units of product 2: 0, not 1",
        "cents owed by ANNA: 1410, not 0",
        "shipments of order 7: 1, not None",
    ]


def test_what_is_left_after_undoing_everything_is_told(sound: ShopState) -> None:
    assert "order 7: something of it is left" in list(audit.check_as_opened(sound))


def test_a_shop_that_differs_from_the_undisturbed_one_is_told(sound: ShopState) -> None:
    undisturbed = replace(sound, shipped={}, stock={TEA: 10, SALT: 0})

    assert len(list(audit.check_same(sound, undisturbed))) == 2
