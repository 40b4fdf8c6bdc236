"""Retries of a step: how many, of what, and never of what another attempt cannot mend."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from calandria import Failure, Reactor, Retry, Step, Success, compose, fail, step
from tests.unit.runtime.saga import THRICE, Outage, async_logged, logged, only_run, raising

pytestmark = pytest.mark.usefixtures("runtime")


@pytest.mark.parametrize("how", ["run", "arun"])
@pytest.mark.parametrize("maker", [logged, async_logged])
def test_a_step_is_tried_until_it_succeeds(diary: list[str], maker: Any, how: str) -> None:
    left = [Outage("1"), Outage("2")]

    def body() -> str:
        if left:
            raise left.pop(0)
        return "done"

    class Saga(Reactor):
        work = step(maker(diary, "work", body)).retry(THRICE)

    assert (Saga.run() if how == "run" else asyncio.run(Saga.arun())) == Success("done")
    assert diary == ["+work"] * 3
    (view,) = only_run().steps()
    assert view.attempts == 3


@pytest.mark.parametrize(
    "body",
    [
        raising(Outage("no")),
        lambda: Failure("no"),
        lambda: fail("no"),
        raising(asyncio.CancelledError()),
    ],
    ids=["raise", "return", "signal", "cancelled"],
)
def test_every_kind_of_failure_is_retried_up_to_the_limit(diary: list[str], body: Any) -> None:
    class Saga(Reactor):
        work = step(logged(diary, "work", body, retry=THRICE))

    result = Saga.run()

    assert isinstance(result, Failure)
    assert result.attempts == 3
    assert diary == ["+work"] * 3 + ["!work"]


def test_retry_on_narrows_to_exception_types(diary: list[str]) -> None:
    for error, tries in ((Outage("x"), 2), (ValueError("x"), 1), (KeyError("x"), 2)):
        diary.clear()

        class Saga(Reactor):
            work = step(logged(diary, "work", raising(error))).retry(
                max_attempts=2, base_delay=0, retry_on=(Outage, LookupError)
            )

        Saga.run()
        assert diary.count("+work") == tries


@pytest.mark.parametrize(
    "body",
    [lambda: fail("x", retryable=False), lambda: Failure("x", retryable=False), lambda: object()],
    ids=["signal", "returned", "unrecordable"],
)
def test_what_is_not_retryable_is_tried_once(diary: list[str], body: Any) -> None:
    class Saga(Reactor):
        work = step(logged(diary, "work", body, retry=THRICE))

    result = Saga.run()

    assert isinstance(result, Failure)
    assert (result.retryable, result.attempts) == (False, 1)
    assert diary == ["+work", "!work"]


def test_the_steps_declaration_overrides_its_class(diary: list[str]) -> None:
    class Saga(Reactor):
        work = step(logged(diary, "work", raising(Outage()), retry=THRICE)).retry(max_attempts=1)

    Saga.run()

    assert diary == ["+work", "!work"]


def test_a_failing_compose_is_not_retried_as_a_whole_but_its_steps_are(diary: list[str]) -> None:
    class Inner(Reactor):
        work = step(logged(diary, "work", raising(Outage()), retry=THRICE))

    class Saga(Reactor):
        inner = compose(Inner)

    Saga.run()

    assert diary == ["+work"] * 3 + ["!work"]


def test_other_ready_steps_go_first_while_a_retry_waits(diary: list[str]) -> None:
    left = [Outage()]

    def flaky() -> None:
        if left:
            raise left.pop()

    class Saga(Reactor):
        flaky_step = step(
            logged(diary, "flaky", flaky, retry=Retry(max_attempts=2, base_delay=0.02))
        )
        other = step(logged(diary, "other"))

    assert Saga.run().ok
    assert diary == ["+flaky", "+other", "+flaky"]


def test_each_attempt_gets_its_inputs_afresh() -> None:
    seen: list[list[int]] = []

    class Work(Step):
        items: list[int]
        retry = THRICE

        def run(self) -> None:
            seen.append(list(self.items))
            self.items.clear()
            raise Outage

    class Saga(Reactor):
        work = step(Work, items=[1, 2])

    Saga.run()

    assert seen == [[1, 2]] * 3
