"""Crowds of threads, threads that outlive their step, odd names, and great depth and length."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from calandria import (
    CalandriaError,
    Failure,
    Reactor,
    RunStatus,
    StaleLease,
    Step,
    Success,
    compose,
    element,
    fail,
    inputs,
    map_each,
    runs,
    step,
)
from tests.crash.acting import Around, Chain, Deeds, Plain, Site, fail_here
from tests.crash.steplog import logged


@pytest.fixture
def site(tmp_path: Path) -> Site:
    Deeds.by_path, Deeds.who = {}, "first"
    return Site(tmp_path)


def test_fifty_threads_run_at_once(site: Site) -> None:
    results: list[object] = []
    with site.runtime() as runtime:

        def run_some() -> None:
            for number in range(6):
                reactor: Any = Around if number % 2 else Chain
                results.append(reactor.options(runtime=runtime).run())

        threads = [threading.Thread(target=run_some) for _ in range(50)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert results == [Success("first")] * 300
        assert sum(1 for run in runs() if run.status is RunStatus.COMPLETED) == 300
    by_run = {line.run for line in site.log()}
    assert len(by_run) == 300
    begun = [(line.run, line.path) for line in site.log() if line.what == "begin"]
    assert len(begun) == len(set(begun))


class Straggling(Step):
    """Starts a thread that does nested work when it is told to, and does not wait for it."""

    def run(self) -> str:
        context = self.context

        def work() -> None:
            Stragglers.go.wait(30)
            try:
                context.call(Plain, name="late")
            except BaseException as error:
                Stragglers.raised = error
            finally:
                Stragglers.over.set()

        threading.Thread(target=work).start()
        return "did not wait"


class Stragglers:
    go = threading.Event()
    over = threading.Event()
    raised: BaseException | None = None


class Releasing(Step):
    """Lets the straggler go, and waits until it has."""

    needs: str

    def run(self) -> str:
        Stragglers.go.set()
        assert Stragglers.over.wait(30)
        return self.needs


class LeftBehind(Reactor):
    first = step(Straggling)
    second = step(Releasing, needs=first)


class LeftBehindWhole(Reactor):
    first = step(Straggling)


def _straggle() -> None:
    Stragglers.go, Stragglers.over, Stragglers.raised = threading.Event(), threading.Event(), None


def test_a_thread_that_outlives_its_step_does_no_more_nested_work(site: Site) -> None:
    _straggle()
    with site.runtime():
        assert LeftBehind.run() == Success("did not wait")
        (run,) = runs()
        assert list(run.steps("first")) == []
    assert isinstance(Stragglers.raised, CalandriaError)
    assert "first: the step has ended" in str(Stragglers.raised)
    assert site.log() == []


def test_a_thread_that_outlives_its_run_writes_nothing(site: Site) -> None:
    _straggle()
    with site.runtime():
        assert LeftBehindWhole.run() == Success("did not wait")
        (run,) = runs()
        before = [*run.trace]
        Stragglers.go.set()
        assert Stragglers.over.wait(30)
        assert [*run.trace] == before
    assert isinstance(Stragglers.raised, CalandriaError)


class Lingering(Step):
    """Is in the middle of nested work in another thread when its own body returns."""

    def run(self) -> str:
        context = self.context

        def work() -> None:
            try:
                context.call(Waiting)
            except BaseException as error:
                Stragglers.raised = error
            finally:
                Stragglers.over.set()

        threading.Thread(target=work).start()
        assert Waiting.inside.wait(30)
        return "did not wait"


class Waiting(Step):
    inside = threading.Event()  # type: ignore[misc]

    def run(self) -> str:
        Waiting.inside.set()
        Stragglers.go.wait(30)
        return "late"


class LingeringReactor(Reactor):
    first = step(Lingering)


def test_nested_work_under_way_when_the_run_ends_is_not_recorded(site: Site) -> None:
    _straggle()
    with site.runtime():
        assert LingeringReactor.run() == Success("did not wait")
        (run,) = runs()
        assert run.status is RunStatus.COMPLETED
        before, updated = [*run.trace], run.updated_at
        Stragglers.go.set()
        assert Stragglers.over.wait(30)
        assert ([*run.trace], run.updated_at) == (before, updated)
    assert isinstance(Stragglers.raised, StaleLease)
    assert "has ended" in str(Stragglers.raised)


ODD_NAMES = ["ü", "名前", "数", "x" * 4000, "_1", "straße"]


def _plain_steps(names: list[str]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    before: Any = None
    for name in names:
        members[name] = (
            step(Plain, name="") if before is None else step(Plain, name="").after(before)
        )
        before = members[name]
    return members


def test_odd_step_names(site: Site) -> None:
    odd: Any = type("Odd", (Reactor,), {"__module__": __name__, **_plain_steps(ODD_NAMES)})
    Deeds.by_path = {("run", ODD_NAMES[-1]): fail_here}
    with site.runtime():
        result = odd.run()
        assert isinstance(result, Failure) and result.step == ODD_NAMES[-1]
        (run,) = runs()
        assert [view.path for view in run.steps()] == ODD_NAMES
    assert site.ended("undo") == ODD_NAMES[-2::-1]


@pytest.mark.parametrize("name", ["a/b", "c[7]", "~1:x", "😀", "a:b", "<locals>", "", " ", "e]"])
def test_odd_class_names_of_nested_work(site: Site, name: str) -> None:
    nested: Any = type(name or "Plain", (Plain,), {"__module__": __name__, "__qualname__": name})

    class Doing(Step):
        def run(self) -> str:
            with logged(self.context, "run"):
                assert self.context.call(nested, name="x").ok
                assert self.context.call(nested, name="y").ok
                return "done"

    class Odd(Reactor):
        do = step(Doing)
        then = step(Plain, name="").after(do)

    Deeds.by_path = {("run", "then"): fail_here}
    with site.runtime():
        result = Odd.run()
        assert isinstance(result, Failure) and result.rollback_failures == [], result
        (run,) = runs()
        assert len(list(run.steps("do"))) == 2
        assert "then" in run.draw("text")
    assert [path.partition(":")[0] for path in site.ended("undo")] == ["do/~2", "do/~1"]


def _long(count: int) -> Any:
    members: dict[str, Any] = {f"s{number}": step(Plain, name="") for number in range(count)}
    return type(f"Long{count}", (Reactor,), {"__module__": __name__, **members})


def _run_long(site: Site, count: int) -> None:
    last = f"s{count - 1}"
    Deeds.by_path = {("run", last): fail_here}
    with site.runtime():
        result = _long(count).run()
        assert isinstance(result, Failure) and result.step == last
        assert result.rollback_failures == []
    assert site.ended("undo") == [f"s{number}" for number in reversed(range(count - 1))]


def test_a_reactor_of_five_hundred_steps(site: Site) -> None:
    _run_long(site, 500)


@pytest.mark.slow
def test_a_reactor_of_ten_thousand_steps(site: Site) -> None:
    _run_long(site, 10_000)


def _deep(levels: int) -> Any:
    reactor: Any = type("Deep0", (Reactor,), {"__module__": __name__, "leaf": step(Plain, name="")})
    for number in range(1, levels):
        members = {"own": step(Plain, name=""), "__module__": __name__}
        members["down"] = compose(reactor).after(members["own"])
        reactor = type(f"Deep{number}", (Reactor,), members)
    return reactor


def test_fifty_levels_of_compose(site: Site) -> None:
    deep = _deep(50)
    with site.runtime():
        assert deep.run() == Success("first")
        (run,) = runs()
        run.undo()
        assert run.rollback.value == "complete"
    assert len(site.ended("run")) == 50
    assert site.ended("undo") == site.ended("run")[::-1]


class Digging(Step):
    """Does the same one level further down."""

    depth: int

    def run(self) -> int:
        if self.depth == 0:
            return 0
        match self.context.call(Digging, depth=self.depth - 1):
            case Success(value):
                return value + 1
            case Failure(error):
                fail(error)
            case other:
                raise AssertionError(other)

    def undo(self, result: int) -> None:
        Undone.depths.append(result)


class Undone:
    depths: list[int] = []


class Dig(Reactor):
    depth: int

    dig = step(Digging)


def test_deep_nested_work(site: Site) -> None:
    Undone.depths = []
    with site.runtime():
        assert Dig.run(depth=15) == Success(15)
        (run,) = runs()
        run.undo()
    assert Undone.depths == list(range(15, -1, -1))


def test_nested_work_deeper_than_the_stack_fails_and_is_rolled_back(site: Site) -> None:
    Undone.depths = []
    with site.runtime():
        result = Dig.run(depth=sys.getrecursionlimit() // 8)
        assert isinstance(result, Failure) and "recursion" in result.error
        (run,) = runs()
        assert run.status is RunStatus.FAILED and run.lease_owner is None


class Wide(Reactor):
    names: list[str]

    each = map_each(Plain, over=inputs.names, name=element)
    last = step(Plain, name="").after(each)


def test_a_map_of_more_elements_than_a_page(site: Site) -> None:
    Deeds.by_path = {("run", "last"): fail_here}
    with site.runtime():
        result = Wide.run(names=["x"] * 1100)
        assert isinstance(result, Failure) and result.rollback_failures == []
    assert site.ended("undo") == [f"each[{number}]" for number in reversed(range(1100))]
