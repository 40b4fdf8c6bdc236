"""What elements of a map that kept going could not clean up is a remain of the run."""

from __future__ import annotations

from calandria import (
    Failure,
    Reactor,
    RollbackState,
    RunStatus,
    Runtime,
    Step,
    Success,
    element,
    fail,
    inputs,
    map_each,
)


class Outage(Exception):
    """Raised by a compensate that cannot do its work yet."""


mended: set[str] = set()


class Import(Step):
    row: int

    def run(self) -> int:
        if self.row == 2:
            fail("row 2 is bad")
        return self.row

    def compensate(self, reason: object) -> None:
        if "storage" not in mended:
            raise Outage("the storage is down")


class Imports(Reactor):
    rows: list[int]

    imported = map_each(Import, over=inputs.rows, row=element).keep_going()


def test_a_completed_run_with_remains_needs_attention_and_undo_finishes_it() -> None:
    mended.clear()
    with Runtime("memory://"):
        # Given a map that kept going past an element whose compensate failed
        result = Imports.run(rows=[1, 2, 3])
        assert isinstance(result, Success) and result.run_id is not None
        run = Imports.find(result.run_id)
        assert run.status is RunStatus.COMPLETED
        assert run.rollback is RollbackState.INCOMPLETE
        assert run.needs_attention
        # When the cause is mended and the run undone
        mended.add("storage")
        undone = run.undo()
        # Then nothing is left
        assert isinstance(undone, Failure) and undone.rollback_failures == []
        assert Imports.find(run.id).status is RunStatus.CANCELLED
        assert Imports.find(run.id).rollback is RollbackState.COMPLETE
        assert not run.needs_attention
