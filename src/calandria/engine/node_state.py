"""Where one step of a run stands."""

from __future__ import annotations

from dataclasses import dataclass

from calandria.statuses import (
    STEP_ROLLBACK_TRANSITIONS,
    STEP_TRANSITIONS,
    StepRollback,
    StepStatus,
)


@dataclass(slots=True)
class NodeState:
    """Where one step stands."""

    status: StepStatus | None = None
    """`None` if it was not reached."""
    attempts: int = 0
    recoveries: int = 0
    order: int | None = None
    rollback: StepRollback = StepRollback.NONE
    rollback_attempts: int = 0
    rollback_due: bool = False
    """The last attempt at its compensate or undo failed, and the next is still to be made."""
    nested: bool = False

    def move(self, status: StepStatus) -> None:
        """Go to `status`; raises `AssertionError` if the table does not allow it."""
        if self.status is not None:
            assert status in STEP_TRANSITIONS[self.status], (self.status, status)
        self.status = status

    def roll(self, rollback: StepRollback) -> None:
        """Go backward to `rollback`; raises `AssertionError` if the table does not allow it."""
        assert rollback in STEP_ROLLBACK_TRANSITIONS[self.rollback], (self.rollback, rollback)
        self.rollback = rollback
