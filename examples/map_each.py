"""A step or a reactor for each element: in order, failing fast, or collecting the failures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calandria import (
    Failure,
    MapResult,
    Reactor,
    Runtime,
    Step,
    Success,
    element,
    fail,
    index,
    inputs,
    map_each,
    step,
)

diary: list[str] = []


class Pack(Step):
    name: str
    weight: int
    place: int

    def run(self) -> int:
        if self.weight > 10:
            fail(f"{self.name} is too heavy")
        diary.append(f"{self.place}: packed {self.name}")
        return self.weight

    def undo(self, result: int) -> None:
        diary.append(f"{self.place}: unpacked {self.name}")


class Shipment(Reactor):
    items: list[dict[str, Any]]

    packed = map_each(
        Pack,
        over=inputs.items,
        name=element["name"],
        weight=element["weight"],
        place=index,
    )

    @step
    def weigh(*, packed: Sequence[int]) -> int:
        return sum(packed)


class Tolerant(Reactor):
    items: list[dict[str, Any]]

    packed = map_each(
        Pack, over=inputs.items, name=element["name"], weight=element["weight"], place=index
    ).keep_going()

    @step
    def report(*, packed: MapResult[int]) -> tuple[int, list[str]]:
        return sum(packed.successes), [failure.error for failure in packed.failures]


class Total(Reactor):
    items: list[dict[str, Any]]

    # `.collect` reduces the results to one value.
    packed = map_each(
        Pack, over=inputs.items, name=element["name"], weight=element["weight"], place=index
    ).collect(sum)


def main() -> None:
    tea, salt = {"name": "tea", "weight": 1}, {"name": "salt", "weight": 2}
    piano = {"name": "piano", "weight": 200}

    assert Shipment.run(items=[tea, salt]) == Success(3)
    assert Total.run(items=[tea, salt]) == Success(3)
    assert Shipment.run(items=[]) == Success(0)

    # Failing fast: no new element starts, and the completed ones are undone, highest index first.
    diary.clear()
    result = Shipment.run(items=[tea, salt, piano, tea])
    print(result, *diary, sep="\n")
    assert isinstance(result, Failure) and result.error == "piano is too heavy"
    assert diary == [
        "0: packed tea",
        "1: packed salt",
        "1: unpacked salt",
        "0: unpacked tea",
    ]

    result = Tolerant.run(items=[tea, piano, salt])
    print(result)
    assert result == Success((3, ["piano is too heavy"]))


if __name__ == "__main__":
    with Runtime(storage="memory://"):
        main()
