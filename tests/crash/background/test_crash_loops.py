"""What kills its worker each time is given up and rolled back, and other work goes on meanwhile."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from calandria import Failure, Reactor, Success, compose, element, map_each, step
from tests.crash.background.deeds import Act, Acting
from tests.crash.background.reactors import Chain, Elements, Fails, ReadsUnit, SpawnsReactor
from tests.crash.background.workshop import Workshop, active, end, poll
from tests.crash.children import Child, alone

LIMIT = 2
PATIENCE_SECONDS = 30.0


def die(context: Any) -> None:
    os._exit(9)


class Deadly:
    """Functions of a definition that kill a worker."""

    where = ""

    @classmethod
    def at(cls, where: str, value: Any) -> Any:
        if cls.where == where:
            os._exit(9)
        return value


class Condition(Reactor):
    background = True

    a = step(Act, script="")
    b = step(Act, script="").after(a).when(lambda given: Deadly.at("condition", True))
    c = step(Act, script="").after(b)


class Transform(Reactor):
    background = True

    a = step(Act, script="")
    b = step(Act, script="", needs=a.map(lambda value: Deadly.at("transform", value)))


class Source(Reactor):
    background = True

    a = step(Act, script="")
    each = map_each(Act, over=a.map(lambda value: [value]), script="", needs=element).collect(
        lambda results: Deadly.at("collect", list(results))
    )
    b = step(Act, script="").after(each)


class Returned(Reactor):
    background = True

    a = step(Act, script="")
    returns = a.map(lambda value: Deadly.at("returned", value))


class Inside(Reactor):
    background = True

    a = step(Act, script="")
    inner = compose(Condition).after(a)


DEADLY: dict[str, type[Reactor]] = {
    "condition": Condition,
    "transform": Transform,
    "collect": Source,
    "returned": Returned,
    "inside": Inside,
}


class Loop:
    """A run whose action kills its worker, workers that are started again, and other runs."""

    def __init__(
        self, folder: Path, reactor: type[Reactor], action: str, path: str, between: str = ""
    ) -> None:
        self.shop = Workshop(folder, lease=0.4, sweep=0.2)
        self.shop.max_recoveries = LIMIT
        self._deadly = action, path
        self._between = between
        self.died = 0
        with self.shop.runtime() as runtime:
            dispatched = reactor.options(runtime=runtime).run()  # type: ignore[attr-defined]
            others: list[str] = []
            worker = self._worker()
            deadline = time.monotonic() + PATIENCE_SECONDS
            while active(runtime):
                assert time.monotonic() < deadline, [run.status for run in active(runtime)]
                code = poll(worker)
                if code is not None:
                    assert code == 9, code
                    self.died += 1
                    if self.died == LIMIT:  # earlier ones could be given up, too, as neighbours
                        others = [Others.options(runtime=runtime).run().run_id for _ in range(3)]
                    worker = self._worker()
                time.sleep(0.01)
            end(worker)
            assert others
            for other in others:
                assert runtime.find(other).result == Success("did z")
            run = runtime.find(dispatched.run_id)
            self.result: Any = run.result
            self.units = [(unit.status.value, unit.result) for unit in run.children]

    def _worker(self) -> Child:
        def prepare() -> None:
            Acting.by_path = {self._deadly: die}
            Deadly.where = self._between

        return self.shop.worker(2, first=prepare)

    def begun(self, action: str) -> list[str]:
        return [path for path in self.shop.begun(action) if path != "z"]


class Others(Reactor):
    background = True

    z = step(Act, script="")


def _a_step(folder: Path) -> None:
    loop = Loop(folder, Chain, "run", "b")
    assert loop.died == 1 + LIMIT
    assert isinstance(loop.result, Failure) and "died" in loop.result.error
    assert "Chain.b" in loop.result.error and loop.result.rollback_failures == []
    assert loop.begun("run") == ["a", *["b"] * loop.died]
    assert loop.shop.ended("compensate") == ["b"]
    assert loop.shop.ended("undo") == ["a"]


def _an_undo(folder: Path) -> None:
    loop = Loop(folder, Fails, "undo", "b")
    assert loop.died == 1 + LIMIT
    (left,) = loop.result.rollback_failures
    assert (left.step, left.kind, left.reason) == ("b", "undo", "crashed")
    assert loop.begun("undo") == [*["b"] * loop.died, "a"]
    assert loop.shop.ended("undo") == ["a"]


def _a_compensate(folder: Path) -> None:
    loop = Loop(folder, Fails, "compensate", "c")
    assert loop.died == 1 + LIMIT
    (left,) = loop.result.rollback_failures
    assert (left.step, left.kind, left.reason) == ("c", "compensate", "crashed")
    assert loop.shop.ended("undo") == ["b", "a"]


def _an_element(folder: Path) -> None:
    loop = Loop(folder, Elements, "run", "each[1]")
    assert loop.died == 1 + LIMIT
    assert "died" in loop.result.error
    assert loop.begun("run") == ["before", "each[0]", *["each[1]"] * loop.died]
    assert loop.shop.ended("compensate") == ["each[1]"]
    assert loop.shop.ended("undo") == ["each[0]", "before"]


def _a_unit(folder: Path) -> None:
    """The unit fails alone; its reader gets the failure, and its parent completes."""
    loop = Loop(folder, ReadsUnit, "run", "unit")
    assert loop.died == 1 + LIMIT
    ((status, failure),) = loop.units
    assert status == "failed" and "died" in failure.error
    assert loop.begun("run") == ["a", *["unit"] * loop.died, "reader"]
    assert loop.shop.ended("compensate") == ["unit"]
    assert loop.shop.begun("undo") == []
    assert isinstance(loop.result, Success) and "died" in loop.result.value


def _a_units_compensate(folder: Path) -> None:
    loop = Loop(folder, SpawnsReactor, "undo", "first")
    assert loop.died == 1 + LIMIT
    ((status, failure),) = loop.units
    assert status == "failed"
    (left,) = failure.rollback_failures
    assert (left.step, left.kind, left.reason) == ("first", "undo", "crashed")
    assert loop.result == Success("did last")


def _between_steps(folder: Path, where: str) -> None:
    """A function of the definition kills the worker: the run is given up, what was done undone."""
    between = "condition" if where == "inside" else where
    loop = Loop(folder, DEADLY[where], "", "", between)
    assert loop.died == 2 + LIMIT
    assert isinstance(loop.result, Failure) and "between two steps" in loop.result.error
    assert loop.result.rollback_failures == []
    assert sorted(loop.shop.ended("undo")) == sorted(loop.begun("run"))
    assert loop.begun("run")[0] == "a"


@pytest.mark.parametrize("where", DEADLY)
def test_what_kills_its_worker_between_steps(tmp_path: Path, where: str) -> None:
    alone(_between_steps, tmp_path, where)


def test_a_step_that_kills_its_worker(tmp_path: Path) -> None:
    alone(_a_step, tmp_path)


def test_an_undo_that_kills_its_worker(tmp_path: Path) -> None:
    alone(_an_undo, tmp_path)


def test_a_compensate_that_kills_its_worker(tmp_path: Path) -> None:
    alone(_a_compensate, tmp_path)


def test_an_element_that_kills_its_worker(tmp_path: Path) -> None:
    alone(_an_element, tmp_path)


def test_a_spawned_unit_that_kills_its_worker(tmp_path: Path) -> None:
    alone(_a_unit, tmp_path)


def test_an_undo_of_a_spawned_reactor_that_kills_its_worker(tmp_path: Path) -> None:
    alone(_a_units_compensate, tmp_path)
