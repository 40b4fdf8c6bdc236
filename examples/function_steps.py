"""Functions as steps: decorated in the class body, or any function wired with `step`."""

from __future__ import annotations

from calandria import Failure, Reactor, Retry, Runtime, Success, step

sent: list[str] = []


def total(*, prices: list[int], discount: int = 0) -> int:
    """An ordinary function, used as a step below and testable without one."""
    return sum(prices) - discount


class Invoice(Reactor):
    customer: str
    prices: list[int]

    amount = step(total, discount=5)

    # Parameters are wired by name: from an input, or from a step of this reactor.
    @step
    def text(*, customer: str, amount: int) -> str:
        return f"{customer} owes {amount}"

    @step(retry=Retry(max_attempts=2, base_delay=0))
    def send(*, text: str) -> int:
        sent.append(text)
        return len(sent) - 1

    @send.undo
    def _(*, result: int) -> None:
        del sent[result]

    @step
    def book(*, send: int, amount: int) -> str:
        if amount > 100:
            raise ValueError(f"{amount} is too much for this ledger")
        return f"entry {send}"


def main() -> None:
    result = Invoice.run(customer="Ada", prices=[10, 20])
    print(result)
    assert result == Success("entry 0")
    assert sent == ["Ada owes 25"]

    result = Invoice.run(customer="Bob", prices=[100, 200])
    print(result)
    assert isinstance(result, Failure) and result.step == "book"
    assert sent == ["Ada owes 25"]  # what was sent to Bob was undone


if __name__ == "__main__":
    with Runtime(storage="memory://"):
        main()
