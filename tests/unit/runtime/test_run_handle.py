"""`Run`: everything it tells of a run, and how runs are found."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from calandria import (
    CalandriaError,
    Failure,
    Reactor,
    RollbackState,
    Run,
    RunStatus,
    Runtime,
    Step,
    StepRollback,
    StepStatus,
    Success,
    UnknownRun,
    compose,
    element,
    halt,
    inputs,
    map_each,
    runs,
    step,
)
from tests.unit.runtime.saga import TWICE, Outage, logged, only_run, raising

pytestmark = pytest.mark.usefixtures("runtime")


class Double(Step):
    number: int

    def run(self) -> int:
        if self.number < 0:
            raise Outage("negative")
        return self.number * 2

    def undo(self, result: int) -> None: ...


class Inner(Reactor):
    number: int
    double = step(Double)


class Saga(Reactor):
    number: int
    first = step(Double)
    inner = compose(Inner, number=first)
    each = map_each(Double, over=range(3), number=element).after(inner)
    last = step(Double, number=inputs.number.map(lambda n: n - 10)).after(each)


def test_a_completed_run_tells_everything() -> None:
    before = datetime.now(UTC)
    result = Saga.options(correlation_id="mine", idempotency_key="key").run(number=12)
    run = only_run()

    assert (run.status, run.rollback) == (RunStatus.COMPLETED, RollbackState.NONE)
    assert (run.result, run.failure) == (result, None)
    assert result == Success(4)
    assert run.reactor == f"{__name__}:Saga"
    assert run.inputs == {"number": 12}
    assert dict(run.results) == {"first": 24, "inner": 48, "each": [0, 2, 4], "last": 4}
    assert len(run.results) == 4
    with pytest.raises(KeyError):
        run.results["nothing"]
    assert (run.correlation_id, run.idempotency_key) == ("mine", "key")
    assert (run.pending_compensation, run.needs_attention) == (None, False)
    assert (tuple(run.waiting_on), tuple(run.ready_interrupts), list(run.children)) == ((), (), [])
    assert list(run.holds) == []
    assert (run.epoch, run.lease_owner) == (1, None)
    assert run.finished_at is not None
    assert before <= run.created_at <= run.finished_at <= run.updated_at
    assert run.created_at.tzinfo is UTC
    assert run.wait(0) == result


def test_progress_counts_steps_and_elements() -> None:
    Saga.run(number=12)

    progress = only_run().progress

    assert (progress.completed, progress.total) == (4, 4)
    assert progress.maps == {"each": (3, 3)}


def test_progress_while_the_run_is_under_way() -> None:
    seen: list[Any] = []

    class Look(Step):
        number: int

        def run(self) -> None:
            progress = only_run().progress
            seen.append((progress.completed, progress.total, dict(progress.maps)))

    class Watched(Reactor):
        first = step(Look, number=0)
        each = map_each(Look, over=[1, 2], number=element).after(first)

    Watched.run()

    assert seen == [(0, 2, {}), (1, 2, {"each": (0, None)}), (1, 2, {"each": (1, None)})]


def test_steps_are_viewed_scope_by_scope() -> None:
    Saga.run(number=12)
    run = only_run()

    top = list(run.steps())
    assert [(v.path, v.name, v.kind) for v in top] == [
        ("first", "first", "step"),
        ("inner", "inner", "compose"),
        ("each", "each", "map"),
        ("last", "last", "step"),
    ]
    first = top[0]
    assert (first.status, first.attempts, first.recoveries) == (StepStatus.COMPLETED, 1, 0)
    assert (first.inputs, first.result, first.error) == ({"number": 12}, 24, None)
    assert (first.rollback, first.rollback_failures) == (StepRollback.NONE, [])
    assert first.finished_at is not None
    assert first.started_at <= first.finished_at
    assert [v.path for v in run.steps("inner")] == ["inner/double"]
    elements = list(run.steps("each"))
    assert [(v.path, v.kind, v.result) for v in elements] == [
        ("each[0]", "element", 0),
        ("each[1]", "element", 2),
        ("each[2]", "element", 4),
    ]
    assert list(run.steps("nowhere")) == []


def test_the_steps_of_a_failed_run_tell_errors_and_rollback() -> None:
    Saga.run(number=3)
    run = only_run()

    views = {view.path: view for view in run.steps()}
    assert views["last"].status is StepStatus.FAILED
    error = views["last"].error
    assert error is not None
    assert (error.error, error.step) == ("negative", "last")
    assert views["first"].rollback is StepRollback.UNDONE
    assert views["inner"].rollback is StepRollback.UNDONE
    assert isinstance(run.failure, Failure)
    assert isinstance(run.result, Failure)
    assert run.rollback is RollbackState.COMPLETE


def test_nested_work_is_viewed_below_its_step() -> None:
    class Caller(Step):
        def run(self) -> object:
            return self.context.call(Double, number=4)

    class Calling(Reactor):
        work = step(Caller)

    Calling.run()

    (view,) = only_run().steps("work")
    assert (view.kind, view.inputs, view.result) == ("nested", {"number": 4}, 8)


def test_the_trace_is_a_numbered_account_of_everything() -> None:
    class Failing(Reactor):
        one = step(logged([], "one"))
        two = step(logged([], "two", raising(Outage("why")), retry=TWICE)).after(one)

    Failing.run()
    trace = list(only_run().trace)

    assert [entry.sequence for entry in trace] == list(range(1, len(trace) + 1))
    assert [(entry.kind, entry.path) for entry in trace] == [
        ("run.started", None),
        ("step.started", "one"),
        ("step.completed", "one"),
        ("step.started", "two"),
        ("step.retrying", "two"),
        ("step.started", "two"),
        ("step.failed", "two"),
        ("run.rolling_back", None),
        ("compensate.started", "two"),
        ("compensate.completed", "two"),
        ("undo.started", "one"),
        ("undo.completed", "one"),
        ("run.failed", None),
    ]
    assert trace[5].data == {"attempt": 2}
    assert trace[6].data == {"error": "why", "attempt": 2}
    assert all(entry.at.tzinfo is UTC for entry in trace)


def test_a_long_trace_is_read_page_by_page() -> None:
    class Long(Reactor):
        each = map_each(Double, over=range(600), number=element)

    Long.run()

    assert len(list(only_run().trace)) > 1200
    assert len(list(only_run().steps("each"))) == 600


@pytest.mark.parametrize("format", ["text", "mermaid", "svg"])
def test_a_run_draws_with_its_statuses(format: Any) -> None:
    Saga.run(number=3)
    run = only_run()

    picture = run.draw(format)

    assert "first" in picture
    assert picture != Saga.draw(format)
    if format == "svg":
        assert run._repr_svg_() == picture


def test_handles_are_equal_by_id_and_hash_alike() -> None:
    Saga.run(number=12)
    run = only_run()

    assert Saga.find(run.id) == run
    assert hash(Saga.find(run.id)) == hash(run)
    assert run != "run"
    assert run.id in repr(run)
    assert isinstance(run, Run)


def test_a_pruned_run_is_unknown(runtime: Runtime) -> None:
    Saga.run(number=12)
    run = only_run()
    values = run.results["each"]
    runtime.prune(older_than=-1)

    for ask in (lambda: run.status, lambda: run.result, run.undo, run.recover, lambda: run.wait(0)):
        with pytest.raises(UnknownRun):
            ask()
    with pytest.raises(CalandriaError):
        values[0]


def test_runs_are_listed_newest_first_and_filtered() -> None:
    class Halting(Reactor):
        work = step(logged([], "work", halt))

    saga_ids = [Saga.run(number=n).run_id for n in (12, 13, 3)]
    Halting.options(correlation_id="mine").run()

    assert [run.id for run in runs(reactor=Saga)] == saga_ids[::-1]
    assert [run.id for run in runs(reactor=f"{__name__}:Saga")] == saga_ids[::-1]
    assert [run.id for run in runs(reactor=Saga, status="failed")] == [saga_ids[2]]
    assert len(list(runs(status=["failed", RunStatus.HALTED]))) == 2
    assert len(list(runs(status=RunStatus.COMPLETED))) == 2
    assert len(list(runs(correlation_id="mine"))) == 1
    assert list(runs(needs_attention=True)) == []
    now = datetime.now(UTC)
    assert len(list(runs(since=now - timedelta(hours=1), until=now + timedelta(hours=1)))) == 4
    assert list(runs(since=now + timedelta(hours=1))) == []
    assert len(list(runs(until=now.timestamp() + 3600))) == 4
    with pytest.raises(CalandriaError, match="statuses"):
        list(runs(status="nonsense"))


def test_more_runs_than_a_page_are_listed_lazily() -> None:
    class Tiny(Reactor):
        @step
        def work() -> None: ...

    for _ in range(210):
        Tiny.run()

    listing = runs()
    newest = next(listing)
    assert len(list(listing)) == 209
    assert newest.created_at >= list(runs())[-1].created_at


def test_runs_of_a_reactor_that_is_not_loaded_are_shown_with_everything_kept_back(
    tmp_path: Any,
) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"

    class Gone(Reactor):
        secret: str
        double = step(Double, number=2)

    with Runtime(url):
        Gone.run(secret="xyz")
        run = only_run()
        Gone.__qualname__ = "Renamed"
        try:
            assert run.inputs == {"secret": "[REDACTED]"}
            (view,) = run.steps()
            assert (view.inputs, view.result) == ({"number": "[REDACTED]"}, "[REDACTED]")
            assert run.status is RunStatus.COMPLETED
            assert run.progress.total is None
            with pytest.raises(CalandriaError, match="not loaded"):
                run.undo()
            with pytest.raises(CalandriaError, match="not loaded"):
                run.draw()
        finally:
            Gone.__qualname__ = Gone.__name__
