"""Reactors in reactors: a nested one belongs to its parent's rollback."""

from __future__ import annotations

from calandria import Failure, Reactor, Runtime, Step, Success, compose, fail, inputs, step

diary: list[str] = []


class Reserve(Step):
    what: str

    def run(self) -> str:
        diary.append(f"+{self.what}")
        return self.what

    def undo(self, result: str) -> None:
        diary.append(f"-{result}")


class Pay(Step):
    budget: int

    def run(self) -> str:
        if self.budget < 100:
            fail(f"{self.budget} is not enough")
        return "paid"


class Stay(Reactor):
    city: str

    room = step(Reserve, what=inputs.city.map("room in {}".format))
    breakfast = step(Reserve, what="breakfast").after(room)

    returns = room


class Trip(Reactor):
    city: str
    budget: int

    flight = step(Reserve, what="flight")
    stay = compose(Stay, city=inputs.city).after(flight)
    payment = step(Pay).after(stay)

    returns = stay


class Journey(Reactor):
    city: str

    # The trip fails here: it rolls itself back, and its failure is this step's failure.
    luggage = step(Reserve, what="luggage")
    trip = compose(Trip, city=inputs.city, budget=1).after(luggage)


def main() -> None:
    result = Trip.run(city="Rome", budget=500)
    print(result)
    assert result == Success("room in Rome")
    assert diary == ["+flight", "+room in Rome", "+breakfast"]

    diary.clear()
    result = Trip.run(city="Rome", budget=50)
    print(result, diary)
    assert isinstance(result, Failure) and result.step == "payment"
    assert diary[3:] == ["-breakfast", "-room in Rome", "-flight"]

    diary.clear()
    result = Journey.run(city="Rome")
    print(result, diary)
    assert isinstance(result, Failure)
    assert diary[4:] == ["-breakfast", "-room in Rome", "-flight", "-luggage"]


if __name__ == "__main__":
    with Runtime(storage="memory://"):
        main()
