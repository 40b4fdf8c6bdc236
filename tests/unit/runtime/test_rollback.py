"""The rollback rule: what settles, what is compensated, what is undone, in which order."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from calandria import (
    Failure,
    Reactor,
    RecordedFailure,
    RollbackFailure,
    RunStatus,
    Step,
    UndoIncomplete,
    compose,
    element,
    fail,
    inputs,
    map_each,
    runs,
    step,
)
from tests.unit.runtime.constructs import DECLARED, PATHS, called
from tests.unit.runtime.saga import THRICE, TWICE, Outage, async_logged, logged, only_run, raising

pytestmark = pytest.mark.usefixtures("runtime")


def test_completed_steps_are_undone_newest_first(diary: list[str]) -> None:
    class Saga(Reactor):
        a = step(logged(diary, "a"))
        b = step(logged(diary, "b")).after(a)
        c = step(logged(diary, "c")).after(b)
        d = step(logged(diary, "d", raising(Outage()))).after(c)

    Saga.run()

    assert diary == ["+a", "+b", "+c", "+d", "!d", "-c", "-b", "-a"]


def test_the_order_is_that_of_completion_not_of_declaration(diary: list[str]) -> None:
    # Given two steps under way at once, of which the first one declared ends last
    second_done = threading.Event()

    def slow() -> None:
        assert second_done.wait(10)

    class Quick(Step):
        def run(self) -> None:
            pass

        def undo(self, result: object) -> None:
            diary.append("-quick")

    class Saga(Reactor):
        concurrency = 2
        slow_step = step(logged(diary, "slow", slow))
        quick = step(Quick)

        @step
        def open_gate(*, quick: object) -> None:
            second_done.set()

        broken = step(logged(diary, "broken", raising(Outage()))).after(slow_step, open_gate)

    Saga.run()

    assert diary == ["+slow", "+broken", "!broken", "-slow", "-quick"]


def test_everything_in_flight_settles_before_the_rollback_and_late_successes_join_it(
    diary: list[str],
) -> None:
    failed = threading.Event()

    def late() -> str:
        assert failed.wait(10)
        diary.append("late success")
        return "late"

    def broken() -> None:
        failed.set()
        raise Outage

    class Saga(Reactor):
        concurrency = 2
        early = step(logged(diary, "early"))
        late_step = step(logged(diary, "late", late)).after(early)
        broken_step = step(logged(diary, "broken", broken)).after(early)

    result = Saga.run()

    assert isinstance(result, Failure)
    assert diary[-4:] == ["late success", "!broken", "-late", "-early"]


def test_two_failing_at_once_are_both_compensated_before_anything_is_undone(
    diary: list[str],
) -> None:
    both = threading.Barrier(2, timeout=10)

    def body() -> None:
        both.wait()
        raise Outage

    class Saga(Reactor):
        concurrency = 2
        early = step(logged(diary, "early"))
        one = step(logged(diary, "one", body)).after(early)
        two = step(logged(diary, "two", body)).after(early)

    result = Saga.run()

    assert isinstance(result, Failure)
    assert result.step in ("one", "two")
    assert sorted(diary[-3:-1]) == ["!one", "!two"]
    assert diary[-1] == "-early"


def test_a_retry_that_waits_is_dropped_when_another_step_fails(diary: list[str]) -> None:
    from calandria import Retry

    hour = Retry(max_attempts=2, base_delay=3600)
    retrying = threading.Event()

    def flaky() -> None:
        retrying.set()
        raise Outage("flaky")

    def broken() -> None:
        assert retrying.wait(10)
        raise Outage("broken")

    class Saga(Reactor):
        concurrency = 2
        flaky_step = step(logged(diary, "flaky", flaky, retry=hour))
        broken_step = step(logged(diary, "broken", broken))

    result = Saga.run()

    assert isinstance(result, Failure)
    assert sorted(diary) == ["!broken", "!flaky", "+broken", "+flaky"]
    assert only_run().rollback == "complete"


@pytest.mark.parametrize(
    "wiring",
    [{"value": "not a number"}, {"value": inputs.data["missing"]}, {"value": inputs.data["text"]}],
    ids=["invalid", "unresolvable", "wrong type"],
)
def test_what_never_started_is_not_compensated(diary: list[str], wiring: dict[str, Any]) -> None:
    class Strict(Step):
        value: int

        def run(self) -> None:
            diary.append("+strict")

        def compensate(self, reason: object) -> None:
            diary.append("!strict")

    class Saga(Reactor):
        data: dict[str, str]
        first = step(logged(diary, "first"))
        strict = step(Strict, **wiring).after(first)

    result = Saga.run(data={"text": "abc"})

    assert isinstance(result, Failure)
    assert (result.step, result.retryable) == ("strict", False)
    assert diary == ["+first", "-first"]


def test_a_failing_retry_attempt_is_compensated_once_after_the_last(diary: list[str]) -> None:
    class Saga(Reactor):
        work = step(logged(diary, "work", raising(Outage()), retry=THRICE))

    result = Saga.run()

    assert isinstance(result, Failure)
    assert result.attempts == 3
    assert diary == ["+work", "+work", "+work", "!work"]


UNDO_FAILURES = [
    (raising(Outage("stuck")), "raised", "Outage: stuck"),
    (lambda: Failure("stuck"), "returned_failure", "stuck"),
    (lambda: fail("stuck"), "returned_failure", "stuck"),
    (raising(asyncio.CancelledError("stuck")), "raised", "CancelledError: stuck"),
]


@pytest.mark.parametrize(("undo", "reason", "message"), UNDO_FAILURES, ids=range(4))
@pytest.mark.parametrize("maker", [logged, async_logged])
def test_an_undo_that_fails_does_not_stop_the_rest_and_is_listed(
    diary: list[str], maker: Any, undo: Any, reason: str, message: str
) -> None:
    class Saga(Reactor):
        a = step(logged(diary, "a"))
        b = step(maker(diary, "b", undo=undo)).after(a)
        c = step(logged(diary, "c")).after(b)
        d = step(logged(diary, "d", raising(Outage("why")))).after(c)

    result = Saga.run()

    assert isinstance(result, Failure)
    assert diary == ["+a", "+b", "+c", "+d", "!d", "-c", "-b", "-a"]
    assert result.rollback_failures == [RollbackFailure("b", "undo", reason, message=message)]
    run = only_run()
    assert (run.status, run.rollback, run.needs_attention) == ("failed", "incomplete", True)
    assert list(runs(needs_attention=True)) == [run]
    stored = run.result
    assert isinstance(stored, Failure)
    assert stored.rollback_failures == result.rollback_failures


@pytest.mark.parametrize(("compensate", "reason", "message"), UNDO_FAILURES, ids=range(4))
def test_a_compensate_that_fails_does_not_stop_the_undos(
    diary: list[str], compensate: Any, reason: str, message: str
) -> None:
    class Saga(Reactor):
        a = step(logged(diary, "a"))
        b = step(logged(diary, "b", raising(Outage("why")), compensate=compensate)).after(a)

    result = Saga.run()

    assert isinstance(result, Failure)
    assert result.error == "why"
    assert diary == ["+a", "+b", "!b", "-a"]
    assert result.rollback_failures == [RollbackFailure("b", "compensate", reason, message=message)]


def test_skip_and_halt_in_an_undo_or_compensate_are_no_failures(diary: list[str]) -> None:
    from calandria import halt, skip

    class Saga(Reactor):
        a = step(logged(diary, "a", undo=skip))
        b = step(logged(diary, "b", raising(Outage()), compensate=halt)).after(a)

    result = Saga.run()

    assert isinstance(result, Failure)
    assert result.rollback_failures == []


def test_rollback_retry_repeats_only_this_steps_undo_and_compensate(diary: list[str]) -> None:
    left = {"undo": 1, "compensate": 2}

    def flaky(action: str) -> Any:
        def body() -> None:
            left[action] -= 1
            if left[action] >= 0:
                raise Outage(action)

        return body

    class Saga(Reactor):
        a = step(logged(diary, "a", undo=flaky("undo"), rollback_retry=TWICE))
        b = step(
            logged(
                diary,
                "b",
                raising(Outage("why")),
                compensate=flaky("compensate"),
                rollback_retry=THRICE,
            )
        ).after(a)

    result = Saga.run()

    assert isinstance(result, Failure)
    assert result.rollback_failures == []
    assert diary == ["+a", "+b", "!b", "!b", "!b", "-a", "-a"]


def test_rollback_retry_gives_up_at_its_limit_or_when_told_it_is_pointless(
    diary: list[str],
) -> None:
    def pointless() -> None:
        fail("no use", retryable=False)

    class Saga(Reactor):
        a = step(logged(diary, "a", undo=pointless, rollback_retry=THRICE))
        b = step(logged(diary, "b", undo=raising(Outage("x")), rollback_retry=TWICE)).after(a)
        c = step(logged(diary, "c", raising(Outage()))).after(b)

    result = Saga.run()

    assert isinstance(result, Failure)
    assert diary[4:] == ["-b", "-b", "-a"]
    assert [(f.step, f.message) for f in result.rollback_failures] == [
        ("b", "Outage: x"),
        ("a", "no use"),
    ]


@pytest.mark.parametrize("make", DECLARED)
def test_rollback_failures_of_nested_steps_name_path_map_and_element(
    diary: list[str], make: Any
) -> None:
    class Saga(Reactor):
        subject = make(logged(diary, "subject", undo=raising(Outage("stuck"))))
        broken = step(logged(diary, "broken", raising(Outage()))).after(subject)

    result = Saga.run()

    assert isinstance(result, Failure)
    (left,) = result.rollback_failures
    path = PATHS[make]
    assert (left.step, left.kind, left.reason) == (path, "undo", "raised")
    map_step = path.partition("[")[0] if "[" in path else None
    assert left.map_step == map_step
    assert left.element_index == (0 if map_step else None)


@pytest.mark.parametrize("make", [*DECLARED, called])
def test_undo_tries_only_what_is_left_and_then_the_rollback_is_complete(
    diary: list[str], make: Any
) -> None:
    # Given a failed run of which one undo could not be done
    mended = False

    def undo() -> None:
        if not mended:
            raise Outage("stuck")

    class Saga(Reactor):
        first = step(logged(diary, "first"))
        subject = make(logged(diary, "subject", undo=undo)).after(first)
        third = step(logged(diary, "third")).after(subject)
        broken = step(logged(diary, "broken", raising(Outage("why")))).after(third)

    result = Saga.run()
    assert isinstance(result, Failure)
    run = only_run()
    assert run.rollback == "incomplete"
    diary.clear()

    # When it is undone before the cause is mended, only this is tried and it is still left
    with pytest.raises(UndoIncomplete) as caught:
        run.undo()
    assert diary == ["-subject"]
    assert [f.message for f in caught.value.rollback_failures] == ["Outage: stuck"]
    assert "undo again" in str(caught.value)
    assert (run.status, run.rollback) == ("failed", "incomplete")

    # And after, the rollback is complete and the run still failed, with its error
    mended = True
    undone = run.undo()
    assert diary == ["-subject", "-subject"]
    assert (run.status, run.rollback, run.needs_attention) == ("failed", "complete", False)
    assert isinstance(undone, Failure)
    assert undone.error == "why"
    assert undone.rollback_failures == []
    stored = run.result
    assert isinstance(stored, Failure)
    assert (stored.error, stored.step, stored.rollback_failures) == ("why", "broken", [])


@pytest.mark.parametrize("make", DECLARED)
def test_a_compensate_that_failed_is_tried_again_by_undo(diary: list[str], make: Any) -> None:
    mended = False

    def compensate() -> None:
        if not mended:
            raise Outage("stuck")

    class Saga(Reactor):
        first = step(logged(diary, "first"))
        subject = make(
            logged(diary, "subject", raising(Outage("why")), compensate=compensate)
        ).after(first)

    result = Saga.run()
    assert isinstance(result, Failure)
    assert [(f.step, f.kind) for f in result.rollback_failures] == [(PATHS[make], "compensate")]
    assert diary == ["+first", "+subject", "!subject", "-first"]

    mended = True
    only_run().undo()

    assert diary[4:] == ["!subject"]
    assert only_run().rollback == "complete"


def test_an_incomplete_undo_of_a_completed_run_is_cancelled_and_lists_what_is_left(
    diary: list[str],
) -> None:
    mended = False

    def undo() -> None:
        if not mended:
            raise Outage("stuck")

    class Saga(Reactor):
        first = step(logged(diary, "first", undo=undo))
        second = step(logged(diary, "second")).after(first)

    Saga.run()
    run = only_run()
    with pytest.raises(UndoIncomplete):
        run.undo()

    assert (run.status, run.rollback) == (RunStatus.CANCELLED, "incomplete")
    result = run.result
    assert isinstance(result, Failure)
    assert (result.error, result.exception_class) == ("Undo triggered", "Cancelled")
    assert [f.step for f in result.rollback_failures] == ["first"]

    mended = True
    run.undo()
    assert diary == ["+first", "+second", "-second", "-first", "-first"]
    assert run.rollback == "complete"
    result = run.result
    assert isinstance(result, Failure)
    assert result.rollback_failures == []


def test_compensate_is_told_the_exception_itself_or_the_message(diary: list[str]) -> None:
    told: list[object] = []
    error = Outage("the exception")

    def reporting(body: Any) -> type[Step]:
        class Reporting(Step):
            def run(self) -> Any:
                return body()

            def compensate(self, reason: object) -> None:
                told.append(reason)

        return Reporting

    bodies = [
        raising(error),
        lambda: Failure("a message"),
        lambda: fail("of a signal"),
        lambda: fail(error),
        lambda: Failure({"code": 7}),  # type: ignore[arg-type]
    ]
    for body in bodies:

        class Saga(Reactor):
            work = step(reporting(body))

        assert isinstance(Saga.run(), Failure)

    assert told == [error, "a message", "of a signal", error, "{'code': 7}"]


def test_after_a_reload_the_reason_is_a_recorded_failure(diary: list[str]) -> None:
    told: list[object] = []

    class Reporting(Step):
        def run(self) -> None:
            raise Outage("the message")

        def compensate(self, reason: object) -> None:
            told.append(reason)
            if len(told) == 1:
                raise KeyboardInterrupt

    class Saga(Reactor):
        work = step(Reporting)

    with pytest.raises(KeyboardInterrupt):
        Saga.run()
    only_run().undo()

    reloaded = told[1]
    assert isinstance(reloaded, RecordedFailure)
    assert (str(reloaded), reloaded.original_class) == ("the message", "Outage")


def test_the_failure_of_a_composed_reactor_is_that_of_its_step(diary: list[str]) -> None:
    class Inner(Reactor):
        a = step(logged(diary, "a"))
        b = step(logged(diary, "b", raising(Outage("why")))).after(a)

    class Outer(Reactor):
        before = step(logged(diary, "before"))
        inner = compose(Inner).after(before)

    result = Outer.run()

    assert isinstance(result, Failure)
    assert (result.error, result.reactor, result.step) == ("why", result.reactor, "inner/b")
    assert result.reactor is not None
    assert result.reactor.endswith("Inner")
    assert diary == ["+before", "+a", "+b", "!b", "-a", "-before"]


def test_the_undo_of_a_compose_replays_the_childs_undos_newest_first(diary: list[str]) -> None:
    class Inner(Reactor):
        a = step(logged(diary, "a"))
        b = step(logged(diary, "b")).after(a)

    class Outer(Reactor):
        inner = compose(Inner)
        later = step(logged(diary, "later", raising(Outage()))).after(inner)

    Outer.run()

    assert diary == ["+a", "+b", "+later", "!later", "-b", "-a"]


def test_undo_and_compensate_see_the_validated_inputs_and_never_validate(
    diary: list[str],
) -> None:
    class Typed(Step):
        number: int
        text: str = "default"

        def run(self) -> None:
            if self.number == 2:
                raise Outage

        def compensate(self, reason: object) -> None:
            diary.append(f"!{self.number!r} {self.text}")

        def undo(self, result: object) -> None:
            diary.append(f"-{self.number!r} {self.text}")

    class Saga(Reactor):
        numbers: list[str]
        work = map_each(Typed, over=inputs.numbers, number=element)

    Saga.run(numbers=["1", "2"])

    assert diary == ["!2 default", "-1 default"]
