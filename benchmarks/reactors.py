"""The reactors that are measured: steps that do nothing but hand a number on."""

from __future__ import annotations

import time
from typing import Any

from calandria import Reactor, element, inputs, map_each, step


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


def note_the_time(*, number: int) -> int:
    """Add the instant to `instants`."""
    instants.append(time.perf_counter())
    return number + 1


def chain(length: int) -> type[Reactor]:
    """Return a reactor of `length` timed steps, each of which needs the one before it."""
    body: dict[str, Any] = {"__module__": __name__, "__annotations__": {"number": int}}
    previous: Any = inputs.number
    for number in range(length):
        previous = step(note_the_time, number=previous)
        body[f"step_{number}"] = previous
    return type(f"ChainOf{length}", (Reactor,), body)


class TimedMap(Reactor):
    """One timed step for each element."""

    numbers: list[int]

    each = map_each(note_the_time, over=inputs.numbers, number=element)
