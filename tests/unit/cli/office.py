"""The reactors of the command line's tests that run in the background."""

from __future__ import annotations

import os
import time
from pathlib import Path

from calandria import Reactor, Redacted, Retry, after, fail, spawn, step


class Mail(Reactor):
    to: str

    @step
    def send(*, to: str) -> str:
        return f"sent to {to}"


def stamp(accept: int) -> str:
    return f"stamped {accept}"


class Order(Reactor):
    number: int

    @step
    def accept(*, number: int) -> int:
        return number

    mail = spawn(Mail, to="ada")
    note = spawn(stamp, accept=accept)

    @step(retry=Retry(max_attempts=2, base_delay=600, jitter=0))
    def deliver(*, accept: int) -> int:
        if not Path("open").exists():
            fail("nobody is at home")
        return accept * 2

    background = after(accept)


class Token(Reactor):
    @step
    def make() -> Redacted[str]:
        return "hunter2"

    background = True


class Long(Reactor):
    """Tells by a file that it is under way, and goes on until another file says so."""

    background = True

    @step
    def wait() -> str:
        Path("begun").write_text(str(os.getpid()), encoding="utf-8")
        while not Path("go-on").exists():
            time.sleep(0.01)
        return "done"
