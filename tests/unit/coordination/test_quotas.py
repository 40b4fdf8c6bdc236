"""Rate limits and periods: what they count, whom they stop, and what takes a mark away."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from calandria import (
    CalandriaError,
    Failure,
    Halt,
    Lock,
    Period,
    RateLimit,
    Reactor,
    Retry,
    Runtime,
    Settings,
    Skipped,
    Step,
    Success,
    compose,
    step,
)
from calandria.coordination.periods import bucket_of
from calandria.ports.clock import SystemClock
from tests.unit.coordination.conftest import QUICK
from tests.unit.coordination.crashing import Host
from tests.unit.coordination.helping import (
    Aside,
    Gate,
    failure,
    kinds,
    locked,
    run_of,
    stranger,
)


class Wall(SystemClock):
    """A wall clock that a test sets."""

    at = 1_700_000_000.0

    def now(self) -> float:
        return self.at


def test_fr_003_a_claimed_period_skips_the_step_and_the_run_goes_on(
    runtime: Runtime, diary: list[str]
) -> None:
    """FR-003, US5.3: the step is `Skipped`; at reactor level the same halts the run."""

    class Monthly(Step):
        coordination = [Period("p", every="year")]

        def run(self) -> str:
            diary.append("ran")
            return "done"

        def undo(self, result: object) -> None:
            diary.append("undone")

    class Wired(Reactor):
        fails: bool = False
        only = step(Monthly)

        @step
        def after(*, only: Any, fails: bool) -> Any:
            if fails:
                raise ValueError("no")
            return [only]

    assert Wired.run() == Success(["done"])
    result = Wired.run()
    assert result == Success([None])
    (view,) = [view for view in run_of(runtime, result).steps() if view.path == "only"]
    assert view.status.value == "skipped"
    assert any(line.startswith("step.period only p") for line in _lines(runtime, result))
    # what was skipped is not undone, and its mark, which is another run's, stays
    assert not Wired.run(fails=True).ok
    assert diary == ["ran"]
    assert Wired.run() == Success([None])


def _lines(runtime: Runtime, result: Any) -> list[str]:
    return kinds(run_of(runtime, result))


@pytest.mark.parametrize(
    ("outcome", "leaves"),
    [
        ("done", True),
        (Skipped("nothing to do"), False),
        (Halt("stop"), False),
        (Failure("no", retryable=False), False),
    ],
    ids=["success", "skipped", "halted", "failed"],
)
def test_only_success_leaves_a_mark(runtime: Runtime, outcome: Any, leaves: bool) -> None:
    outcomes = [outcome, "again"]

    class Yearly(Step):
        coordination = [Period("p", every="year")]

        def run(self) -> Any:
            return outcomes.pop(0)

    class Wired(Reactor):
        only = step(Yearly)

    Wired.run()
    assert Wired.run() == Success(None if leaves else "again")


def test_undo_and_rollback_take_the_mark_away(runtime: Runtime, diary: list[str]) -> None:
    class Yearly(Step):
        coordination = [Period("p", every="year")]

        def run(self) -> str:
            return "done"

        def undo(self, result: object) -> None: ...

    class Wired(Reactor):
        fails: bool
        only = step(Yearly)

        @step
        def after(*, only: Any, fails: bool) -> Any:
            if fails:
                raise ValueError("no")
            return only

    assert not Wired.run(fails=True).ok
    result = Wired.run(fails=False)
    assert result == Success("done")
    assert Wired.run(fails=False) == Success(None)
    run_of(runtime, result).undo()
    assert Wired.run(fails=False) == Success("done")


def test_a_step_without_undo_loses_its_mark_with_its_run(runtime: Runtime) -> None:
    class Yearly(Step):
        coordination = [Period("p", every="year")]

        def run(self) -> str:
            return "done"

    class Wired(Reactor):
        fails: bool
        only = step(Yearly)

        @step
        def after(*, only: Any, fails: bool) -> Any:
            if fails:
                raise ValueError("no")
            return only

    assert not Wired.run(fails=True).ok
    assert Wired.run(fails=False) == Success("done")


def test_a_run_is_not_skipped_by_its_own_mark_when_it_is_taken_up(tmp_path: Path) -> None:
    host = Host(tmp_path)
    death: list[Any] = []

    class Yearly(Step):
        coordination = [Period("p", every="year")]

        def run(self) -> str:
            return "done"

    class Wired(Reactor):
        coordination = [Period("p", every="year"), RateLimit("r", limit=1, per="day")]
        only = step(Yearly)

        @step
        def after(*, only: str) -> str:
            if death:
                death.pop()()
            return only

    run_id = host.die_in(Wired, death.append)
    host.pass_time()
    with host.open():
        assert Wired.recover(run_id) == Success("done")
        assert Wired.run() == Halt("period")


def test_a_cut_off_attempt_is_counted_once(tmp_path: Path) -> None:
    host = Host(tmp_path)
    death: list[Any] = []

    class Rare(Step):
        coordination = [RateLimit("r", limit=1, per="day")]

        def run(self) -> str:
            if death:
                death.pop()()
            return "done"

    class Wired(Reactor):
        only = step(Rare)

    run_id = host.die_in(Wired, death.append)
    host.pass_time()
    with host.open():
        assert Wired.recover(run_id) == Success("done")
        assert failure(Wired.run()).exception_class == "RateLimited"


def test_with_a_lock_a_period_is_strictly_once(runtime: Runtime, diary: list[str]) -> None:
    gate = Gate()

    class Once(Step):
        coordination = [Period("p", every="year"), Lock("k", wait=20)]

        def run(self) -> str:
            diary.append("ran")
            gate()
            return "done"

    class Wired(Reactor):
        only = step(Once)

    first = Aside(Wired.run)
    gate.await_entry()
    others = [Aside(Wired.run) for _ in range(3)]
    gate.open()
    assert first.result() == Success("done")
    assert [other.result() for other in others] == [Success(None)] * 3
    assert diary == ["ran"]


def test_buckets_are_calendar_units_of_utc() -> None:
    last_second_of_2023 = 1704067199.0
    found = {every: bucket_of(every, last_second_of_2023) for every in ("year", "quarter", "month")}
    assert found == {"year": "2023", "quarter": "2023-Q4", "month": "2023-12"}
    assert bucket_of("year", last_second_of_2023 + 1) == "2024"
    assert bucket_of("week", last_second_of_2023) == "2023-W52"
    assert bucket_of("week", last_second_of_2023 + 1) == "2024-W01"
    assert bucket_of("day", last_second_of_2023) == "2023-12-31"
    assert bucket_of("hour", last_second_of_2023) == "2023-12-31T23"
    assert bucket_of("minute", last_second_of_2023) == "2023-12-31T23:59"
    assert bucket_of(10, 99.9) != bucket_of(10, 100.0)


def test_the_next_bucket_is_free_and_the_bucket_is_that_of_the_start() -> None:
    clock = Wall()
    with Runtime("memory://", settings=QUICK, clock=clock):

        class Hourly(Step):
            late: bool = False
            coordination = [Period("p", every=3600)]

            def run(self) -> str:
                if self.late:
                    clock.at += 3600
                return "done"

        class Wired(Reactor):
            late: bool = False
            only = step(Hourly)

        assert Wired.run(late=True) == Success("done")
        # it worked into the next hour, but that hour is not claimed
        assert Wired.run() == Success("done")
        assert Wired.run() == Success(None)
        clock.at += 3600
        assert Wired.run() == Success("done")


def test_a_step_is_charged_for_each_attempt(runtime: Runtime) -> None:
    class Rare(Step):
        coordination = [RateLimit("r", limit=2, per="day")]
        retry = Retry(max_attempts=2, base_delay=0)

        def run(self) -> int:
            if self.context.attempt == 1:
                raise ValueError("once more")
            return self.context.attempt

    class Wired(Reactor):
        only = step(Rare)

    assert Wired.run() == Success(2)
    assert failure(Wired.run()).exception_class == "RateLimited"


def test_several_windows_count_together_or_not_at_all() -> None:
    clock = Wall()
    with Runtime("memory://", settings=QUICK, clock=clock):

        class Rare(Step):
            coordination = [RateLimit("r", limits={"second": 2, "minute": 3})]

            def run(self) -> str:
                return "done"

        class Wired(Reactor):
            only = step(Rare)

        assert [Wired.run().ok for _ in range(3)] == [True, True, False]
        clock.at += 1
        # the refusal was not counted in the minute: there is room for one more
        assert [Wired.run().ok for _ in range(2)] == [True, False]
        tightest = failure(Wired.run()).exception
        assert tightest is not None and "60 s" in str(tightest)
        clock.at += 60
        assert Wired.run().ok


def test_nothing_is_charged_when_another_key_is_refused(runtime: Runtime, diary: list[str]) -> None:
    class Both(Step):
        coordination = [RateLimit("r", limit=1, per="day"), Lock("k")]

        def run(self) -> str:
            return "done"

    class Wired(Reactor):
        only = step(Both)

    with stranger(runtime, "k"):
        assert failure(Wired.run()).exception_class == "LockNotAcquired"
    assert Wired.run() == Success("done")


def test_a_named_limit_is_shared_across_reactors() -> None:
    settings = Settings(rate_limits={"stripe": {"day": 2}})
    with Runtime("memory://", settings=settings):

        class A(Reactor):
            only = step(locked([], "a")).coordinate(RateLimit.named("stripe"))

        class B(Reactor):
            coordination = [RateLimit.named("stripe")]
            only = step(locked([], "b"))

        assert A.run().ok and B.run().ok
        assert failure(A.run()).exception_class == "RateLimited"


def test_an_unknown_limit_fails_before_the_first_step(runtime: Runtime, diary: list[str]) -> None:
    class Inner(Reactor):
        only = step(locked(diary, "b")).coordinate(RateLimit.named("stripe"))

    class Wired(Reactor):
        first = step(locked(diary, "a"))
        inner = compose(Inner).after(first)

    class Whole(Reactor):
        coordination = [RateLimit.named("stripe")]
        only = step(locked(diary, "a"))

    for reactor in (Wired, Whole):
        with pytest.raises(CalandriaError, match="'stripe' is not registered") as raised:
            reactor.run()
        assert "rate_limits" in str(raised.value)
    assert diary == []


@pytest.mark.parametrize("limits", [{}, {"fortnight": 1}, {"day": 0}])
def test_wrong_limits_are_refused_in_the_settings(limits: dict[str, int]) -> None:
    with pytest.raises(CalandriaError, match="RateLimit"):
        Settings(rate_limits={"stripe": limits})


def test_pruning_deletes_expired_marks_windows_and_leftovers() -> None:
    clock = Wall()
    with Runtime("memory://", settings=QUICK, clock=clock) as runtime:

        class Hourly(Step):
            coordination = [
                Period("p", every="hour"),
                RateLimit("r", limit=9, per="minute"),
            ]

            def run(self) -> str:
                return "done"

        class Yearly(Step):
            coordination = [Period("y", every="year")]

            def run(self) -> str:
                return "done"

        class Wired(Reactor):
            only = step(Hourly)
            yearly = step(Yearly)

        assert Wired.run() == Success("done")
        assert _rows(runtime) == (2, 1)
        runtime.prune(older_than=3600)
        assert _rows(runtime) == (2, 1)
        clock.at += 7200
        runtime.prune(older_than=3600)
        assert _rows(runtime) == (1, 0)
        # the year's mark outlives the run that made it
        assert Wired.run() == Success(None)


def _rows(runtime: Runtime) -> tuple[int, int]:
    """Return how many marks and windows there are."""
    database = runtime.store._database  # type: ignore[attr-defined]
    counts = []
    with database.read() as session:
        for table in ("calandria_marks", "calandria_windows"):
            counts.append(session._connection.execute(f"SELECT count(*) FROM {table}").fetchone())
    return counts[0][0], counts[1][0]
