"""Middleware: each hook once, in order, about what was committed; its errors disturb nothing."""

from __future__ import annotations

import asyncio
import inspect
import logging
from typing import Any

import pytest

from calandria import (
    Failure,
    Middleware,
    Reactor,
    RollbackFailure,
    RunInfo,
    Runtime,
    StepInfo,
    compose,
    halt,
    map_each,
    skip,
    step,
)
from tests.unit.runtime.saga import TWICE, Outage, logged, only_run, raising

HOOKS = [name for name, _ in inspect.getmembers(Middleware, inspect.isfunction) if name[0] != "_"]


class Recorder(Middleware):
    """Notes every call of every hook in `heard`."""

    made = 0
    heard: list[tuple[Any, ...]] = []

    def __init__(self) -> None:
        Recorder.made += 1


def _recording(name: str) -> Any:
    def hook(self: Recorder, about: Any, *arguments: Any) -> None:
        where = about.path if isinstance(about, StepInfo) else "run"
        Recorder.heard.append((name, where, about, *arguments))

    return hook


for _name in HOOKS:
    setattr(Recorder, _name, _recording(_name))


@pytest.fixture(autouse=True)
def fresh() -> Any:
    Recorder.heard, Recorder.made = [], 0
    with Runtime("memory://", middleware=[Recorder]) as runtime:
        yield runtime


def heard() -> list[str]:
    return [f"{name} {where}" for name, where, *_ in Recorder.heard]


def arguments_of(name: str) -> Any:
    (found,) = [entry for entry in Recorder.heard if entry[0] == name]
    return found[2:]


@pytest.mark.parametrize("how", ["run", "arun"])
def test_the_hooks_of_a_run_that_completes(how: str) -> None:
    class Saga(Reactor):
        number: int
        one = step(logged([], "one"))
        two = step(logged([], "two")).after(one)

    if how == "run":
        Saga.run(number=1)
    else:
        asyncio.run(Saga.arun(number=1))

    assert heard() == [
        "lease_taken run",
        "run_started run",
        "step_started one",
        "step_completed one",
        "step_started two",
        "step_completed two",
        "run_completed run",
        "lease_released run",
    ]
    info, value = arguments_of("run_completed")
    assert value == "two"
    run_id = only_run().id
    assert info == RunInfo(run_id, run_id, Saga.definition().name, {"number": 1}, 1, False)


def test_the_hooks_of_a_run_that_fails_and_rolls_back() -> None:
    class Saga(Reactor):
        one = step(logged([], "one", undo=raising(Outage("stuck"))))
        two = step(logged([], "two")).after(one)
        three = step(logged([], "three", raising(Outage("why")), retry=TWICE)).after(two)

    Saga.run()

    assert heard()[6:] == [
        "step_started three",
        "step_retried three",
        "step_started three",
        "step_failed three",
        "compensation_started three",
        "compensation_completed three",
        "undo_started two",
        "undo_completed two",
        "undo_started one",
        "undo_failed one",
        "run_failed run",
        "lease_released run",
    ]
    info, failure, delay = arguments_of("step_retried")
    assert (info.path, info.attempt, failure.error, delay) == ("three", 1, "why", 0.0)
    info, failure = arguments_of("step_failed")
    assert (info.attempt, failure.step, failure.attempts) == (2, "three", 2)
    assert info.seconds >= 0
    _, left = arguments_of("undo_failed")
    assert left == RollbackFailure("one", "undo", "raised", message="Outage: stuck")
    _, failure = arguments_of("run_failed")
    assert isinstance(failure, Failure)
    assert failure.rollback_failures == [left]


def test_the_hooks_of_skips_halts_and_failing_compensates() -> None:
    class Halting(Reactor):
        one = step(logged([], "one", skip))
        two = step(logged([], "two")).when(lambda: False).after(one)
        three = step(logged([], "three", lambda: halt("enough"))).after(two)

    Halting.run()
    assert heard()[2:] == [
        "step_started one",
        "step_skipped one",
        "step_skipped two",
        "step_started three",
        "step_halted three",
        "run_halted run",
        "lease_released run",
    ]
    assert arguments_of("step_halted")[1] == arguments_of("run_halted")[1] == "enough"

    Recorder.heard = []

    class Broken(Reactor):
        one = step(logged([], "one", raising(Outage()), compensate=raising(Outage("stuck"))))

    Broken.run()
    assert heard()[3:] == [
        "step_failed one",
        "compensation_started one",
        "compensation_failed one",
        "run_failed run",
        "lease_released run",
    ]


def test_the_hooks_of_composes_and_maps() -> None:
    class Inner(Reactor):
        work = step(logged([], "work"))

    class Saga(Reactor):
        inner = compose(Inner)
        each = map_each(logged([], "x"), over=[0]).after(inner)
        broken = step(logged([], "broken", raising(Outage()))).after(each)

    Saga.run()

    assert heard()[2:] == [
        "step_started inner",
        "step_started inner/work",
        "step_completed inner/work",
        "step_completed inner",
        "step_started each",
        "step_started each[0]",
        "step_completed each[0]",
        "step_completed each",
        "step_started broken",
        "step_failed broken",
        "compensation_started broken",
        "compensation_completed broken",
        "undo_started each",
        "undo_started each[0]",
        "undo_completed each[0]",
        "undo_completed each",
        "undo_started inner",
        "undo_started inner/work",
        "undo_completed inner/work",
        "undo_completed inner",
        "run_failed run",
        "lease_released run",
    ]


@pytest.mark.parametrize("fails", [True, False])
def test_the_hooks_around_undo_all(fails: bool) -> None:
    def undo_all(results: Any) -> None:
        if fails:
            raise Outage("stuck")

    class Saga(Reactor):
        each = map_each(logged([], "x"), over=[0, 1]).undo_all(undo_all)

    Saga.run()
    Recorder.heard = []
    run = only_run()
    if fails:
        with pytest.raises(Exception, match="stuck"):
            run.undo()
    else:
        run.undo()

    about_undo = [entry for entry in heard() if entry.startswith("undo")]
    assert about_undo[0] == "undo_started each"
    assert ("undo_failed each" in about_undo) is fails
    assert ("undo_completed each" in about_undo) is not fails


def test_a_run_taken_up_says_so_with_its_epoch() -> None:
    class Saga(Reactor):
        one = step(logged([], "one"))

    Saga.run()
    Recorder.heard = []
    only_run().undo()

    assert heard()[:2] == ["lease_taken run", "run_started run"]
    info = Recorder.heard[0][2]
    assert (info.epoch, info.taken_up) == (2, True)
    assert heard()[-2:] == ["run_cancelled run", "lease_released run"]
    assert arguments_of("run_cancelled")[1] == "Undo triggered"


def test_an_aborted_run_tells_what_interrupted_it() -> None:
    cut = SystemExit("cut")

    class Saga(Reactor):
        one = step(logged([], "one", raising(cut)))

    with pytest.raises(SystemExit):
        Saga.run()

    assert heard()[-2:] == ["run_aborted run", "lease_released run"]
    assert arguments_of("run_aborted")[1] is cut


def test_errors_in_hooks_are_logged_and_disturb_nothing(
    caplog: pytest.LogCaptureFixture, diary: list[str]
) -> None:
    class Broken(Middleware):
        pass

    def explode(*_: object) -> None:
        raise RuntimeError("in the hook")

    for name in HOOKS:
        setattr(Broken, name, explode)

    def cannot_be_made() -> Middleware:
        raise RuntimeError("in the making")

    class Saga(Reactor):
        middleware = [Broken, cannot_be_made]
        one = step(logged(diary, "one"))
        two = step(logged(diary, "two", raising(Outage()))).after(one)

    with caplog.at_level(logging.ERROR, logger="calandria.middleware"):
        result = Saga.run()

    assert isinstance(result, Failure)
    assert diary == ["+one", "+two", "!two", "-one"]
    assert "run_failed run" in heard()
    assert "in the hook" in caplog.text
    assert "in the making" in caplog.text
    assert "hook=step_started" in caplog.text


def test_middleware_is_made_afresh_for_each_execution_global_ones_first() -> None:
    order: list[str] = []

    class Own(Middleware):
        def __init__(self) -> None:
            self.steps: list[str] = []

        def step_completed(self, step: StepInfo, value: Any) -> None:
            self.steps.append(step.path)
            order.append(f"own {self.steps}")

    class Saga(Reactor):
        middleware = [Own]
        one = step(logged([], "one"))

    class Other(Reactor):
        one = step(logged([], "one"))

    Saga.run()
    Saga.run()
    Other.run()

    assert Recorder.made == 3
    assert order == ["own ['one']"] * 2


def test_a_hook_hears_only_of_what_is_committed() -> None:
    seen: list[tuple[str, Any]] = []

    class Reader(Middleware):
        def step_started(self, step: StepInfo) -> None:
            seen.append(("started", [view.status.value for view in only_run().steps()]))

        def step_completed(self, step: StepInfo, value: Any) -> None:
            seen.append(("completed", [view.status.value for view in only_run().steps()]))

        def run_completed(self, run: RunInfo, value: Any) -> None:
            seen.append(("run", only_run().status.value))

    class Saga(Reactor):
        middleware = [Reader]
        one = step(logged([], "one"))

    Saga.run()

    assert seen == [("started", ["started"]), ("completed", ["completed"]), ("run", "completed")]


def test_elements_of_a_map_are_told_by_path() -> None:
    class Saga(Reactor):
        each = map_each(logged([], "x"), over=range(3)).keep_going()
        named = map_each(logged([], "y"), over=[0]).after(each)

    Saga.run()

    started = [where for name, where, *_ in Recorder.heard if name == "step_started"]
    assert started == ["each", "each[0]", "each[1]", "each[2]", "named", "named[0]"]
