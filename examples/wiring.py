"""Wiring: paths into values, `.map`, literals, `.after` for order alone, `.when` for conditions."""

from __future__ import annotations

from typing import Any

from calandria import Failure, Reactor, Runtime, Success, inputs, step

diary: list[str] = []


def look_up(*, order: dict[str, Any]) -> dict[str, Any]:
    """Answer with something nested, to have paths to follow."""
    return {"lines": order["lines"], "customer": {"name": "Ada", "vip": order["total"] > 100}}


def review(*, name: str) -> str:
    diary.append(f"reviewed {name}")
    return "fine"


def charge(*, name: str, cents: int, currency: str) -> str:
    diary.append(f"charged {name}")
    return f"{name}: {cents} {currency}"


def greet(*, name: str) -> str:
    diary.append(f"greeted {name}")
    return f"Dear {name}"


class Checkout(Reactor):
    order: dict[str, Any]

    found = step(look_up)
    # Runs only for a VIP; else it is `Skipped(None)`, and what depends on it goes on.
    reviewed = step(review, name=found["customer"]["name"]).when(found["customer"]["vip"])
    charged = step(
        charge,
        name=found["customer"]["name"],  # a path: keys, indices or attributes
        cents=inputs.order["total"].map(lambda total: total * 100),  # computed when it is there
        currency="EUR",  # any other value is a literal
    ).after(reviewed)  # order without data
    # A condition may also be a function of the step's own inputs.
    greeted = (
        step(greet, name=found["customer"]["name"]).when(lambda name: name != "").after(charged)
    )

    returns = charged


class Broken(Reactor):
    order: dict[str, Any]

    found = step(look_up)
    greeted = step(greet, name=found["customer"]["nickname"])


def main() -> None:
    result = Checkout.run(order={"total": 120, "lines": []})
    print(result)
    assert result == Success("Ada: 12000 EUR")
    assert diary == ["reviewed Ada", "charged Ada", "greeted Ada"]

    diary.clear()
    result = Checkout.run(order={"total": 80, "lines": []})
    assert result == Success("Ada: 8000 EUR")
    assert diary == ["charged Ada", "greeted Ada"]
    assert result.run_id is not None
    trace = Checkout.find(result.run_id).results
    print(trace)
    assert trace["reviewed"] is None

    # A path that leads nowhere fails the step before it starts.
    result = Broken.run(order={"total": 1, "lines": []})
    print(result)
    assert isinstance(result, Failure)
    assert result.step == "greeted" and "nickname" in result.error

    # A reference is not a value yet: using it as one is an error at once.
    try:
        bool(inputs.order)
    except TypeError as error:
        print(error)
        assert ".map" in str(error)
    else:
        raise AssertionError("a reference has no truth value")


if __name__ == "__main__":
    with Runtime(storage="memory://"):
        main()
