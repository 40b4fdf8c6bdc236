"""What a parent keeps secret stays so in the units it spawns."""

from __future__ import annotations

from typing import Any

import pytest

from calandria import Middleware, Reactor, Redacted, RunInfo, Runtime, StepInfo, inputs, spawn, step
from calandria.runtime.values import REDACTED_TEXT
from tests.unit.background.conftest import QUICK
from tests.unit.background.helping import eventually

SECRET = "tok-4711"


def pay(*, card: str) -> str:
    raise ValueError(f"{card} was refused")


class Paying(Reactor):
    card: str
    paid = step(pay)


class BuysStep(Reactor):
    token: Redacted[str]
    unit = spawn(pay, card=inputs.token)

    @step
    def read(*, unit: Any) -> str:
        return "read"


class BuysReactor(Reactor):
    token: Redacted[str]
    unit = spawn(Paying, card=inputs.token)

    @step
    def read(*, unit: Any) -> str:
        return "read"


@pytest.mark.parametrize("reactor", [BuysStep, BuysReactor])
def test_a_secret_is_redacted_in_the_unit(storage: str, reactor: Any) -> None:
    seen: list[str] = []

    class Watching(Middleware):
        def run_started(self, run: RunInfo) -> None:
            seen.append(repr(run.inputs))

        def step_started(self, step: StepInfo) -> None:
            seen.append(repr(step.inputs))

        def step_failed(self, step: StepInfo, failure: Any) -> None:
            seen.append(str(failure.error))

    with Runtime(storage, settings=QUICK, middleware=[Watching]) as runtime:
        runtime.start_worker(1)
        result = reactor.run(token=SECRET)
        parent = runtime.find(result.run_id)
        (child,) = parent.children
        eventually(lambda: child.result)
        shown = [
            child.inputs,
            child.result,
            [(view.inputs, view.result, view.error) for view in child.steps()],
            [(view.inputs, view.result, view.error) for view in parent.steps()],
            [entry.data for entry in (*child.trace, *parent.trace)],
        ]
    assert child.id and SECRET not in repr(shown)
    assert SECRET not in repr(seen)
    assert shown[0] == {"card": REDACTED_TEXT}


class Giving(Reactor):
    token: Redacted[str]

    @step
    def give(*, token: str) -> Redacted[str]:
        return token


class Reads(Reactor):
    token: Redacted[str]
    unit = spawn(Giving)

    @step
    def read(*, unit: Any) -> str:
        return "read"


def test_a_redacted_result_is_redacted_where_it_is_awaited(storage: str) -> None:
    with Runtime(storage, settings=QUICK) as runtime:
        runtime.start_worker(1)
        result = Reads.run(token=SECRET)
        run = runtime.find(result.run_id or "")
        views = {view.path: view for view in run.steps()}
    assert views["unit.result"].result == REDACTED_TEXT
    assert SECRET not in repr(views)
