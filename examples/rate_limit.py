"""Rate limits: so many starts in each window, several windows at once, and limits by name."""

from __future__ import annotations

from calandria import (
    Failure,
    RateLimit,
    RateLimited,
    Reactor,
    Runtime,
    Settings,
    Step,
    Success,
    step,
)


class Notify(Step):
    customer: str

    # Counted together or not at all: a start that the hour refuses costs the day nothing.
    coordination = [RateLimit("mail:{customer}", limits={"hour": 2, "day": 5})]

    def run(self) -> str:
        return f"mailed {self.customer}"


class Remind(Reactor):
    customer: str
    notify = step(Notify)


class Refund(Reactor):
    """Everything that names "bank" shares one limit, registered once in the settings."""

    order: int

    @step(coordination=[RateLimit.named("bank")])
    def pay_back(*, order: int) -> str:
        return f"order {order} paid back"


class Payout(Reactor):
    """On a reactor the limit is charged once for the whole run, before anything of it runs."""

    seller: str

    coordination = [RateLimit.named("bank")]

    @step
    def pay_out(*, seller: str) -> str:
        return f"{seller} paid"


class Patient(Reactor):
    coordination = [RateLimit("tick", limit=1, per="second", wait=5)]

    @step
    def tick() -> str:
        return "tick"


def main() -> None:
    assert Remind.run(customer="ada") == Success("mailed ada")
    assert Remind.run(customer="ada") == Success("mailed ada")
    third = Remind.run(customer="ada")
    print("the third:", third.error if isinstance(third, Failure) else third)
    assert isinstance(third, Failure) and third.exception_class == "RateLimited"
    assert isinstance(third.exception, RateLimited) and third.exception.retry_after is not None
    assert 0 < third.exception.retry_after <= 3600
    assert Remind.run(customer="bob").ok, "another key, another count"

    assert Refund.run(order=1) == Success("order 1 paid back")
    try:
        Payout.run(seller="eve")
    except RateLimited as limited:
        print("the payout:", limited)
        assert limited.key == "named:bank" and limited.step is None
    else:
        raise AssertionError("the bank takes one a day")

    # With `wait` a caller sits it out; a worker is parked until the window allows it.
    assert [Patient.run().ok for _ in range(2)] == [True, True]
    print("two ticks, in two different seconds")


if __name__ == "__main__":
    settings = Settings(rate_limits={"bank": {"day": 1}})
    with Runtime(storage="memory://", settings=settings):
        main()
