"""FR-022, SC-007: what would wait for its parent is not dispatched; positions are taken then."""

from __future__ import annotations

from typing import Any

import pytest

from calandria import (
    Lock,
    OrderedLock,
    Reactor,
    Runtime,
    Semaphore,
    Step,
    Success,
    compose,
    map_each,
    spawn,
    step,
)
from tests.unit.coordination.helping import (
    failure,
    held_keys,
    locked,
    result_of,
    store_of,
)


class Unit(Step):
    key: str = "k"
    coordination = [Lock("{key}")]

    def run(self) -> str:
        return "unit"


class Whole(Reactor):
    key: str = "k"
    coordination = [Lock("{key}")]

    @step
    def only() -> str:
        return "whole"


def nothing() -> str:
    return "done"


@pytest.mark.parametrize("unit", [Unit, Whole])
@pytest.mark.parametrize("reads", [True, False])
def test_fr_022_and_sc_007_a_held_lock_is_not_handed_off(
    runtime: Runtime, diary: list[str], unit: Any, reads: bool
) -> None:
    class Parent(Reactor):
        coordination = [Lock("k")]
        first = step(locked(diary, "a"))
        unit_ = spawn(unit).after(first)

        @step
        def last(*, unit_: Any = None) -> str:
            return "read"

    class Heedless(Reactor):
        coordination = [Lock("k")]
        first = step(locked(diary, "a"))
        unit_ = spawn(unit).after(first)
        last = step(nothing).after(unit_)

    found = failure((Parent if reads else Heedless).run())
    assert found.exception_class == "HandOffRefused" and found.step == "unit_"
    assert "'k'" in found.error and "its reactor" in found.error and "compose" in found.error
    assert diary == ["+a", "-a"]
    assert found.run_id is not None and list(runtime.find(found.run_id).children) == []
    assert held_keys(runtime) == []


def test_another_key_is_handed_off(runtime: Runtime) -> None:
    class Parent(Reactor):
        coordination = [Lock("k")]
        unit = spawn(Unit, key="other")

        @step
        def last(*, unit: Any) -> Any:
            return unit

    runtime.start_worker(1)
    assert Parent.run() == Success("unit")


def test_a_semaphore_is_refused_only_where_it_would_be_waited_for(runtime: Runtime) -> None:
    class Place(Step):
        coordination = [Semaphore("s", limit=2)]

        def run(self) -> str:
            return "unit"

    class Reads(Reactor):
        coordination = [Semaphore("s", limit=2)]
        unit = spawn(Place)

        @step
        def last(*, unit: Any) -> Any:
            return unit

    class Goes(Reactor):
        coordination = [Semaphore("s", limit=2)]
        unit = spawn(Place)
        last = step(nothing).after(unit)

    assert failure(Reads.run()).exception_class == "HandOffRefused"
    assert Goes.run() == Success("done")


def test_a_turn_that_would_be_waited_for_is_refused(runtime: Runtime) -> None:
    class Next(Reactor):
        coordination = [OrderedLock("o")]
        only = step(nothing)

    class Reads(Reactor):
        coordination = [OrderedLock("o")]
        unit = spawn(Next)

        @step
        def last(*, unit: Any) -> Any:
            return unit

    found = failure(Reads.run())
    assert found.exception_class == "HandOffRefused" and "'o'" in found.error


def test_a_spawned_reactors_position_is_taken_at_dispatch(runtime: Runtime) -> None:
    """semantics 9: ordered position taken at dispatch, in the commit that dispatches it."""

    class Next(Reactor):
        coordination = [OrderedLock("o")]
        only = step(nothing)

    class Parent(Reactor):
        first = spawn(Next)
        second = spawn(Next)
        last = step(nothing).after(first, second)

    result = Parent.run()
    assert result.run_id is not None
    children = list(runtime.find(result.run_id).children)
    positions = store_of(runtime).sequence("o")
    assert [one.position for one in positions] == [1, 2]
    assert {one.execution for one in positions} == {child.id for child in children}
    runtime.start_worker(2)
    assert [child.wait(20) for child in children] == [Success("done")] * 2
    assert store_of(runtime).sequence("o") == []


def test_fr_010_and_us4_5_a_unit_takes_its_key_in_its_own_job(
    runtime: Runtime, diary: list[str]
) -> None:
    """FR-010: never held in a process that only dispatches."""

    class Parent(Reactor):
        unit = spawn(Unit)
        last = step(locked(diary, "a")).after(unit)

    result = Parent.run()
    assert held_keys(runtime) == []
    runtime.start_worker(1)
    assert result.run_id is not None
    (child,) = runtime.find(result.run_id).children
    assert child.wait(20) == Success("unit")
    assert held_keys(runtime) == []


# re-entrancy


class Deep(Step):
    coordination = [Lock("k")]

    def run(self) -> Any:
        return sorted({hold.path for hold in self.context.holds})


class Inner(Reactor):
    coordination = [Lock("k")]
    deep = step(Deep)


class Calls(Step):
    coordination = [Lock("k")]

    def run(self) -> Any:
        called = self.context.call(Deep)
        ran = self.context.run(Inner)
        assert isinstance(called, Success) and isinstance(ran, Success)
        return [called.value, ran.value]


class AsyncCalls(Step):
    coordination = [Lock("k")]

    async def run(self) -> Any:
        called = await self.context.acall(Deep)
        ran = await self.context.arun(Inner)
        assert isinstance(called, Success) and isinstance(ran, Success)
        return [called.value, ran.value]


class Outer(Reactor):
    coordination = [Lock("k")]
    calls = step(Calls)
    acalls = step(AsyncCalls)
    whole = compose(Inner)
    each = map_each(Deep, over=[1, 2])
    reactors = map_each(Inner, over=[1])

    @step
    def all(*, calls: Any, acalls: Any, whole: Any, each: Any, reactors: Any) -> Any:
        return [calls, acalls, whole, list(each), list(reactors)]


@pytest.mark.parametrize("worker", [False, True])
def test_fr_019_fr_020_and_sc_006_re_entry_at_any_depth(runtime: Runtime, worker: bool) -> None:
    """FR-019, FR-020, SC-006: no execution waits for itself, however deep its work is nested."""
    if worker:

        class Background(Outer):
            background = True

        runtime.start_worker(1)
        result = result_of(runtime, Background.run())
    else:
        result = Outer.run()
    assert isinstance(result, Success), result
    calls, acalls, whole, each, reactors = result.value
    assert calls == [
        ["", "calls", "calls/~1:" + _name(Deep)],
        ["", "calls", "calls/~2:" + _name(Inner), "calls/~2:" + _name(Inner) + "/deep"],
    ]
    assert len(acalls) == 2
    assert whole == ["", "whole", "whole/deep"]
    assert each == [["", "each[0]"], ["", "each[1]"]]
    assert reactors == [["", "reactors[0]", "reactors[0]/deep"]]
    assert held_keys(runtime) == []


def _name(target: type) -> str:
    return f"{target.__module__}:{target.__qualname__}"


def test_fr_020_and_fr_021_the_key_is_free_when_the_outermost_lets_go(runtime: Runtime) -> None:
    """FR-020, FR-021: inner releases free nothing; what a run holds is seen as a whole."""
    seen: list[Any] = []

    class Holder(Reactor):
        coordination = [Lock("k")]
        inner = step(Deep)

        @step
        def look(*, inner: Any, context: Any) -> None:
            run = runtime.find(context.run_id)
            seen.append([(hold.key, hold.path) for hold in run.holds])

    assert Holder.run().ok
    assert seen == [[("k", "")]]
    assert held_keys(runtime) == []


def test_two_steps_of_one_reactor_may_share_a_key(runtime: Runtime, diary: list[str]) -> None:
    class Wired(Reactor):
        first = step(Deep)
        second = step(Deep).after(first)

    assert Wired.run() == Success(["second"])


def test_a_step_re_enters_its_own_reactors_sequence(runtime: Runtime) -> None:
    """Two declarations that could never both be had, if a run waited for itself."""

    class Turn(Step):
        coordination = [OrderedLock("o")]

        def run(self) -> str:
            return "done"

    class Wired(Reactor):
        coordination = [OrderedLock("o")]
        only = step(Turn)

    assert Wired.run() == Success("done")
    assert store_of(runtime).sequence("o") == []
