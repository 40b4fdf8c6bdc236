"""What `run` returns: equality, the fields of a failure, its traceback, values that do not fit."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import Any

import pytest

from calandria import (
    Dispatched,
    Failure,
    Halt,
    Paused,
    Reactor,
    RecordedFailure,
    RunStatus,
    Runtime,
    Settings,
    Skipped,
    Step,
    Success,
    ValidationError,
    compose,
    fail,
    halt,
    runs,
    step,
)
from calandria.results import MAX_TRACEBACK_FRAMES
from tests.unit.runtime.saga import THRICE, Outage, logged, only_run, raising

pytestmark = pytest.mark.usefixtures("runtime")


def test_the_run_id_takes_no_part_in_equality() -> None:
    assert Success(1, run_id="a") == Success(1, run_id="b")
    assert Halt("x", run_id="a") == Halt("x")
    assert Failure("x", run_id="a") == Failure("x")
    assert Success(1) != Success(2)
    assert Skipped(1) != Success(1)  # type: ignore[comparison-overlap]


def test_results_match_positionally_and_tell_whether_all_is_well() -> None:
    found = []
    results = (Success(1), Skipped(2), Halt("h"), Failure("f"), Paused("p"), Dispatched("d"))
    for result in results:
        match result:
            case Success(x) | Skipped(x) | Halt(x) | Failure(x) | Paused(x) | Dispatched(x):
                found.append((x, result.ok))
    assert found == [(1, True), (2, True), ("h", True), ("f", False), ("p", False), ("d", False)]


def test_results_are_frozen() -> None:
    for result in (Success(1), Skipped(1), Halt("x"), Failure("x"), Paused("x"), Dispatched("x")):
        with pytest.raises(AttributeError):
            result.ok = True  # type: ignore[misc]
        with pytest.raises(AttributeError):
            result.run_id = "other"  # type: ignore[misc]


@pytest.mark.parametrize("how", ["run", "arun"])
def test_every_result_of_a_run_names_it(how: str) -> None:
    for body in (lambda: 1, halt, raising(Outage())):

        class Saga(Reactor):
            work = step(logged([], "work", body))

        result = Saga.run() if how == "run" else asyncio.run(Saga.arun())
        run_id = result.run_id
        assert run_id is not None
        assert Saga.find(run_id).result == result


def test_a_failure_tells_where_what_and_how_often() -> None:
    error = Outage("why")

    class Work(Step):
        number: int
        retry = THRICE

        def run(self) -> None:
            raise error

    class Inner(Reactor):
        work = step(Work, number=7)

    class Saga(Reactor):
        inner = compose(Inner)

    result = Saga.run()

    assert isinstance(result, Failure)
    assert (result.error, result.exception, result.exception_class) == ("why", error, "Outage")
    assert (result.reactor, result.step) == (Inner.definition().name, "inner/work")
    assert result.inputs == {"number": 7}
    assert result.attempts == 3
    assert result.retryable
    assert (result.payload, result.validation_errors, result.rollback_failures) == (None, {}, [])

    stored = only_run().result
    assert isinstance(stored, Failure)
    assert stored == result
    assert isinstance(stored.exception, RecordedFailure)
    assert (str(stored.exception), stored.exception.original_class) == ("why", "Outage")
    assert (stored.inputs, stored.attempts) == ({"number": 7}, 3)
    assert stored.traceback == result.traceback


def test_a_message_of_an_exception_without_one_is_its_class() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("broken __str__")

    for error, message in ((Outage(), "Outage"), (Mute(), "Mute"), (KeyError("k"), "'k'")):

        class Saga(Reactor):
            work = step(logged([], "work", raising(error)))

        result = Saga.run()
        assert isinstance(result, Failure)
        assert result.error == message


@pytest.mark.parametrize("error", [{"code": 7}, 42, None, b"x"], ids=repr)
def test_a_failure_whose_message_is_no_text_is_made_text(error: Any) -> None:
    class Saga(Reactor):
        work = step(logged([], "work", lambda: fail(error)))

    result = Saga.run()

    assert isinstance(result, Failure)
    assert isinstance(result.error, str)
    assert only_run().status is RunStatus.FAILED


def test_a_halt_whose_reason_is_no_text_is_made_text() -> None:
    class Saga(Reactor):
        work = step(logged([], "work", lambda: halt(42)))  # type: ignore[arg-type]

    assert Saga.run() == Halt("42")
    assert only_run().result == Halt("42")


def test_the_traceback_begins_at_the_users_code_and_has_no_frame_of_the_library() -> None:
    def deep() -> None:
        raise Outage("deep")

    class Work(Step):
        def run(self) -> None:
            deep()

    class AsyncWork(Step):
        async def run(self) -> None:
            deep()

    for target in (Work, AsyncWork):

        class Saga(Reactor):
            work = step(target)

        result = Saga.run()
        assert isinstance(result, Failure)
        assert len(result.traceback) == 2
        assert "in run" in result.traceback[0]
        assert "in deep" in result.traceback[1]
        assert all("/calandria/" not in line for line in result.traceback)


def test_the_traceback_of_a_function_of_the_definition_begins_there() -> None:
    def broken(value: object) -> None:
        raise Outage("in the map")

    class Work(Step):
        value: Any

        def run(self) -> None: ...

    class Saga(Reactor):
        first = step(logged([], "first"))
        work = step(Work, value=first.map(broken))

    result = Saga.run()

    assert isinstance(result, Failure)
    assert "in the map" in result.error


def test_the_traceback_is_at_most_a_hundred_frames() -> None:
    def recurse(depth: int) -> None:
        if depth == 0:
            raise Outage
        # in turns, as equal lines would be drawn together
        if depth % 2:
            recurse(depth - 1)
        else:
            recurse(depth - 1)

    class Saga(Reactor):
        work = step(logged([], "work", lambda: recurse(150)))

    result = Saga.run()

    assert isinstance(result, Failure)
    assert len(result.traceback) == MAX_TRACEBACK_FRAMES
    assert "recurse" in result.traceback[-1]


def test_invalid_inputs_give_a_failure_without_a_run() -> None:
    class Saga(Reactor):
        number: int
        name: str
        work = step(logged([], "work"))

    for values in ({}, {"number": "x", "name": 1}, {"number": 1, "name": "a", "other": 1}):
        for result in (Saga.run(**values), asyncio.run(Saga.arun(**values))):  # type: ignore[arg-type]
            assert isinstance(result, Failure)
            assert isinstance(result.exception, ValidationError)
            assert result.exception.errors == result.validation_errors
            assert result.run_id is None
            assert not result.retryable
            assert Saga.definition().name in result.error
    assert list(runs()) == []


def test_an_input_that_cannot_be_recorded_gives_a_failure_without_a_run() -> None:
    class Saga(Reactor):
        thing: Any
        work = step(logged([], "work"))

    result = Saga.run(thing=object())

    assert isinstance(result, Failure)
    assert result.exception_class == "EncodingError"
    assert list(runs()) == []


UNRECORDABLE = {
    "object": object(),
    "function": raising,
    "in a list": [1, object()],
    "generator": (n for n in range(3)),
    "too large": "x" * 2000,
}


@pytest.mark.parametrize("value", UNRECORDABLE.values(), ids=UNRECORDABLE.keys())
def test_a_value_that_cannot_be_recorded_fails_its_step_which_is_compensated(
    diary: list[str], value: object
) -> None:
    class Saga(Reactor):
        first = step(logged(diary, "first"))
        work = step(logged(diary, "work", lambda: value, retry=THRICE)).after(first)

    with Runtime("memory://", settings=Settings(max_value_bytes=1000)):
        result = Saga.run()
        status = only_run().status

    assert isinstance(result, Failure)
    assert (result.step, result.exception_class) == ("work", "EncodingError")
    assert "work" in result.error
    assert diary == ["+first", "+work", "!work", "-first"]
    assert status is RunStatus.FAILED


def test_a_returned_value_that_cannot_be_recorded_rolls_the_run_back(diary: list[str]) -> None:
    class Saga(Reactor):
        first = step(logged(diary, "first"))
        returns = first.map(lambda value: object())

    result = Saga.run()

    assert isinstance(result, Failure)
    assert result.exception_class == "EncodingError"
    assert diary == ["+first", "-first"]


def test_a_returned_path_that_is_missing_rolls_the_run_back(diary: list[str]) -> None:
    class Saga(Reactor):
        first = step(logged(diary, "first", lambda: {"a": 1}))
        returns = first["b"]

    result = Saga.run()

    assert isinstance(result, Failure)
    assert "['b']" in result.error
    assert diary == ["+first", "-first"]
    stored = only_run().result
    assert isinstance(stored, Failure)
    assert stored.error == result.error


@pytest.mark.parametrize("limit", [5, 50, 1000])
def test_a_failure_is_recorded_whatever_its_size_or_payload(limit: int) -> None:
    class Saga(Reactor):
        work = step(logged([], "work", lambda: Failure("x" * 100_000, payload=object())))
        other = step(logged([], "other", raising(Outage("y" * 100_000)), undo=raising(Outage())))

    with Runtime("memory://", settings=Settings(max_value_bytes=limit)):
        result = Saga.run()
        run = only_run()
        stored = run.result
        assert run.status is RunStatus.FAILED

    assert isinstance(result, Failure)
    assert isinstance(stored, Failure)
    assert stored.error == result.error
    assert result.error.startswith("xxx")
    assert len(result.error) < 50_000


def test_an_undo_whose_message_is_huge_or_no_text_is_listed(diary: list[str]) -> None:
    class Saga(Reactor):
        one = step(logged(diary, "one", undo=lambda: Failure({"code": 1})))  # type: ignore[arg-type]
        two = step(logged(diary, "two", undo=raising(Outage("z" * 100_000)))).after(one)
        broken = step(logged(diary, "broken", raising(Outage()))).after(two)

    with Runtime("memory://", settings=Settings(max_value_bytes=500)):
        result = Saga.run()

    assert isinstance(result, Failure)
    assert [f.step for f in result.rollback_failures] == ["two", "one"]
    assert result.rollback_failures[1].message == "{'code': 1}"
    assert len(result.rollback_failures[0].message) < 50_000


def test_the_output_contract_turns_the_value_into_what_it_says() -> None:
    class Work(Step):
        def run(self) -> Decimal:
            return "1.50"  # type: ignore[return-value]

    class Saga(Reactor):
        work = step(Work)

    assert Saga.run() == Success(Decimal("1.50"))


def test_a_direct_call_gives_results_without_a_run(diary: list[str]) -> None:
    attempts: list[int] = []

    class Work(Step):
        number: int
        retry = THRICE

        def run(self) -> int:
            attempts.append(self.context.attempt)
            if self.number == 0:
                raise Outage("zero")
            if self.number == 1:
                halt("one")
            return self.number

        def undo(self, result: int) -> str:
            diary.append(f"-{result} of {self.number}")
            return "undone"

        def compensate(self, reason: object) -> None:
            diary.append(f"!{reason} of {self.number}")

    assert Work.call(number=2) == Success(2)
    assert Work.call(number=1) == Halt("one")
    failed = Work.call(number=0)
    assert isinstance(failed, Failure)
    assert failed.error == "zero"
    assert attempts == [1, 1, 1]
    invalid = Work.call(number="x")  # type: ignore[arg-type]
    assert isinstance(invalid, Failure)
    assert list(invalid.validation_errors) == ["number"]
    assert Work.call_undo(2, number=2) == Success("undone")
    assert Work.call_compensate("why", number="not validated").ok
    assert diary == ["-2 of 2", "!why of not validated"]
    with pytest.raises(TypeError, match="call"):
        Work(number=1)
    assert list(runs()) == []
