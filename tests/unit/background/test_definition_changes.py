"""Runs in flight while their reactor changes: refused, reported, or simply gone on with."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable
from typing import Any

import pytest

from calandria import Reactor, Retry, Run, RunStateError, Runtime, Step, Success, compose, step
from calandria import spawn as spawned
from calandria.runtime.fitting import UnfinishableRun
from calandria.statuses import RunStatus
from tests.unit.background.helping import eventually, kinds, placed, run_of

SOON = Retry(max_attempts=2, backoff="fixed", base_delay=0.4, jitter=0)


def flaky(diary: list[str]) -> type[Step]:
    """Return a step whose first attempt fails, so that its run is parked for a while."""

    class Flaky(Step):
        retry = SOON
        text: str = ""

        def run(self) -> str:
            diary.append(f"flaky {self.text}".strip())
            if len(diary) == 2:
                raise ValueError("not yet")
            return "flaky"

    Flaky.__qualname__ = "Flaky"
    return Flaky


def version(body: Callable[[], dict[str, Any]]) -> type[Reactor]:
    """Return the next version of the reactor `Shop`."""
    gc.collect()
    members = body() | {"__qualname__": "Shop", "__module__": __name__, "background": True}
    return type("Shop", (Reactor,), members)


def parked(runtime: Runtime, first: type[Reactor]) -> Run:
    run = run_of(runtime, first.run())
    eventually(lambda: run.waiting_on)
    return run


def two_steps(diary: list[str], **more: Any) -> type[Reactor]:
    first = step(placed(diary, "first"))
    return version(lambda: {"first": first, "second": step(flaky(diary)).after(first), **more})


def test_a_renamed_step_is_refused_before_anything_runs(
    runtime: Runtime, diary: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    runtime.start_worker(1)
    run = parked(runtime, two_steps(diary))
    first = step(placed(diary, "first"))
    renamed = version(lambda: {"uno": first, "second": step(flaky(diary)).after(first)})

    eventually(lambda: run.waiting_on == [f"definition {__name__}:Shop"])
    assert diary == ["w:first", "flaky"]
    assert (run.status, run.lease_owner) == (RunStatus.RUNNING, None)
    with pytest.raises(RunStateError, match=r"'first'.*renamed or removed"):
        run.recover()
    assert any("first" in record.message for record in caplog.records)
    assert renamed.definition().name == "Shop"


def test_the_version_that_has_the_step_goes_on(runtime: Runtime, diary: list[str]) -> None:
    runtime.start_worker(1)
    run = parked(runtime, two_steps(diary))
    first = step(placed(diary, "first"))
    wrong = version(lambda: {"uno": first, "second": step(flaky(diary)).after(first)})
    eventually(lambda: run.waiting_on == [f"definition {__name__}:Shop"])
    again = two_steps(diary)
    assert run.wait(10) == Success("flaky")
    assert diary == ["w:first", "flaky", "flaky"]
    assert wrong is not again


def test_a_step_of_another_kind_is_refused(runtime: Runtime, diary: list[str]) -> None:
    class Inner(Reactor):
        work = step(placed(diary, "inner"))

    runtime.start_worker(1)
    run = parked(runtime, two_steps(diary))
    first = compose(Inner)
    kept = version(lambda: {"first": first, "second": step(flaky(diary)).after(first)})
    eventually(lambda: run.waiting_on == [f"definition {__name__}:Shop"])
    assert diary == ["w:first", "flaky"]
    assert kept.definition().nodes["first"].reactor is Inner


def test_a_rewired_step_is_reported_and_the_run_goes_on(
    runtime: Runtime, diary: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    runtime.start_worker(1)
    run = parked(runtime, two_steps(diary))
    first = step(placed(diary, "first"))
    second = step(flaky(diary), text=first)
    with caplog.at_level(logging.WARNING):
        kept = version(lambda: {"first": first, "second": second})
        assert run.wait(10) == Success("flaky")
    changed = [entry for entry in run.trace if entry.kind == "run.definition_changed"]
    assert [entry.data for entry in changed] == [{"steps": ["second"]}]
    warned = [r.message for r in caplog.records if "run.definition_changed" in r.message]
    assert len(warned) == 1 and "second" in warned[0]
    # the attempt keeps the inputs it was recorded with
    assert diary == ["w:first", "flaky", "flaky"]
    assert kept is not None


def test_an_added_step_just_runs(runtime: Runtime, diary: list[str]) -> None:
    runtime.start_worker(1)
    run = parked(runtime, two_steps(diary))
    kept = two_steps(diary, third=step(placed(diary, "third")))
    run.wait(10)
    assert "w:third" in diary
    assert "run.definition_changed" not in kinds(run)
    assert kept is not None


def test_a_step_removed_before_it_was_reached_is_not_missed(
    runtime: Runtime, diary: list[str]
) -> None:
    def longer() -> dict[str, Any]:
        first, second = step(placed(diary, "first")), step(flaky(diary))
        third = step(placed(diary, "third")).after(second)
        return {"first": first, "second": second.after(first), "third": third}

    runtime.start_worker(1)
    run = parked(runtime, version(longer))
    kept = two_steps(diary)
    assert run.wait(10) == Success("flaky")
    assert "w:third" not in diary
    assert kept is not None


def test_a_step_lost_in_an_open_nested_reactor_is_refused(
    runtime: Runtime, diary: list[str]
) -> None:
    def inner(name: str) -> type[Reactor]:
        first = step(placed(diary, "first"))
        members = {name: first, "second": step(flaky(diary)).after(first)}
        return type("Inner", (Reactor,), {**members, "__module__": __name__})

    runtime.start_worker(1)
    run = parked(runtime, version(lambda: {"booking": compose(inner("first"))}))
    kept = version(lambda: {"booking": compose(inner("uno"))})
    eventually(lambda: run.waiting_on == [f"definition {__name__}:Shop"])
    assert diary == ["w:first", "flaky"]
    with pytest.raises(RunStateError, match="'booking/first'"):
        run.recover()
    assert kept is not None


def test_what_nobody_reads_any_more_is_no_lost_step(runtime: Runtime, diary: list[str]) -> None:
    def body(reads: bool) -> dict[str, Any]:
        unit = spawned(placed(diary, "unit"))
        first = step(flaky(diary), text=unit) if reads else step(flaky(diary)).after(unit)
        return {"unit": unit, "second": first}

    runtime.start_worker(1)
    run = parked(runtime, version(lambda: body(True)))
    kept = version(lambda: body(False))
    assert run.wait(10) == Success("flaky")
    assert kept is not None


def test_unfinishable_runs_are_listed(runtime: Runtime, diary: list[str]) -> None:
    worker = runtime.start_worker(1)
    run = parked(runtime, two_steps(diary))
    done = run_of(runtime, version(lambda: {"only": step(placed(diary, "only"))}).run())
    done.wait(10)
    worker.stop()
    same = two_steps(diary)
    assert list(runtime.unfinishable_runs([same])) == []

    first = step(placed(diary, "first"))
    renamed = version(lambda: {"uno": first, "second": step(flaky(diary)).after(first)})
    (found,) = runtime.unfinishable_runs([renamed])
    assert found == UnfinishableRun(
        run.id, f"{__name__}:Shop", RunStatus.RUNNING, ("first",), found.reason
    )
    assert "first" in found.reason

    class Elsewhere(Reactor):
        work = step(placed(diary, "work"))

    # of this module, but without the run's reactor; and of another module altogether
    (gone,) = runtime.unfinishable_runs([Elsewhere])
    assert (gone.run_id, gone.steps) == (run.id, ()) and "not there any more" in gone.reason
    Elsewhere.__module__ = "another.module"
    assert list(runtime.unfinishable_runs([Elsewhere])) == []


def test_a_spawned_unit_of_a_removed_step_is_listed(runtime: Runtime, diary: list[str]) -> None:
    class Never(Step):
        retry = Retry(max_attempts=2, base_delay=3600)

        def run(self) -> None:
            raise ValueError("not yet")

    def whole() -> dict[str, Any]:
        unit = spawned(Never)
        return {"unit": unit, "done": step(placed(diary, "done")).after(unit)}

    runtime.start_worker(1)
    parent = run_of(runtime, version(whole).run())
    parent.wait(10)
    (child,) = parent.children
    eventually(lambda: child.waiting_on)
    removed = version(lambda: {"done": step(placed(diary, "done"))})
    (found,) = runtime.unfinishable_runs([removed])
    assert found.run_id == child.id


def test_an_unknown_reactor_is_left_until_a_worker_knows_it(
    runtime: Runtime, diary: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    worker = runtime.start_worker(1)
    known = version(lambda: {"only": step(placed(diary, "only"))})
    known.__qualname__ = "Unheard"
    worker.stop()
    runtime.workers.add(worker)
    run = run_of(runtime, known.run())
    runtime.workers.discard(worker)
    known.__qualname__ = "Shop"
    another = runtime.start_worker(1)
    eventually(lambda: run.waiting_on)
    assert run.waiting_on == [f"reactor {__name__}:Unheard"]
    assert run.status is RunStatus.PENDING
    performed = another.performed
    eventually(lambda: another.performed > performed + 2)
    # it is looked at again and again, said once, never failed
    assert len([r for r in caplog.records if "Unheard" in r.message]) == 1
    known.__qualname__ = "Unheard"
    assert run.wait(10) == Success("only")
    assert run.waiting_on == []
