"""The reactors of the command line's tests that coordinate."""

from __future__ import annotations

import threading

from calandria import (
    Lock,
    OrderedLock,
    Period,
    RateLimit,
    Reactor,
    Semaphore,
    Step,
    compose,
    fail,
    step,
)

docked = threading.Semaphore(0)
"""Released by each ship that is in the dock."""
sail = threading.Event()
"""Lets ships leave the dock."""


class Dock(Step):
    berth: str

    coordination = [Lock("berth:{berth}", ttl=30)]

    def run(self) -> str:
        docked.release()
        sail.wait(30)
        return f"was at {self.berth}"


class Visit(Reactor):
    berth: str

    coordination = [Semaphore("harbour", limit=5)]
    background = True

    dock = step(Dock)


class Pilot(Reactor):
    ship: str

    coordination = [OrderedLock("pilot")]
    background = True

    @step
    def lead(*, ship: str) -> str:
        docked.release()
        sail.wait(30)
        if ship == "wreck":
            fail("ran aground")
        return ship


class Tax(Step):
    ship: str

    coordination = [
        RateLimit.named("customs"),
        Period("tax:{ship}", every="month"),
        Lock(lambda i: f"ship:{i.ship}"),
    ]

    def run(self) -> str:
        return "paid"


class Clearance(Reactor):
    ship: str

    tax = step(Tax)


class Departure(Reactor):
    ship: str

    coordination = [Lock("ship:{ship}")]

    clearance = compose(Clearance)
