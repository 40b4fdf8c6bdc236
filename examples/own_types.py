"""Values in the journal: plain ones, dataclasses and models as they are; your own with a hook."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import Decimal

from calandria import Failure, Reactor, Runtime, Success, register, step


@dataclass(frozen=True)
class Price:
    """A dataclass needs nothing: the reactor's annotations make it known."""

    amount: Decimal
    valid_from: date


class Money:
    """Not a dataclass: the journal cannot know how to record it."""

    def __init__(self, cents: int) -> None:
        self.cents = cents

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Money) and other.cents == self.cents

    def __hash__(self) -> int:
        return hash(self.cents)


class Quote(Reactor):
    day: date

    @step
    def price(*, day: date) -> Price:
        return Price(Decimal("9.90"), day)

    @step
    def money(*, price: Price) -> Money:
        return Money(int(price.amount * 100))


def main() -> None:
    # A value that cannot be recorded fails its step, by name; nothing is changed silently.
    result = Quote.run(day=date(2026, 5, 1))
    print(result)
    assert isinstance(result, Failure) and result.step == "money"
    assert "Money" in result.error

    register(Money, encode=lambda money: money.cents, decode=Money)

    result = Quote.run(day=date(2026, 5, 1))
    assert result == Success(Money(990))
    assert result.run_id is not None
    results = Quote.find(result.run_id).results  # read back from the journal
    print(results)
    assert results["price"] == Price(Decimal("9.90"), date(2026, 5, 1))
    assert results["money"] == Money(990)


if __name__ == "__main__":
    with Runtime(storage="memory://"):
        main()
