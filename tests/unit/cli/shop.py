"""The reactors that the command line's tests run."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Annotated

from pydantic import Field

from calandria import Reactor, Redacted, Step, compose, element, fail, halt, inputs, map_each, step


class Reserve(Step):
    line: str

    def run(self) -> str:
        if self.line == "bad":
            fail("no [bold]stock[/bold] of\n\x1b[31mbad")
        return self.line

    def undo(self, result: str) -> None:
        if Path("undo-fails").exists():
            raise RuntimeError("cannot put back")


class Hotel(Reactor):
    city: str

    @step
    def book(*, city: str) -> str:
        return f"booked {city}"


class Checkout(Reactor):
    order_id: Annotated[int, Field(ge=1)]
    lines: list[str]
    card: Redacted[str] = "none"
    mode: str = "ok"

    reserve = map_each(Reserve, over=inputs.lines, line=element)
    hotel = compose(Hotel, city="Rome").after(reserve)

    @step
    def charge(*, hotel: str, mode: str, card: str) -> dict[str, object]:
        if mode == "fail":
            fail("declined")
        if mode == "halt":
            halt("enough")
        if mode == "interrupt":
            raise KeyboardInterrupt
        if mode == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if mode == "die-once" and not Path("died").exists():
            Path("died").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return {"hotel": hotel, "paid": True}


class Secret(Reactor):
    token: Redacted[str]

    @step
    def keep(*, token: str) -> Redacted[str]:
        return token
