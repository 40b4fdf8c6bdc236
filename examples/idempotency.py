"""Idempotency: the first run under a key wins; asking again gets its result, failures included."""

from __future__ import annotations

from calandria import Failure, IdempotencyConflict, Reactor, Runtime, Success, fail, step

charges: list[str] = []


class Charge(Reactor):
    order: str
    cents: int

    @step
    def charge(*, order: str, cents: int) -> str:
        charges.append(order)
        if cents > 10_000:
            fail("above the limit")
        return f"charge {len(charges)}"


def main() -> None:
    once = Charge.options(idempotency_key="order-42")
    first = once.run(order="42", cents=500)
    again = once.run(order="42", cents=500)
    print(first, again, sep="\n")
    assert first == again == Success("charge 1")
    assert again.run_id == first.run_id
    assert charges == ["42"]

    # A failure is remembered like a success.
    large = Charge.options(idempotency_key="order-43")
    for _ in range(2):
        result = large.run(order="43", cents=20_000)
        assert isinstance(result, Failure) and result.error == "above the limit"
    assert charges == ["42", "43"]

    # The same key for something else is a mistake, and says so.
    try:
        once.run(order="42", cents=600)
    except IdempotencyConflict as error:
        print(error)
        assert first.run_id is not None and first.run_id in str(error)
    else:
        raise AssertionError("one key cannot stand for two orders")

    # Without a key, every call is a run of its own.
    assert Charge.run(order="42", cents=500) == Success("charge 3")


if __name__ == "__main__":
    with Runtime(storage="memory://"):
        main()
