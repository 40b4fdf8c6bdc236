"""What no other process could import is not dispatched, unless this process performs it."""

from __future__ import annotations

import sys
import types
from typing import Any

import pytest

from calandria import (
    CalandriaError,
    Dispatched,
    Failure,
    Reactor,
    Runtime,
    Success,
    after,
    before,
    compose,
    map_each,
    runs,
    spawn,
    step,
)
from calandria.definition.context import StepContext
from tests.unit.background import reactors
from tests.unit.background.helping import result_of, run_of

on_file = pytest.mark.parametrize("storage", ["file"], indirect=True)
"""In memory no other process could perform a job, so nothing needs to be importable."""


def local(point: str) -> type[Reactor]:
    """Return a reactor that only its caller can reach, handed over in one way or another."""

    class Work(Reactor):
        first = step(reactors.Note)
        second = step(reactors.Note).after(first)

    class Background(Work):
        background = True

    class After(Work):
        background = after(Work.first)

    class Before(Work):
        background = before(Work.second)

    class SpawnsStep(Reactor):
        unit = spawn(reactors.Note)
        done = step(reactors.Note)

    class SpawnsReactor(Reactor):
        unit = spawn(Work)
        done = step(reactors.Note)

    class Composes(Reactor):
        inner = compose(SpawnsStep)

    class Maps(Reactor):
        inner = map_each(SpawnsStep, over=[1])

    made = (Background, After, Before, SpawnsStep, SpawnsReactor, Composes, Maps)
    return {each.__name__: each for each in made}[point]


POINTS = ["Background", "After", "Before", "SpawnsStep", "SpawnsReactor", "Composes", "Maps"]


@pytest.mark.parametrize("point", POINTS)
@on_file
def test_a_local_reactor_is_refused_before_anything_is_recorded(
    runtime: Runtime, notes: list[str], point: str
) -> None:
    reactor = local(point)
    with pytest.raises(CalandriaError, match=r"cannot be dispatched.*start_worker"):
        reactor.options(idempotency_key="k").run()
    assert (list(runs()), notes) == ([], [])


@pytest.mark.parametrize("point", POINTS)
def test_a_local_reactor_is_dispatched_to_a_worker_of_this_process(
    runtime: Runtime, notes: list[str], point: str
) -> None:
    runtime.start_worker(1)
    result = local(point).run()
    if isinstance(result, Dispatched):
        result = result_of(runtime, result)
    assert result.ok


@pytest.mark.parametrize("point", POINTS)
def test_a_local_reactor_is_performed_at_once(storage: str, notes: list[str], point: str) -> None:
    with Runtime(storage, jobs="immediate") as runtime:
        result = local(point).run()
        if isinstance(result, Dispatched):
            result = runtime.find(result.run_id).result  # type: ignore[assignment]
        assert result.ok


@on_file
def test_a_reactor_of_the_main_module_is_refused(runtime: Runtime) -> None:
    class Script(reactors.Whole):
        pass

    Script.__module__, Script.__qualname__ = "__main__", "Script"
    with pytest.raises(CalandriaError, match="__main__:Script cannot be dispatched"):
        Script.run()


def test_what_a_modules_own_function_makes_is_importable(
    runtime: Runtime, notes: list[str]
) -> None:
    class Made(reactors.Whole):
        pass

    module: Any = types.ModuleType("shop_of_these_tests")
    module.Checkout = Made
    Made.__module__ = module.__name__
    sys.modules[module.__name__] = module
    try:
        assert isinstance(Made.run(), Dispatched)
    finally:
        del sys.modules[module.__name__]


@on_file
def test_an_importable_reactor_that_spawns_a_local_one_is_refused(runtime: Runtime) -> None:
    class Local(Reactor):
        work = step(reactors.Note)

    class Importable(Reactor):
        unit = spawn(Local)
        done = step(reactors.Note)

    Importable.__qualname__ = Importable.__name__
    Importable.__module__ = reactors.__name__
    reactors.Importable = Importable  # type: ignore[attr-defined]
    try:
        with pytest.raises(CalandriaError, match="Local cannot be dispatched"):
            Importable.run()
    finally:
        del reactors.Importable  # type: ignore[attr-defined]


@on_file
def test_nested_work_that_would_spawn_a_local_unit_fails_its_step(
    runtime: Runtime, notes: list[str]
) -> None:
    inner = local("SpawnsStep")

    class Outer(Reactor):
        @step
        def work(context: StepContext) -> Any:
            found = context.run(inner)
            assert isinstance(found, Failure)
            return str(found.error)

    result = Outer.run()
    assert isinstance(result, Success) and "cannot be dispatched" in result.value
    (run,) = runs()
    assert list(run.children) == []


@pytest.mark.parametrize("storage", ["memory"], indirect=True)
def test_in_memory_a_local_reactor_waits_for_a_worker_of_this_process(
    runtime: Runtime, notes: list[str]
) -> None:
    class Local(Reactor):
        background = True

        @step
        def work(*, context: StepContext) -> None:
            notes.append("worked")

    run = run_of(runtime, Local.run())
    runtime.start_worker(1)
    assert run.wait(10) == Success(None)
    assert notes == ["worked"]
