"""Middleware: hooks into a run's life, for every reactor or for one; its errors never disturb."""

from __future__ import annotations

import logging
from typing import Any

from calandria import Failure, Middleware, Reactor, RunInfo, Runtime, StepInfo, Success, fail, step

seen: list[str] = []


class Journalist(Middleware):
    """A fresh object for each run: state kept here belongs to one run."""

    def __init__(self) -> None:
        self.steps = 0

    def run_started(self, run: RunInfo) -> None:
        seen.append(f"{run.reactor} started")

    def step_completed(self, step: StepInfo, value: Any) -> None:
        self.steps += 1
        seen.append(f"{step.path} -> {value}")

    def undo_completed(self, step: StepInfo) -> None:
        seen.append(f"{step.path} undone")

    def run_completed(self, run: RunInfo, value: Any) -> None:
        seen.append(f"completed after {self.steps} steps")

    def run_failed(self, run: RunInfo, failure: Failure) -> None:
        seen.append(f"failed: {failure.error}")


class Broken(Middleware):
    def step_started(self, step: StepInfo) -> None:
        raise RuntimeError("a bug in a hook")


class Greet(Reactor):
    name: str
    middleware = [Broken]  # for this reactor alone, besides the runtime's

    @step
    def greeting(*, name: str) -> str:
        return f"hello {name}"

    @greeting.undo
    def _(*, result: str) -> None:
        pass

    @step
    def deliver(*, greeting: str) -> str:
        if greeting == "hello nobody":
            fail("nobody is there")
        return "delivered"


def main() -> None:
    assert Greet.run(name="Ada") == Success("delivered")
    print(*seen, sep="\n")
    assert seen == [
        "Greet started",
        "greeting -> hello Ada",
        "deliver -> delivered",
        "completed after 2 steps",
    ]

    seen.clear()
    assert not Greet.run(name="nobody").ok
    print(*seen, sep="\n")
    assert seen == [
        "Greet started",
        "greeting -> hello nobody",
        "greeting undone",
        "failed: nobody is there",
    ]


if __name__ == "__main__":
    logging.disable()  # the broken hook's errors are logged; this example is about the rest
    with Runtime(storage="memory://", middleware=[Journalist]):
        main()
