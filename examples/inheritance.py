"""Inheritance: extend a step's inputs, replace a step of a reactor by name, refer to the base's."""

from __future__ import annotations

from calandria import DefinitionError, Reactor, Retry, Runtime, Step, Success, step


class Charge(Step):
    amount: int

    retry = Retry(max_attempts=3, base_delay=0)

    def run(self) -> str:
        return f"charged {self.amount}"


class ChargeAbroad(Charge):
    """Inherits `amount` and the retries, and adds an input."""

    currency: str = "EUR"

    def run(self) -> str:
        return f"charged {self.amount} {self.currency}"


class Checkout(Reactor):
    amount: int

    charge = step(Charge)

    @step
    def receipt(*, charge: str) -> str:
        return f"receipt: {charge}"


class CheckoutAbroad(Checkout):
    """Replaces one step, keeps the place it had, and adds another after an inherited one."""

    currency: str = "USD"

    charge = step(ChargeAbroad)

    @step
    def customs(*, amount: int) -> str:
        return f"declared {amount}"

    customs.after(Checkout.receipt)
    returns = Checkout.receipt


def main() -> None:
    assert Checkout.run(amount=5) == Success("receipt: charged 5")

    result = CheckoutAbroad.run(amount=5)
    print(result)
    assert result == Success("receipt: charged 5 USD")

    # A wrong definition is found when the class is made, and says what to do.
    try:

        class Wrong(Checkout):
            charge = step(ChargeAbroad, amont=5)

    except DefinitionError as error:
        print(error)
        assert "Wrong" in str(error) and "amont" in str(error)
    else:
        raise AssertionError("a misspelt input must be found")


if __name__ == "__main__":
    with Runtime(storage="memory://"):
        main()
