"""The shop: a database of its own, which knows nothing of workflows.

Every effect carries the caller's key, so that asking for it again does nothing twice: what a step
needs from the outside world when it may be repeated after a crash.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from demo.catalogue import Product

SCHEMA = """
CREATE TABLE products (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    opening_stock INTEGER NOT NULL,
    stock INTEGER NOT NULL CHECK (stock >= 0)
);
CREATE TABLE accounts (customer_id TEXT PRIMARY KEY, owed_cents INTEGER NOT NULL DEFAULT 0);

-- Each row is an effect; `open` falls to 0 when it is taken back, and never rises again.
CREATE TABLE reservations (
    key TEXT PRIMARY KEY,
    order_id INTEGER NOT NULL,
    product_id INTEGER NOT NULL REFERENCES products (id),
    units INTEGER NOT NULL CHECK (units > 0),
    open INTEGER NOT NULL DEFAULT 1
);
CREATE INDEX reservations_by_order ON reservations (order_id);
CREATE TABLE payments (
    key TEXT PRIMARY KEY,
    order_id INTEGER NOT NULL,
    customer_id TEXT NOT NULL REFERENCES accounts (customer_id),
    cents INTEGER NOT NULL,
    open INTEGER NOT NULL DEFAULT 1
);
CREATE INDEX payments_by_order ON payments (order_id);
CREATE TABLE shipments (
    key TEXT PRIMARY KEY,
    order_id INTEGER NOT NULL,
    city TEXT NOT NULL,
    open INTEGER NOT NULL DEFAULT 1
);
CREATE INDEX shipments_by_order ON shipments (order_id);

-- The warehouse's own books: every unit that left or came back, written by whoever moved it.
CREATE TABLE stock_moves (
    id INTEGER PRIMARY KEY, product_id INTEGER NOT NULL, order_id INTEGER NOT NULL,
    units INTEGER NOT NULL
);
"""

Announce = Callable[[str], None]


@dataclass(frozen=True)
class ShopState:
    """What stands in the shop's tables, without the keys: two shops can be compared by it."""

    opening_stock: dict[int, int]
    stock: dict[int, int]
    owed_cents: dict[str, int]
    moved: dict[int, int]
    """Units by product, summed over the books: negative when more left than came back."""
    reserved: dict[int, list[tuple[int, int]]]
    """The open reservations of each order: product and units."""
    paid: dict[int, list[tuple[str, int]]]
    """The open payments of each order: customer and cents."""
    shipped: dict[int, list[str]]
    """The open shipments of each order: city."""


class Shop:
    """The shop's database, over one connection.

    `announce` is told of every point at which a process may be killed with an effect half done:
    inside the transaction, and right after its commit.
    """

    def __init__(self, path: Path, announce: Announce | None = None) -> None:
        self.path = path
        self._announce = announce
        self._connection = sqlite3.connect(
            path, isolation_level=None, timeout=60, check_same_thread=False
        )
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        self._connection.execute("PRAGMA foreign_keys = ON")

    @classmethod
    def open_new(cls, path: Path, products: Sequence[Product], customers: Sequence[str]) -> Shop:
        """Create a shop with full shelves and customers who owe nothing."""
        shop = cls(path)
        shop._connection.executescript(SCHEMA)
        with shop._transaction("opening"):
            shop._connection.executemany(
                "INSERT INTO products (id, name, opening_stock, stock) VALUES (?, ?, ?, ?)",
                [(p.id, p.name, p.units_in_stock, p.units_in_stock) for p in products],
            )
            shop._connection.executemany(
                "INSERT INTO accounts (customer_id) VALUES (?)", [(id,) for id in customers]
            )
        return shop

    def close(self) -> None:
        """Let go of the database."""
        self._connection.close()

    def copy_to(self, path: Path) -> None:
        """Write a copy of the whole shop to a new file."""
        with closing(sqlite3.connect(path)) as copy:
            self._connection.backup(copy)

    # --- stock ----------------------------------------------------------------------------------

    def take(self, key: str, order_id: int, product_id: int, units: int) -> bool:
        """Reserve units for an order; return whether there were enough."""
        with self._transaction(f"order {order_id} takes {units} of product {product_id}"):
            if self._has("reservations", key):
                return True
            taken = self._connection.execute(
                "UPDATE products SET stock = stock - :units WHERE id = :id AND stock >= :units",
                {"id": product_id, "units": units},
            )
            if taken.rowcount == 0:
                return False
            self._connection.execute(
                "INSERT INTO reservations (key, order_id, product_id, units) VALUES (?, ?, ?, ?)",
                (key, order_id, product_id, units),
            )
            self._book(product_id, order_id, -units)
            return True

    def put_back(self, key: str) -> None:
        """Return the units reserved under `key`, if they still are."""
        with self._transaction(f"putting back {self._subject('reservations', key)}"):
            for order_id, product_id, units in self._take_back(
                "reservations", key, "order_id, product_id, units"
            ):
                self._connection.execute(
                    "UPDATE products SET stock = stock + ? WHERE id = ?", (units, product_id)
                )
                self._book(product_id, order_id, units)

    # --- money ----------------------------------------------------------------------------------

    def charge(self, key: str, order_id: int, customer_id: str, cents: int) -> None:
        """Put an amount on a customer's account; credit is unlimited."""
        with self._transaction(f"order {order_id} charges {customer_id}"):
            if self._has("payments", key):
                return
            self._connection.execute(
                "INSERT INTO payments (key, order_id, customer_id, cents) VALUES (?, ?, ?, ?)",
                (key, order_id, customer_id, cents),
            )
            self._owe(customer_id, cents)

    def was_charged(self, key: str) -> bool:
        """Tell whether a payment was made under `key`."""
        return self._has("payments", key)

    def refund(self, key: str) -> None:
        """Take the payment made under `key` off the account, if it still stands."""
        with self._transaction(f"refunding {self._subject('payments', key)}"):
            for customer_id, cents in self._take_back("payments", key, "customer_id, cents"):
                self._owe(customer_id, -cents)

    # --- parcels --------------------------------------------------------------------------------

    def ship(self, key: str, order_id: int, city: str) -> None:
        """Hand an order to the carrier."""
        with self._transaction(f"order {order_id} ships to {city}"):
            if not self._has("shipments", key):
                self._connection.execute(
                    "INSERT INTO shipments (key, order_id, city) VALUES (?, ?, ?)",
                    (key, order_id, city),
                )

    def recall(self, key: str) -> None:
        """Call back the shipment made under `key`, if it still stands."""
        with self._transaction(f"recalling {self._subject('shipments', key)}"):
            self._take_back("shipments", key, "order_id")

    # --- audit ----------------------------------------------------------------------------------

    def state(self) -> ShopState:
        """Read everything there is to compare, as of one moment."""
        with self._transaction("audit"):
            return ShopState(
                opening_stock=dict(self._rows("SELECT id, opening_stock FROM products")),
                stock=dict(self._rows("SELECT id, stock FROM products")),
                owed_cents=dict(self._rows("SELECT customer_id, owed_cents FROM accounts")),
                moved=dict(
                    self._rows("SELECT product_id, SUM(units) FROM stock_moves GROUP BY product_id")
                ),
                reserved=self._by_order("reservations", "product_id, units"),
                paid=self._by_order("payments", "customer_id, cents"),
                shipped={
                    order: [city for (city,) in rows]
                    for order, rows in self._by_order("shipments", "city").items()
                },
            )

    def _by_order(self, table: str, columns: str) -> dict[int, list[tuple[Any, ...]]]:
        found: dict[int, list[tuple[Any, ...]]] = {}
        for order_id, *rest in self._rows(
            f"SELECT order_id, {columns} FROM {table} WHERE open ORDER BY order_id, {columns}"
        ):
            found.setdefault(order_id, []).append(tuple(rest))
        return found

    # --- how ------------------------------------------------------------------------------------

    @contextmanager
    def _transaction(self, what: str) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._reached(f"{what}: not committed")
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")
        self._reached(f"{what}: committed")

    def _reached(self, point: str) -> None:
        if self._announce is not None:
            self._announce(point)

    def _has(self, table: str, key: str) -> bool:
        return bool(self._rows(f"SELECT 1 FROM {table} WHERE key = ?", key))

    def _subject(self, table: str, key: str) -> str:
        row = self._rows(f"SELECT order_id FROM {table} WHERE key = ?", key)
        return f"the {table} of order {row[0][0]}" if row else f"no {table}"

    def _take_back(self, table: str, key: str, columns: str) -> list[tuple[Any, ...]]:
        return self._rows(
            f"UPDATE {table} SET open = 0 WHERE key = ? AND open RETURNING {columns}", key
        )

    def _book(self, product_id: int, order_id: int, units: int) -> None:
        self._connection.execute(
            "INSERT INTO stock_moves (product_id, order_id, units) VALUES (?, ?, ?)",
            (product_id, order_id, units),
        )

    def _owe(self, customer_id: str, cents: int) -> None:
        self._connection.execute(
            "UPDATE accounts SET owed_cents = owed_cents + ? WHERE customer_id = ?",
            (cents, customer_id),
        )

    def _rows(self, statement: str, *parameters: object) -> list[tuple[Any, ...]]:
        return self._connection.execute(statement, parameters).fetchall()
