"""The demo's shop: every effect happens once per key, and can be taken back once."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from demo.catalogue import Product
from demo.shop import Shop

TEA, SALT = 1, 2


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    products = [Product(TEA, "Tea", 10), Product(SALT, "Salt", 0)]
    shop = Shop.open_new(tmp_path / "shop.db", products, ["ANNA"])
    yield shop
    shop.close()


def test_taking_twice_under_one_key_takes_once(shop: Shop) -> None:
    assert shop.take("k", 7, TEA, 4)
    assert shop.take("k", 7, TEA, 4)

    assert shop.state().stock[TEA] == 6
    assert shop.state().reserved == {7: [(TEA, 4)]}
    assert shop.state().moved == {TEA: -4}


def test_taking_more_than_there_is_takes_nothing(shop: Shop) -> None:
    assert not shop.take("k", 7, TEA, 11)
    assert not shop.take("l", 7, SALT, 1)

    assert shop.state().stock == {TEA: 10, SALT: 0}
    assert shop.state().reserved == {}


def test_putting_back_twice_puts_back_once(shop: Shop) -> None:
    shop.take("k", 7, TEA, 4)

    shop.put_back("k")
    shop.put_back("k")

    assert shop.state().stock[TEA] == 10
    assert shop.state().moved == {TEA: 0}


def test_a_late_repetition_does_not_take_again_what_was_put_back(shop: Shop) -> None:
    shop.take("k", 7, TEA, 4)
    shop.put_back("k")

    assert shop.take("k", 7, TEA, 4)

    assert shop.state().stock[TEA] == 10


def test_charging_and_refunding_twice_happen_once(shop: Shop) -> None:
    shop.charge("k", 7, "ANNA", 1_250)
    shop.charge("k", 7, "ANNA", 1_250)
    assert shop.was_charged("k")
    assert shop.state().owed_cents == {"ANNA": 1_250}

    shop.refund("k")
    shop.refund("k")

    assert shop.state().owed_cents == {"ANNA": 0}
    assert shop.state().paid == {}


def test_an_unknown_customer_cannot_be_charged(shop: Shop) -> None:
    with pytest.raises(sqlite3.IntegrityError):
        shop.charge("k", 7, "NOBODY", 1)

    assert not shop.was_charged("k")


def test_shipping_and_recalling_twice_happen_once(shop: Shop) -> None:
    shop.ship("k", 7, "Bern")
    shop.ship("k", 7, "Bern")
    assert shop.state().shipped == {7: ["Bern"]}

    shop.recall("k")
    shop.recall("k")

    assert shop.state().shipped == {}


def test_taking_back_what_never_was_does_nothing(shop: Shop) -> None:
    before = shop.state()

    shop.put_back("k")
    shop.refund("k")
    shop.recall("k")

    assert shop.state() == before


def test_every_effect_is_announced_before_and_after_its_commit(tmp_path: Path) -> None:
    Shop.open_new(tmp_path / "shop.db", [Product(TEA, "Tea", 10)], ["ANNA"]).close()
    watcher = sqlite3.connect(tmp_path / "shop.db")
    seen: list[tuple[str, int]] = []

    def announce(point: str) -> None:
        (stock,) = watcher.execute("SELECT stock FROM products").fetchone()
        seen.append((point.rpartition(": ")[2], stock))

    shop = Shop(tmp_path / "shop.db", announce=announce)
    shop.take("k", 7, TEA, 4)
    shop.close()
    watcher.close()

    assert seen == [("not committed", 10), ("committed", 6)]
