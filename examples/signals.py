"""Signals: `fail`, `skip` and `halt` end a step from any depth, past its own `except Exception`."""

from __future__ import annotations

from calandria import Failure, Halt, Reactor, Runtime, Step, Success, fail, halt, skip, step

diary: list[str] = []


def look_at(order: str) -> str:
    """A helper far below the step, which knows nothing of it."""
    if order == "forged":
        fail("the order is forged")
    if order == "seen before":
        skip("known")
    if order == "far future":
        halt("too early to act")
    return "new"


class Check(Step):
    order: str

    def run(self) -> str:
        try:
            return look_at(self.order)
        except Exception:  # what a step writes to guard against its own errors
            diary.append("never reached by a signal")
            return "swallowed"
        finally:
            diary.append("tidied up")

    def undo(self, result: str) -> None:
        diary.append(f"check undone: {result}")


class Act(Step):
    verdict: str

    def run(self) -> str:
        if self.verdict == "known":
            fail("acted on it before")
        return f"acted on a {self.verdict} order"


class Process(Reactor):
    order: str

    checked = step(Check)
    act = step(Act, verdict=checked)


def main() -> None:
    assert Process.run(order="plain") == Success("acted on a new order")

    result = Process.run(order="forged")
    print(result)
    assert isinstance(result, Failure) and result.error == "the order is forged"

    # Halting ends the reactor early, on purpose; it is a success, and its progress is kept.
    result = Process.run(order="far future")
    print(result)
    assert result == Halt("too early to act") and result.ok

    # A skipped step hands its value on, and is never undone: it did nothing.
    diary.clear()
    result = Process.run(order="seen before")
    print(result)
    assert isinstance(result, Failure) and result.step == "act"
    assert diary == ["tidied up"]


if __name__ == "__main__":
    with Runtime(storage="memory://"):
        main()
