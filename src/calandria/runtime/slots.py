"""What an open level holds of one step."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from calandria.engine.node_state import NodeState
from calandria.errors import EncodingError
from calandria.ports.codec import Codec
from calandria.ports.run_store import StepProgress, StepRecord
from calandria.results import Failure, RecordedFailure, RollbackFailure
from calandria.runtime.values import Value
from calandria.statuses import StepRollback

if TYPE_CHECKING:
    from calandria.runtime.needs import Needs
    from calandria.runtime.nested import NestedWork


@dataclass(slots=True, eq=False)
class Slot:
    """The data of one step: the engine's `NodeState` says where it stands, this is the rest."""

    path: str
    recorded: bool = False
    """Whether the journal has a record of it."""
    inputs_text: str | None = None
    values: dict[str, Any] | None = None
    """The inputs for the next attempt; each action has its own."""
    result: Value | None = None
    failure: Failure | None = None
    reason: BaseException | str | None = None
    """What `compensate` is told."""
    rollback_failures: list[RollbackFailure] = field(default_factory=list)
    started_at: float = 0.0
    finished_at: float | None = None
    due_at: float | None = None
    nested: NestedWork | None = None
    needs: Needs | None = None
    """What it declares to need, its keys computed."""
    seconds: float | None = None
    """How long the action that ended last took."""
    unsaved_result: str | None = None
    unsaved_error: str | None = None
    unsaved_rollback_error: str | None = None

    @classmethod
    def of_record(cls, record: StepRecord, codec: Codec) -> Slot:
        """Return the slot of a step that the journal knows."""
        progress = record.progress
        slot = cls(
            record.path,
            recorded=True,
            inputs_text=record.inputs,
            started_at=record.started_at,
            finished_at=progress.finished_at,
            due_at=progress.due_at,
        )
        if progress.result is not None:
            slot.result = Value(progress.result, codec)
        if progress.error is not None:
            slot.failure = decode_failure(progress.error, codec)
            slot.reason = RecordedFailure(slot.failure.error, slot.failure.exception_class)
        if progress.rollback_error is not None:
            slot.rollback_failures = decode_rollback_failures(progress.rollback_error, codec)
        return slot

    def progress(self, state: NodeState) -> StepProgress:
        """Return what the journal is to say now; what was not saved yet is saved by it."""
        assert state.status is not None
        progress = StepProgress(
            status=state.status,
            attempts=state.attempts,
            recoveries=state.recoveries,
            completed_order=state.order,
            result=self.unsaved_result,
            error=self.unsaved_error,
            rollback=state.rollback,
            rollback_attempts=state.rollback_attempts,
            rollback_error=self.unsaved_rollback_error,
            due_at=self.due_at,
            nested=state.nested,
            finished_at=self.finished_at,
        )
        self.unsaved_result = self.unsaved_error = self.unsaved_rollback_error = None
        return progress


def node_state_of(record: StepRecord) -> NodeState:
    """Return where a step stands, from its record."""
    progress = record.progress
    return NodeState(
        status=progress.status,
        attempts=progress.attempts,
        recoveries=progress.recoveries,
        order=progress.completed_order,
        rollback=progress.rollback,
        rollback_attempts=progress.rollback_attempts,
        rollback_due=progress.due_at is not None and progress.rollback in _UNDER_WAY,
        nested=progress.nested,
    )


_UNDER_WAY = frozenset({StepRollback.COMPENSATING, StepRollback.UNDOING})


def encode_failure(failure: Failure, codec: Codec) -> str:
    """Return a failure as it is recorded, without what only lives in this process.

    A payload, inputs or details that cannot be recorded do not hide the failure: they are left out.
    """
    plain = dataclasses.replace(failure, exception=None, run_id=None)
    try:
        return codec.encode(plain)
    except EncodingError:
        bare = dataclasses.replace(plain, inputs={}, payload=None, validation_errors={})
        return codec.encode(bare)


def decode_failure(text: str, codec: Codec) -> Failure:
    """Return a recorded failure; its exception is a `RecordedFailure`."""
    failure = codec.decode(text)
    assert isinstance(failure, Failure)
    if failure.exception_class is not None:
        recorded = RecordedFailure(failure.error, failure.exception_class)
        object.__setattr__(failure, "exception", recorded)
    return failure


def decode_rollback_failures(text: str, codec: Codec) -> list[RollbackFailure]:
    """Return recorded rollback failures."""
    found = codec.decode(text)
    assert isinstance(found, list)
    return [failure for failure in found if isinstance(failure, RollbackFailure)]
