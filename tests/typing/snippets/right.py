"""What both type checkers must accept without a word."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any

from pydantic import BaseModel, Field
from typing_extensions import assert_type

from calandria.coordination.keys import Key
from calandria import (
    compose,
    element,
    index,
    inputs,
    map_each,
    step,
    ContentionError,
    Failure,
    Lock,
    OrderedLock,
    Period,
    RateLimit,
    Runtime,
    Semaphore,
    Halt,
    Reactor,
    Redacted,
    Result,
    Retry,
    Skipped,
    Step,
    Success,
)



@dataclass
class Reservation:
    product_id: int
    quantity: int


class Line(BaseModel):
    product_id: int
    quantity: int = 1


class Reserve(Step):
    product_id: int
    quantity: Annotated[int, Field(ge=1)] = 1
    limit: int = Field(default=3, ge=1)
    token: Redacted[str] = ""
    tags: list[str] = Field(default_factory=list)

    retry = Retry(max_attempts=3, backoff="exponential", base_delay=0.2)
    rollback_retry = Retry(max_attempts=5)

    def run(self) -> Reservation:
        assert_type(self.token, str)
        key: str = self.context.idempotency_key
        assert key
        return Reservation(self.product_id, self.quantity)

    def compensate(self, reason: Any) -> None:
        print(reason)

    def undo(self, result: Reservation) -> None:
        print(result.quantity)

    def reconcile(self) -> Success[Reservation] | None:
        return None


class ReserveSpecial(Reserve):
    reference: str

    coordination = [*Reserve.coordination]


class Charge(Step):
    amount: float
    card: Redacted[str]
    currency: str = "EUR"

    async def run(self) -> str:
        result = await self.context.acall(Reserve, product_id=3)
        return str(result)

    async def undo(self, result: str) -> None:
        print(result)


class Booking(Reactor):
    trip: str

    @step
    def book(*, trip: str) -> str:
        return trip


class Checkout(Reactor):
    order_id: str
    lines: list[Line]
    card: Redacted[str]
    amount: float = 1.0
    limit: int = Field(ge=1)

    reserve = map_each(
        Reserve,
        over=inputs.lines,
        product_id=element["product_id"],
        quantity=element["quantity"],
        token=index.map(str),
    ).keep_going()
    special = step(ReserveSpecial, product_id=3, reference="r").when(inputs.amount.map(bool))
    charge = step(Charge, amount=inputs.amount).after(reserve, special).retry(max_attempts=2)
    booking = compose(Booking, trip=inputs.order_id)

    @step(retry=Retry(max_attempts=2))
    def receipt(*, charge: str, order_id: str) -> str:
        return f"receipt for {order_id}: {charge}"

    @receipt.undo
    def _(*, result: str, order_id: str) -> None:
        print(result, order_id)

    @receipt.compensate
    def _(*, reason: Any) -> None:
        print(reason)

    @step
    async def mail(*, receipt: str, context: Any) -> None:
        print(receipt, context)

    returns = charge["id"]
    concurrency = 4


class Express(Checkout):
    courier: str = "bike"

    charge = step(Charge, amount=Checkout.special["price"])
    returns = Checkout.receipt


def use() -> None:
    assert_type(Reserve.call(product_id=1), Result[Any])
    Reserve.call(product_id=1, quantity=2, token="x", limit=3, tags=["a"])
    ReserveSpecial.call(product_id=1, reference="x")
    Reserve.call_undo(Reservation(1, 2), product_id=1)
    Reserve.call_compensate("no", product_id=1)
    match Checkout.run(order_id="42", lines=[Line(product_id=1)], card="tok", limit=1):
        case Success(value):
            print(value)
        case Failure() as failure:
            print(failure.error, failure.rollback_failures)
        case Halt(reason):
            print(reason)
        case Skipped():
            pass
    Checkout.options(idempotency_key="42").run(order_id="42", lines=[], card="", limit=1)
    Express.run(order_id="42", lines=[], card="", limit=1, courier="van")
    Express.check()


async def use_async() -> None:
    assert_type(await Charge.acall(amount=1.5, card="tok"), Result[Any])
    await Checkout.arun(order_id="42", lines=[], card="", limit=1)
    await Checkout.options().arun(order_id="42", lines=[], card="", limit=1)


class Replaced(Checkout):
    charge = compose(Booking, trip=inputs.order_id)

    @step
    def booking(*, order_id: str) -> str:
        return order_id

    returns = Checkout.receipt["part"]


class Again(Express):
    returns = Express.charge["id"]


class Coordinated(Step):
    account: str
    amount: float

    coordination = [
        OrderedLock("line", poison_timeout=timedelta(hours=1), strict=False),
        Period("once:{account}", every="month"),
        RateLimit("mail", limit=3, per="minute"),
        RateLimit("calls", limits={"second": 3, "minute": 100}, wait=timedelta(seconds=2)),
        RateLimit.named("stripe", wait=1),
        Lock(lambda i: f"account:{i.account}", ttl=30, wait=0.5, rollback_wait=timedelta(minutes=1)),
        Semaphore("tills", limit=5, ttl=30),
    ]

    def run(self) -> int:
        tokens = [hold.token for hold in self.context.holds]
        assert_type(tokens, list[int])
        return tokens[0]


class CoordinatedMore(Coordinated):
    coordination = [*Coordinated.coordination, Lock("account:{account}:{amount}")]


class CoordinatedReactor(Reactor):
    account: str

    coordination = [Lock("account:{account}")]

    pay = step(CoordinatedMore, amount=1.0).coordinate(Lock("pay"), Period("pay", every=60))

    @step(coordination=[Semaphore("tills", limit=5)])
    def receipt(*, pay: int) -> str:
        return f"{pay}"


def operate(runtime: Runtime) -> None:
    positions = OrderedLock.peek("line", runtime=runtime)
    assert_type([one.position for one in positions], list[int])
    assert_type(OrderedLock.skip("line", 3), bool)
    assert_type(OrderedLock.reset("line"), int)
    try:
        CoordinatedReactor.run(account="ada")
    except ContentionError as error:
        assert_type(error.retry_after, float | None)
    assert_type([one.key for one in CoordinatedReactor.coordination], list[Key])
