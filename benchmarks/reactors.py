"""The reactors that are measured: steps that do nothing but hand a number on."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from calandria import Reactor, Result, Step, element, inputs, map_each, step


def add_one(*, number: int) -> int:
    """Do nothing that takes time."""
    return number + 1


class FiveSteps(Reactor):
    """Five steps, each of which needs the one before it."""

    number: int

    first = step(add_one)
    second = step(add_one, number=first)
    third = step(add_one, number=second)
    fourth = step(add_one, number=third)
    fifth = step(add_one, number=fourth)


instants: list[float] = []
"""When each timed step ran, by the performance counter."""


class NoteTheTime(Step):
    """Adds the instant to `instants`."""

    number: int

    def run(self) -> int:
        """Hand the next number on."""
        instants.append(time.perf_counter())
        return self.number + 1


class Chain(Reactor):
    """What every chain takes; its steps are made by `chain`."""

    number: int


def chain(length: int) -> Callable[[], Result[Any]]:
    """Return what runs a reactor of `length` timed steps, each of which needs the one before."""
    body: dict[str, Any] = {"__module__": __name__}
    previous: Any = inputs.number
    for number in range(length):
        previous = step(NoteTheTime, number=previous)
        body[f"step_{number}"] = previous
    made: Any = type(f"ChainOf{length}", (Chain,), body)
    return lambda: made.run(number=0)


class TimedMap(Reactor):
    """One timed step for each element."""

    numbers: list[int]

    each = map_each(NoteTheTime, over=inputs.numbers, number=element)


class FiveInBackground(FiveSteps):
    """Five steps, for a worker."""

    background = True


class TellTheTime(Step):
    """Returns the instant at which it began, by the performance counter."""

    number: int

    def run(self) -> float:
        """Tell the time."""
        return time.perf_counter()


class OneInBackground(Reactor):
    """One step, for a worker."""

    number: int

    told = step(TellTheTime)
    background = True
