"""Commits: what they write comes back exactly, all of it or none."""

# A test's name says what it claims.
# ruff: noqa: D102

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from calandria.errors import StorageError
from calandria.ports.run_store import (
    Changes,
    Event,
    Lease,
    RunHeader,
    RunStore,
    StepProgress,
    StepRecord,
    StepUpdate,
)
from calandria.statuses import FINISHED, RollbackState, RunStatus, StepRollback, StepStatus
from calandria.testing.conformance.harness import NOW, TTL, StoreTests, event, leased, new_run, step

_FULL = StepProgress(
    status=StepStatus.FAILED,
    attempts=3,
    recoveries=2,
    completed_order=9,
    result='{"id":1}',
    error='{"message":"no"}',
    rollback=StepRollback.UNDO_FAILED,
    rollback_attempts=4,
    rollback_error='{"message":"still no"}',
    due_at=NOW + 0.000001,
    nested=True,
    finished_at=NOW + 12345.654321,
)

_TEXTS = {
    "unicode": "Zürich 東京 🚢 \u0301 \u200f",
    "escaped lone surrogate": json.dumps("\ud800"),
    "control characters": json.dumps("\x00\x01\x7f\r\n\t"),
    "quotes": "'; DROP TABLE runs; -- \" ` \\ % :name ?1 {select_runs}",
    "empty": "",
    "5 MB": json.dumps("é" * 2_500_000, ensure_ascii=False),
}


class RecordingConformance(StoreTests):
    """What `commit` promises about what it writes."""

    def test_every_field_of_a_step_comes_back(self, store: RunStore, other: RunStore) -> None:
        written = StepRecord("a", "", 2, '{"x":1}', NOW, _FULL)
        store.commit(leased(store), Changes(steps=[written], now=NOW))
        assert other.read_step("run-1", "a") == written

    def test_an_update_replaces_the_changing_part(self, store: RunStore) -> None:
        lease = leased(store)
        store.commit(lease, Changes(steps=[StepRecord("a", "", 2, '{"x":1}', NOW, _FULL)]))
        changed = replace(
            StepProgress(StepStatus.COMPLETED), result="1", error="2", rollback_error="3"
        )
        store.commit(lease, Changes(updates=[StepUpdate("a", changed)], now=NOW))
        assert store.read_step("run-1", "a") == StepRecord("a", "", 2, '{"x":1}', NOW, changed)

    def test_an_update_leaves_values_it_does_not_give(self, store: RunStore) -> None:
        lease = leased(store)
        store.commit(lease, Changes(steps=[step("a", progress=_FULL)]))
        store.commit(lease, Changes(updates=[StepUpdate("a", StepProgress(StepStatus.FAILED))]))

        found = store.read_step("run-1", "a")
        assert found is not None
        assert found.progress == StepProgress(
            StepStatus.FAILED,
            result=_FULL.result,
            error=_FULL.error,
            rollback_error=_FULL.rollback_error,
        )

    def test_a_step_written_again_is_replaced_whole(self, store: RunStore) -> None:
        lease = leased(store)
        store.commit(lease, Changes(steps=[StepRecord("a", "", 2, '{"x":1}', NOW, _FULL)]))
        again = StepRecord("a", "other", 5, None, NOW + 1, StepProgress(StepStatus.STARTED, 2))
        store.commit(lease, Changes(steps=[again], now=NOW))

        assert store.read_step("run-1", "a") == again
        assert list(store.read_steps("run-1", "")) == []
        assert list(store.read_steps("run-1", "other")) == [again]

    def test_steps_are_written_before_updates(self, store: RunStore) -> None:
        done = StepProgress(StepStatus.COMPLETED, 1, result="1")
        store.commit(
            leased(store), Changes(steps=[step("a")], updates=[StepUpdate("a", done)], now=NOW)
        )
        found = store.read_step("run-1", "a")
        assert found is not None
        assert found.progress == done

    def test_steps_of_two_runs_are_apart(self, store: RunStore) -> None:
        first, second = leased(store), leased(store, new_run("run-2"))
        store.commit(first, Changes(steps=[step("a")], events=[event(1)], now=NOW))
        store.commit(second, Changes(steps=[step("a", position=8)], now=NOW))
        done = StepProgress(StepStatus.COMPLETED, 1)
        store.commit(first, Changes(updates=[StepUpdate("a", done)], now=NOW))

        assert store.read_step("run-2", "a") == step("a", position=8)
        assert list(store.read_events("run-2")) == []

    def test_events_come_back_as_written(self, store: RunStore, other: RunStore) -> None:
        events = [
            Event(1, NOW, "run.started"),
            Event(2, NOW + 0.000001, "step.started", "a", '{"attempt":1}'),
        ]
        store.commit(leased(store), Changes(events=events, now=NOW))
        assert list(other.read_events("run-1")) == events

    @pytest.mark.parametrize("status", [*RunStatus])
    def test_a_header_replaces_the_one_before(self, store: RunStore, status: RunStatus) -> None:
        full = RunHeader(
            status=RunStatus.ROLLING_BACK,
            rollback=RollbackState.INCOMPLETE,
            trigger="undo",
            end_status=RunStatus.CANCELLED,
            outcome='"before"',
            pending_compensation="a",
            waits_for="timer",
            wake_at=NOW,
            finished_at=NOW,
        )
        bare = RunHeader(status, finished_at=NOW if status in FINISHED else None)
        lease = leased(store)
        for number, header in enumerate((full, bare, full)):
            store.commit(lease, Changes(header=header, now=NOW + number))
            stored = store.load_run("run-1")
            assert stored is not None
            assert stored.header == header
            assert stored.updated_at == NOW + number

    def test_a_commit_without_a_header_leaves_it(self, store: RunStore) -> None:
        header = RunHeader(RunStatus.PAUSED, outcome='"x"', waits_for="timer", wake_at=NOW)
        lease = leased(store, new_run(header=header))
        store.commit(lease, Changes(events=[Event(1, NOW + 60, "k")], now=NOW + 60))
        stored = store.load_run("run-1")
        assert stored is not None
        assert stored.header == header
        assert stored.updated_at == NOW + 60
        store.commit(lease, Changes(release=True, now=NOW + 90))
        stored = store.load_run("run-1")
        assert stored is not None
        assert (stored.header, stored.updated_at) == (header, NOW + 90)

    def test_a_commit_that_fails_half_way_writes_nothing(self, store: RunStore) -> None:
        lease = leased(store)
        store.commit(lease, Changes(events=[event(1)], now=NOW))
        header = RunHeader(RunStatus.FAILED, outcome='"x"')
        # the second event's sequence is taken: the last statement of the commit fails
        changes = Changes(header, [step("a")], (), [event(2), event(1)], True, NOW + 9)
        with pytest.raises(StorageError):
            store.commit(lease, changes)

        stored = store.load_run("run-1")
        assert stored is not None
        assert (stored.header, stored.lease_owner) == (RunHeader(RunStatus.RUNNING), "first")
        assert stored.updated_at == NOW
        assert store.read_step("run-1", "a") is None
        assert [each.sequence for each in store.read_events("run-1")] == [1]
        store.commit(lease, Changes(events=[event(2)], now=NOW))

    def test_an_update_of_no_record_is_refused(self, store: RunStore) -> None:
        lease = leased(store)
        update = StepUpdate("missing", StepProgress(StepStatus.COMPLETED))
        with pytest.raises(StorageError, match="missing"):
            store.commit(lease, Changes(updates=[update], events=[event(1)], now=NOW))
        assert list(store.read_events("run-1")) == []

    @pytest.mark.parametrize("kind", _TEXTS)
    def test_texts_come_back_unchanged(self, store: RunStore, other: RunStore, kind: str) -> None:
        text = _TEXTS[kind]
        lease = leased(store, new_run(inputs=text))
        progress = replace(_FULL, result=text, error=text, rollback_error=text)
        written = StepRecord("a", "", 0, text, NOW, progress)
        header = RunHeader(RunStatus.COMPLETED, outcome=text, finished_at=NOW)
        line = Event(1, NOW, "kind", "a", text)
        store.commit(lease, Changes(header, [written], (), [line], True, NOW))

        stored = other.load_run("run-1")
        assert stored is not None
        assert (stored.run.inputs, stored.header.outcome) == (text, text)
        assert other.read_step("run-1", "a") == written
        assert list(other.read_events("run-1")) == [line]

    @pytest.mark.parametrize("at", [0.0, 1e-6, 1_799_999_999.999999, 253_402_300_799.0, NOW])
    def test_instants_keep_their_precision(self, store: RunStore, at: float) -> None:
        header = RunHeader(RunStatus.RUNNING, wake_at=at, finished_at=at)
        new = new_run(header=header, created_at=at)
        lease = store.create_run(new, Changes(now=at), owner="first", ttl=TTL)
        assert isinstance(lease, Lease)
        record = StepRecord("a", "", 0, None, at, replace(_FULL, due_at=at, finished_at=at))
        store.commit(lease, Changes(steps=[record], events=[Event(1, at, "k")], now=at))

        stored = store.load_run("run-1")
        assert stored is not None
        assert (stored.run.created_at, stored.updated_at) == (at, at)
        assert stored.header == header
        assert store.read_step("run-1", "a") == record
        assert store.read_events("run-1")[0].at == at

    def test_text_that_no_storage_can_hold_is_refused_by_name(self, store: RunStore) -> None:
        lease = leased(store)
        with pytest.raises(StorageError, match="surrogate"):
            store.commit(lease, Changes(events=[Event(1, NOW, "kind", "\ud800")], now=NOW))
        assert list(store.read_events("run-1")) == []
