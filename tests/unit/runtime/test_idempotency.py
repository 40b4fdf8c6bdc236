"""Idempotency keys: the first run wins, later calls get what it came to."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from calandria import (
    Dispatched,
    Failure,
    Halt,
    IdempotencyConflict,
    Reactor,
    Runtime,
    Settings,
    Step,
    Success,
    halt,
    runs,
    step,
)
from tests.unit.runtime.crashing import die_in
from tests.unit.runtime.saga import Outage, logged, only_run, raising


@pytest.fixture(params=["memory", "sqlite"])
def opened(request: pytest.FixtureRequest, tmp_path: Any) -> Any:
    url = "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/runs.db"
    with Runtime(url, settings=Settings(undo_wait=0)) as runtime:
        yield runtime


def again(reactor: type[Reactor], how: str, key: str = "key", **values: Any) -> Any:
    bound: Any = reactor.options(idempotency_key=key)
    return bound.run(**values) if how == "run" else asyncio.run(bound.arun(**values))


hows = pytest.mark.parametrize("how", ["run", "arun"])


@hows
@pytest.mark.usefixtures("opened")
@pytest.mark.parametrize(
    "body", [lambda: [1, "x"], raising(Outage("why")), lambda: halt("enough")], ids="sfh"
)
def test_later_calls_get_the_result_of_the_first(diary: list[str], how: str, body: Any) -> None:
    class Saga(Reactor):
        work = step(logged(diary, "work", body))

    first = again(Saga, how)
    done = list(diary)
    second = again(Saga, how)

    assert second == first
    assert second.run_id == first.run_id
    assert diary == done
    assert len(list(runs())) == 1
    if isinstance(first, Failure):
        assert (second.step, second.error, second.attempts) == ("work", "why", 1)


@hows
@pytest.mark.usefixtures("opened")
def test_a_cancelled_and_an_aborted_run_are_remembered_too(diary: list[str], how: str) -> None:
    class Undone(Reactor):
        work = step(logged(diary, "work"))

    again(Undone, how)
    only_run().undo()
    result = again(Undone, how)
    assert isinstance(result, Failure)
    assert result.error == "Undo triggered"

    class Aborted(Reactor):
        work = step(logged(diary, "cut", raising(SystemExit("cut"))))

    with pytest.raises(SystemExit):
        again(Aborted, how)
    result = again(Aborted, how)
    assert isinstance(result, Failure)
    assert result.exception_class == "Aborted"
    assert diary == ["+work", "-work", "+cut"]


@hows
@pytest.mark.usefixtures("opened")
def test_different_inputs_under_one_key_conflict(diary: list[str], how: str) -> None:
    class Saga(Reactor):
        number: int
        tags: set[str] = set()
        work = step(logged(diary, "work"))

    again(Saga, how, number=1, tags={"a", "b"})
    # equal once validated, defaults applied
    assert again(Saga, how, number="1", tags=["b", "a"]) == Success("work")
    with pytest.raises(IdempotencyConflict) as caught:
        again(Saga, how, number=2)
    assert only_run().id in str(caught.value)
    assert diary == ["+work"]


@hows
@pytest.mark.usefixtures("opened")
def test_a_key_belongs_to_its_reactor(diary: list[str], how: str) -> None:
    class One(Reactor):
        work = step(logged(diary, "one"))

    class Two(Reactor):
        work = step(logged(diary, "two"))

    assert again(One, how) == Success("one")
    assert again(Two, how) == Success("two")
    assert again(One, how, key="other") == Success("one")
    assert len(list(runs())) == 3
    (found,) = runs(reactor=One, idempotency_key="key")
    assert found.idempotency_key == "key"


@hows
@pytest.mark.usefixtures("opened")
def test_invalid_inputs_spend_no_key(diary: list[str], how: str) -> None:
    class Saga(Reactor):
        number: int
        work = step(logged(diary, "work"))

    assert isinstance(again(Saga, how, number="x"), Failure)
    assert again(Saga, how, number=1) == Success("work")


@hows
@pytest.mark.parametrize("body", [lambda: 7, raising(Outage("why")), lambda: halt("h")], ids="sfh")
def test_pruning_a_run_keeps_its_key(
    diary: list[str], how: str, body: Any, opened: Runtime
) -> None:
    class Saga(Reactor):
        work = step(logged(diary, "work", body))

    first = again(Saga, how)
    assert opened.prune(older_than=-1) == 1
    assert list(runs()) == []

    second = again(Saga, how)

    assert second == first
    assert second.run_id == first.run_id
    assert diary.count("+work") == 1


def test_while_the_run_lives_a_second_call_is_dispatched(opened: Runtime) -> None:
    seen: list[Any] = []

    class Saga(Reactor):
        @step
        def work() -> str:
            seen.append(Saga.options(idempotency_key="key").run())
            return "done"

    result = Saga.options(idempotency_key="key").run()

    assert result == Success("done")
    assert seen == [Dispatched(result.run_id or "")]


def test_of_many_calls_at_once_one_runs(opened: Runtime, diary: list[str]) -> None:
    ready = threading.Barrier(8, timeout=10)
    results: list[Any] = []

    class Saga(Reactor):
        work = step(logged(diary, "work"))

    def call() -> None:
        ready.wait()
        results.append(Saga.options(idempotency_key="key", runtime=opened).run())

    threads = [threading.Thread(target=call) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)

    assert diary == ["+work"]
    assert len(results) == 8
    assert {type(result) for result in results} <= {Success, Dispatched}
    assert len({result.run_id for result in results}) == 1


def test_a_dead_run_is_taken_up_by_the_next_call(diary: list[str], tmp_path: Any) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    kill: list[Any] = []

    class Saga(Reactor):
        first = step(logged(diary, "first"))
        work = step(logged(diary, "work", lambda: kill.pop()() if kill else "done")).after(first)

    class Keyed:
        """`Saga`, always under one key."""

        definition = Saga.definition

        @staticmethod
        def options(**given: Any) -> Any:
            return Saga.options(idempotency_key="key", **given)

    with Runtime(url):
        Keyed.__module__, Keyed.__qualname__ = Saga.__module__, Saga.__qualname__
        run_id = die_in(url, Keyed, kill.append)  # type: ignore[arg-type]
        result = Saga.options(idempotency_key="key").run()

    assert result == Success("done")
    assert result.run_id == run_id
    assert diary == ["+first", "+work", "+work"]
    assert isinstance(Halt("x"), Halt)


def test_a_step_can_use_the_runs_key_to_be_idempotent_outside(opened: Runtime) -> None:
    class Work(Step):
        def run(self) -> str:
            return self.context.idempotency_key

    class Saga(Reactor):
        work = step(Work)

    first = Saga.options(idempotency_key="a").run()
    second = Saga.options(idempotency_key="a").run()
    third = Saga.options(idempotency_key="b").run()

    assert first == second
    assert first != third
