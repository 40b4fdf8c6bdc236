"""A step that kills its process again and again is given up, and everything else rolled back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from calandria import Failure, Reactor, runs
from tests.crash.acting import (
    Around,
    Chain,
    Deeds,
    Elements,
    InBulk,
    Site,
    die,
    fail_here,
    patiently,
)
from tests.crash.children import Child, alone

LIMIT = 2
LEASE = 0.05
NESTED = "outer/~2:tests.crash.acting:Plain"


def _until_it_ends(site: Site, reactor: type[Reactor], **inputs: Any) -> tuple[int, Any]:
    """Run and recover in one process after the other; return how many died, and the run."""
    died = 0
    while True:
        child = Child(lambda: _go_on(site, reactor, **inputs))
        code = child.wait()
        if code == 0:
            break
        assert code == 9, code
        died += 1
        assert died < 20, "it is never given up"
    with site.runtime() as runtime:
        (run,) = runs(runtime=runtime)
        assert run.status.value == "failed"
        assert isinstance(run.result, Failure)
        return died, run.result


def _go_on(site: Site, reactor: type[Reactor], **inputs: Any) -> None:
    with site.runtime(lease=LEASE, max_recoveries=LIMIT):
        found = list(runs())
        if found:
            patiently(found[0].recover)
        else:
            reactor.run(**inputs)  # type: ignore[attr-defined]


def _a_step(folder: Path) -> None:
    site = Site(folder)
    Deeds.by_path = {("run", "b"): die}
    died, failure = _until_it_ends(site, Chain)
    assert died == 1 + LIMIT
    assert "died" in failure.error and "Chain.b" in failure.error
    assert failure.rollback_failures == []
    assert site.begun("run") == ["a", *["b"] * died]
    assert site.ended("compensate") == ["b"]
    assert site.ended("undo") == ["a"]


def _an_undo(folder: Path) -> None:
    site = Site(folder)
    Deeds.by_path = {("run", "c"): fail_here, ("undo", "b"): die}
    died, failure = _until_it_ends(site, Chain)
    assert died == 1 + LIMIT
    (left,) = failure.rollback_failures
    assert (left.step, left.kind, left.reason) == ("b", "undo", "crashed")
    assert site.begun("undo") == [*["b"] * died, "a"]
    assert site.ended("undo") == ["a"]


def _a_compensate(folder: Path) -> None:
    site = Site(folder)
    Deeds.by_path = {("run", "c"): fail_here, ("compensate", "c"): die}
    died, failure = _until_it_ends(site, Chain)
    assert died == 1 + LIMIT
    (left,) = failure.rollback_failures
    assert (left.step, left.kind, left.reason) == ("c", "compensate", "crashed")
    assert site.ended("undo") == ["b", "a"]


def _an_element(folder: Path) -> None:
    site = Site(folder)
    Deeds.by_path = {("run", "each[1]"): die}
    died, failure = _until_it_ends(site, Elements, names=["x", "y", "z"])
    assert died == 1 + LIMIT
    assert "died" in failure.error
    assert site.begun("run") == ["before", "each[0]", *["each[1]"] * died]
    assert site.ended("compensate") == ["each[1]"]
    assert site.ended("undo") == ["each[0]", "before"]


def _nested_work(folder: Path) -> None:
    site = Site(folder)
    Deeds.by_path = {("run", NESTED): die}
    died, failure = _until_it_ends(site, Around)
    assert died == 1 + LIMIT
    assert "died" in failure.error
    assert site.begun("run").count("outer/~1:tests.crash.acting:Plain") == 1
    assert site.begun("run").count(NESTED) == died
    assert sorted(site.ended("compensate")) == ["outer", NESTED]
    assert site.ended("undo") == ["outer/~1:tests.crash.acting:Plain", "before"]


def _a_bulk_undo(folder: Path) -> None:
    site = Site(folder)
    Deeds.by_path = {("run", "after"): fail_here, ("undo_all", "each"): die}
    died, failure = _until_it_ends(site, InBulk, names=["x", "y"])
    assert died == 1 + LIMIT
    (left,) = failure.rollback_failures
    assert (left.step, left.kind, left.reason) == ("each", "undo_all", "crashed")
    assert site.begun("undo_all") == ["each"] * died
    assert site.ended("undo") == ["before"]


def _a_bulk_undo_of_its_own_failure(folder: Path) -> None:
    site = Site(folder)
    Deeds.by_path = {("run", "each[1]"): fail_here, ("undo_all", "each"): die}
    died, failure = _until_it_ends(site, InBulk, names=["x", "y"])
    assert died == 1 + LIMIT
    (left,) = failure.rollback_failures
    assert (left.kind, left.reason) == ("undo_all", "crashed")
    assert site.ended("compensate") == ["each[1]"]
    assert site.ended("undo") == ["before"]


def _two_steps_in_turn(folder: Path) -> None:
    """Progress in between starts the count anew."""
    site = Site(folder)
    counted = folder / "deaths"

    def die_twice(context: Any) -> None:
        with counted.open("a") as file:
            file.write(f"{context.step}\n")
        if counted.read_text().split().count(context.step) <= LIMIT:
            die(context)

    Deeds.by_path = {("run", name): die_twice for name in "abc"}
    died = 0
    while Child(lambda: _go_on(site, Chain)).wait() != 0:
        died += 1
    assert died == 3 * LIMIT
    with site.runtime() as runtime:
        (run,) = runs(runtime=runtime)
        assert run.status.value == "completed"


def test_a_step_that_kills_its_process(tmp_path: Path) -> None:
    alone(_a_step, tmp_path)


def test_an_undo_that_kills_its_process(tmp_path: Path) -> None:
    alone(_an_undo, tmp_path)


def test_a_compensate_that_kills_its_process(tmp_path: Path) -> None:
    alone(_a_compensate, tmp_path)


def test_an_element_that_kills_its_process(tmp_path: Path) -> None:
    alone(_an_element, tmp_path)


def test_nested_work_that_kills_its_process(tmp_path: Path) -> None:
    alone(_nested_work, tmp_path)


def test_a_bulk_undo_that_kills_its_process(tmp_path: Path) -> None:
    alone(_a_bulk_undo, tmp_path)


def test_a_bulk_undo_after_a_failed_element_that_kills_its_process(tmp_path: Path) -> None:
    alone(_a_bulk_undo_of_its_own_failure, tmp_path)


def test_deaths_with_progress_between_them_are_not_counted_together(tmp_path: Path) -> None:
    alone(_two_steps_in_turn, tmp_path)
