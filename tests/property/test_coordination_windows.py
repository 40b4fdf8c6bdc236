"""Rate limits at the boundaries of their windows, and periods with marks, against models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from calandria.coordination.periods import bucket_of
from calandria.ports.coordination import (
    Granted,
    PeriodMark,
    PeriodRequest,
    RateRequest,
    Refusal,
)
from calandria.ports.run_store import Changes, CoordinationChanges, Lease
from calandria.testing.conformance.harness import leased, new_run
from tests.property.coordination_world import EXECUTIONS, KEYS, World

WINDOWS = (((1, 1),), ((1, 2), (60, 3)), ((60, 2), (3600, 5)), ((1, 1), (60, 2), (3600, 3)))
# to just before, onto and just after the boundaries of a second, a minute and an hour
MOVES = (0.0, 0.001, 0.499, 0.5, 0.999, 1.0, 29.0, 59.0, 59.999, 60.0, 1800.0, 3600.0)


class Windows(RuleBasedStateMachine):
    """Starts under two keys, each with several windows."""

    @initialize(offset=st.sampled_from((0.0, 0.5, 59.0, 3599.999)))
    def begin(self, offset: float) -> None:
        self.world = World()
        self.world.clock.at = 1_800_000_000.0 + offset
        self.used: Counter[tuple[str, int, int]] = Counter()

    @rule(
        names=st.lists(st.sampled_from(KEYS), min_size=1, max_size=2, unique=True),
        windows=st.sampled_from(WINDOWS),
    )
    def start(self, names: Sequence[str], windows: Sequence[tuple[int, int]]) -> None:
        now = self.world.clock.at
        full = [
            (name, seconds, seconds - now % seconds)
            for name in names
            for seconds, limit in windows
            if self.used[name, seconds, int(now / seconds)] >= limit
        ]
        rates = [RateRequest(name, windows) for name in names]
        answer = self.world.keys.acquire(self.world.ask("a", "", rates=rates))
        if isinstance(answer, Granted):
            assert not full
            for name in names:
                for seconds, _ in windows:
                    self.used[name, seconds, int(now / seconds)] += 1
            return
        assert answer.reason is Refusal.RATE
        # the first key that is full, and of its windows the one with room last
        first = [left for name, _, left in full if name == answer.key]
        assert answer.key == full[0][0]
        assert answer.retry_after is not None
        assert abs(answer.retry_after - max(first)) < 1e-5

    @rule(seconds=st.sampled_from(MOVES))
    def wait(self, seconds: float) -> None:
        self.world.clock.at += seconds

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.close()


class Periods(RuleBasedStateMachine):
    """Runs that may work once in a bucket, whose marks are left and taken away."""

    @initialize()
    def begin(self) -> None:
        self.world = World()
        self.world.clock.at = 1_800_000_000.0
        self.marks: dict[tuple[str, str], tuple[str, str]] = {}
        self.leases: dict[str, Lease] = {
            name: leased(self.world.store, new_run(name)) for name in EXECUTIONS
        }

    @rule(
        name=st.sampled_from(EXECUTIONS),
        path=st.sampled_from(("", "s")),
        key=st.sampled_from(KEYS),
        every=st.sampled_from(("minute", "hour", 90)),
        succeeds=st.booleans(),
    )
    def work(self, name: str, path: str, key: str, every: str | int, succeeds: bool) -> None:
        bucket = bucket_of(every, self.world.clock.at)
        mark = self.marks.get((key, bucket))
        wanted = [PeriodRequest(key, bucket)]
        answer = self.world.keys.acquire(self.world.ask(name, path, periods=wanted))
        assert isinstance(answer, Granted) is (mark in (None, (name, path)))
        if not isinstance(answer, Granted):
            assert mark is not None
            assert (answer.reason, list(answer.holders)) == (Refusal.PERIOD, [mark[0]])
        elif succeeds:
            self.commit(name, CoordinationChanges(marks=[PeriodMark(key, bucket, name, path)]))
            self.marks.setdefault((key, bucket), (name, path))

    @rule(name=st.sampled_from(EXECUTIONS), path=st.sampled_from(("", "s")))
    def undo(self, name: str, path: str) -> None:
        self.commit(name, CoordinationChanges(unmarks=[path]))
        self.marks = {key: by for key, by in self.marks.items() if by != (name, path)}

    @rule(name=st.sampled_from(EXECUTIONS), kept=st.lists(st.sampled_from(("", "s"))))
    def roll_back(self, name: str, kept: Sequence[str]) -> None:
        self.commit(name, CoordinationChanges(unmark_all_but=kept))
        self.marks = {key: by for key, by in self.marks.items() if by[0] != name or by[1] in kept}

    @rule(seconds=st.sampled_from((0.001, 29.9, 30.0, 59.999, 3600.0)))
    def wait(self, seconds: float) -> None:
        self.world.clock.at += seconds

    def commit(self, name: str, changes: CoordinationChanges) -> None:
        self.world.store.commit(self.leases[name], Changes(coordination=changes))

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.close()


TestWindows = Windows.TestCase
TestWindows.settings = settings(stateful_step_count=30)
TestPeriods = Periods.TestCase
TestPeriods.settings = settings(stateful_step_count=30)
