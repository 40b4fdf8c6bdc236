"""What the type checkers must refuse: exactly the marked lines, each by the checkers it names."""

from __future__ import annotations

from pydantic import Field

from calandria import (
    Lock,
    OrderedLock,
    Period,
    RateLimit,
    Reactor,
    Redacted,
    Retry,
    Semaphore,
    Step,
    inputs,
    step,
)



class Charge(Step):
    amount: int
    limit: int = Field(ge=1)
    card: Redacted[str] = ""

    def run(self) -> int:
        return self.card  # E: mypy pyright


class WrongUndo(Step):
    def undo(self) -> None: ...  # E: mypy pyright


class WrongRetry(Step):
    retry = 3  # E: mypy pyright


class Checkout(Reactor):
    order_id: str
    amount: int = 1

    charge = step(Charge).after("amount")  # E: mypy pyright
    again = step(Charge).retry(max_attempt=3)  # E: mypy pyright
    once = step(retry=3)  # E: mypy pyright

    concurrency = "4"  # E: mypy pyright


Charge.call(amount="3", limit=1)  # E: mypy pyright
Charge.call(limit=1)  # E: mypy pyright
Charge.call(amount=3)  # E: mypy pyright
Charge.call(amount=3, limit=1, currency="EUR")  # E: mypy pyright
Charge.call(3, 1)  # E: mypy pyright
Charge.call(amount=3, limit=1, card=5)  # E: mypy pyright
Checkout.run()  # E: mypy pyright
Checkout.run(order_id=3)  # E: mypy pyright
Checkout.run(order_id="3", amount="1")  # E: mypy pyright
Checkout.run(order_id="3", amout=1)  # E: mypy pyright
Checkout.options(idempotency="3")  # E: mypy pyright
Checkout.options(idempotency_key="3").run(order_id=3)  # E: mypy pyright
Checkout.find(3)  # E: mypy pyright
Retry(backoff="quadratic")  # E: mypy pyright
inputs.order_id.name = 3  # E: mypy pyright


async def wrong_async() -> None:
    await Checkout.arun(order_id=3)  # E: mypy pyright
    await Charge.acall(amount="3", limit=1)  # E: mypy pyright
    Checkout.options().arun(order=3)  # E: mypy pyright


Lock()  # E: mypy pyright
Lock("a", ttl="30")  # E: mypy pyright
Lock("a", limit=3)  # E: mypy pyright
Semaphore("a")  # E: mypy pyright
Semaphore("a", limit="3")  # E: mypy pyright
RateLimit("a", limit=3, per="fortnight")  # E: mypy pyright
RateLimit("a", limits={"second": "3"})  # E: mypy pyright
RateLimit.named(3)  # E: mypy pyright
Period("a", every=1.5)  # E: mypy pyright
OrderedLock("a", wait=3)  # E: mypy pyright
OrderedLock.skip("a", "3")  # E: mypy pyright
OrderedLock.peek("a", runtime="memory://")  # E: mypy pyright


class Uncoordinated(Step):
    account: str

    coordination = ["account:{account}"]  # E: mypy pyright

    def run(self) -> None: ...


class UncoordinatedReactor(Reactor):
    account: str

    coordination = Lock("account:{account}")  # E: mypy pyright

    one = step(Uncoordinated).coordinate("account")  # E: mypy pyright

    @step(coordination=["account"])  # E: mypy pyright
    def two(*, account: str) -> str:
        return account
