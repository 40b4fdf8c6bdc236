"""Steps as classes: typed inputs, defaults, compensate, the context, and calling one alone."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from calandria import Failure, Reactor, Runtime, Step, Success, step

shelves = {"tea": 10}
orders: list[str] = []


class ReserveStock(Step):
    """Takes units out of stock; undo puts them back."""

    product: str
    quantity: Annotated[int, Field(ge=1)]
    note: str = "no note"

    def run(self) -> int:
        # One fresh object per action: what `run` sets on `self`, `undo` does not see.
        shelves[self.product] -= self.quantity
        return self.quantity

    def undo(self, result: int) -> None:
        shelves[self.product] += result


class PlaceOrder(Step):
    """Announces an order, and may fail half-way: then `compensate` takes the announcement back."""

    product: str
    quantity: int

    def run(self) -> str:
        orders.append(self.product)
        if self.quantity > 5:
            raise RuntimeError("the supplier takes five at most")
        return f"{self.context.step} of {self.context.reactor}, attempt {self.context.attempt}"

    def compensate(self, reason: object) -> None:
        orders.remove(self.product)


class Order(Reactor):
    product: str
    quantity: int

    reserve = step(ReserveStock)
    place = step(PlaceOrder).after(reserve)


def main() -> None:
    result = Order.run(product="tea", quantity=2)
    print(result)
    assert result == Success("place of Order, attempt 1")
    assert shelves == {"tea": 8} and orders == ["tea"]

    result = Order.run(product="tea", quantity=6)
    print(result)
    assert isinstance(result, Failure)
    assert result.error == "the supplier takes five at most"
    assert result.exception_class == "RuntimeError"
    assert shelves == {"tea": 8} and orders == ["tea"]  # as before: nothing half-done

    # A step can be called on its own; its contract holds all the same.
    assert ReserveStock.call(product="tea", quantity=1) == Success(1)
    refused = ReserveStock.call(product="tea", quantity=0)
    assert isinstance(refused, Failure)
    print(refused.validation_errors)
    assert list(refused.validation_errors) == ["quantity"]
    assert ReserveStock.call_undo(1, product="tea", quantity=1).ok
    assert shelves == {"tea": 8}

    try:
        ReserveStock(product="tea", quantity=1)
    except TypeError as error:
        print(error)
        assert "ReserveStock.call" in str(error)
    else:
        raise AssertionError("a step must not run unprotected")


if __name__ == "__main__":
    with Runtime(storage="memory://"):
        main()
