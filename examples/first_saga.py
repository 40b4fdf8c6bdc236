"""A first saga: three steps, one of which fails; what was done is undone, newest first."""

from __future__ import annotations

from calandria import Failure, Reactor, Runtime, Step, Success, fail, inputs, step

diary: list[str] = []


class BookFlight(Step):
    passenger: str

    def run(self) -> str:
        diary.append(f"flight booked for {self.passenger}")
        return "FL-100"

    def undo(self, result: str) -> None:
        diary.append(f"flight {result} cancelled")


class BookHotel(Step):
    passenger: str
    nights: int

    def run(self) -> str:
        diary.append(f"hotel booked for {self.nights} nights")
        return "HO-200"

    def undo(self, result: str) -> None:
        diary.append(f"hotel {result} cancelled")


class Pay(Step):
    card: str

    def run(self) -> str:
        if self.card == "expired":
            fail("the card has expired")
        diary.append("paid")
        return "PAY-300"

    def compensate(self, reason: object) -> None:
        diary.append(f"payment cleaned up: {reason}")


class BookTrip(Reactor):
    passenger: str
    nights: int
    card: str

    # Inputs that are not wired take the reactor's input of the same name.
    flight = step(BookFlight)
    hotel = step(BookHotel).after(flight)
    payment = step(Pay, card=inputs.card).after(flight, hotel)

    returns = payment


def main() -> None:
    match BookTrip.run(passenger="Ada", nights=3, card="valid"):
        case Success(value):
            print(f"booked: {value}")
            assert value == "PAY-300"
        case other:
            raise AssertionError(other)

    diary.clear()
    match BookTrip.run(passenger="Ada", nights=3, card="expired"):
        case Failure() as failure:
            print(f"not booked: {failure.error} (in {failure.step})")
            assert failure.step == "payment"
            assert failure.rollback_failures == []
        case other:
            raise AssertionError(other)

    print(*diary, sep="\n")
    assert diary == [
        "flight booked for Ada",
        "hotel booked for 3 nights",
        "payment cleaned up: the card has expired",
        "hotel HO-200 cancelled",
        "flight FL-100 cancelled",
    ]


if __name__ == "__main__":
    with Runtime(storage="memory://"):
        main()
