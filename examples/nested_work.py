"""Nested work: a step that decides at run time which steps and reactors to run inside itself."""

from __future__ import annotations

from calandria import Failure, Reactor, Runtime, Step, Success, fail, step

diary: list[str] = []


class Ship(Step):
    parcel: str

    def run(self) -> str:
        if self.parcel == "bomb":
            fail("not this parcel")
        diary.append(f"shipped {self.parcel}")
        return f"tracking {self.parcel}"

    def undo(self, result: str) -> None:
        diary.append(f"recalled {result}")


class Announce(Reactor):
    parcels: int

    @step
    def mail(*, parcels: int) -> str:
        return f"{parcels} parcels are on their way"


class ShipAll(Step):
    """As many parcels as there happen to be: the work belongs to this step's execution."""

    parcels: list[str]

    def run(self) -> str:
        for parcel in self.parcels:
            match self.context.call(Ship, parcel=parcel):
                case Success():
                    pass
                case other:
                    fail(f"{parcel}: {other.error if isinstance(other, Failure) else other}")
        match self.context.run(Announce, parcels=len(self.parcels)):
            case Success(text):
                return str(text)
            case other:
                fail(f"not announced: {other}")

    def compensate(self, reason: object) -> None:
        diary.append(f"compensated: {reason}")


class Dispatch(Reactor):
    parcels: list[str]

    ship = step(ShipAll)


def main() -> None:
    result = Dispatch.run(parcels=["a", "b"])
    print(result)
    assert result == Success("2 parcels are on their way")
    assert diary == ["shipped a", "shipped b"]

    diary.clear()
    result = Dispatch.run(parcels=["a", "bomb"])
    print(result, diary)
    assert isinstance(result, Failure) and result.error == "bomb: not this parcel"
    assert diary[0] == "shipped a" and "compensated: bomb: not this parcel" in diary


if __name__ == "__main__":
    with Runtime(storage="memory://"):
        main()
