"""Reactors that any process can import, so that they can be dispatched without a worker here."""

from __future__ import annotations

from typing import Any

from calandria import Reactor, Step, after, spawn, step

NOTES: list[str] = []
"""What ran, in order; the `notes` fixture empties it."""


class Note(Step):
    """Notes its text."""

    text: str = "note"

    def run(self) -> str:
        NOTES.append(self.text)
        return self.text

    def undo(self, result: str) -> None:
        NOTES.append(f"-{result}")


class Whole(Reactor):
    """Runs in a worker alone."""

    background = True
    first = step(Note, text="first")


class Split(Reactor):
    """Its second step is for a worker."""

    first = step(Note, text="first")
    second = step(Note, text="second").after(first)
    background = after(first)


class Letting(Reactor):
    """Spawns a step and a reactor, and waits for neither."""

    mail = spawn(Note, text="mail")
    whole = spawn(Whole)
    done = step(Note, text="done").after(mail, whole)


class Reading(Reactor):
    """Spawns a step and uses its result."""

    mail = spawn(Note, text="mail")

    @step
    def read(*, mail: Any) -> Any:
        return f"read {mail}"
