"""Looking at runs: find one, list and filter them, read a trace, prune what is finished."""

from __future__ import annotations

from calandria import (
    Reactor,
    RollbackState,
    RunStatus,
    Runtime,
    UnknownRun,
    fail,
    runs,
    step,
)


class Import(Reactor):
    rows: int

    @step
    def read(*, rows: int) -> int:
        return rows

    @step
    def store(*, read: int) -> str:
        if read > 100:
            fail(f"{read} rows are too many")
        return f"{read} rows stored"


def main(runtime: Runtime) -> None:
    for rows in (1, 2, 300):
        Import.run(rows=rows)

    newest, *older = runs(reactor=Import)  # newest first, read as they are asked for
    print(newest.id, newest.status.value, newest.result)
    assert newest.status is RunStatus.FAILED
    assert newest.rollback is RollbackState.COMPLETE
    assert len(older) == 2

    (done, _) = runs(reactor=Import, status=RunStatus.COMPLETED)
    again = Import.find(done.id)
    assert again.results == {"read": 2, "store": "2 rows stored"}
    assert list(runs(needs_attention=True)) == []

    for event in newest.trace:
        print(event.kind, event.path or "")
    paths = [event.path for event in newest.trace]
    assert "read" in paths and "store" in paths

    try:
        Import.find("no-such-run")
    except UnknownRun as error:
        print(error)
    else:
        raise AssertionError("a run that is not there cannot be found")

    assert runtime.prune(older_than=0) == 3
    assert list(runs()) == []


if __name__ == "__main__":
    with Runtime(storage="memory://") as this_runtime:
        main(this_runtime)
