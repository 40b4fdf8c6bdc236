"""What must be true of a run however often its processes were killed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from calandria import Failure, Run, Runtime
from calandria.ports.run_store import RunStore, StepRecord
from calandria.statuses import StepRollback, StepStatus
from tests.crash.steplog import Line

_ROLLBACK_EVENTS = {
    "undo.completed": StepRollback.UNDONE,
    "undo.failed": StepRollback.UNDO_FAILED,
    "compensate.completed": StepRollback.COMPENSATED,
    "compensate.failed": StepRollback.COMPENSATE_FAILED,
}


@dataclass(frozen=True)
class Outcome:
    """What a run came to."""

    status: str
    rollback: str
    result: str
    steps: dict[str, tuple[str, str]]


def outcome_of(run: Run, records: Sequence[StepRecord]) -> Outcome:
    result: Any = run.result
    if isinstance(result, Failure):
        left = sorted((f.step, f.kind, f.reason) for f in result.rollback_failures)
        shown = f"{result.error} at {result.step}, left {left}"
    else:
        shown = repr(getattr(result, "value", getattr(result, "reason", result)))
    steps = {
        record.path: (record.progress.status.value, record.progress.rollback.value)
        for record in records
    }
    return Outcome(run.status.value, run.rollback.value, shown, steps)


def all_records(store: RunStore, run_id: str, scope: str = "") -> Iterator[StepRecord]:
    for record in store.read_steps(run_id, scope, limit=10_000):
        yield record
        yield from all_records(store, run_id, record.path)


def check(
    run: Run, runtime: Runtime, log: Sequence[Line], reference: Outcome | None, same_steps: bool
) -> Outcome:
    """Check one run; `reference` is what an uninterrupted one came to."""
    records = list(all_records(runtime.store, run.id))
    found = outcome_of(run, records)
    assert run.lease_owner is None, f"a lease is left: {run.lease_owner}"
    _check_settled(found, records)
    if reference is not None:
        expected = (reference.status, reference.rollback, reference.result)
        assert (found.status, found.rollback, found.result) == expected, (
            f"it came to {found.status}, {found.rollback}, {found.result}; "
            f"uninterrupted to {expected}"
        )
        if same_steps:
            different = {
                path: (found.steps.get(path), reference.steps.get(path))
                for path in found.steps.keys() | reference.steps.keys()
                if found.steps.get(path) != reference.steps.get(path)
                and not _is_repeat(path, found, reference)
            }
            assert not different, f"steps differ (found, uninterrupted): {different}"
    check_log(log)
    check_order(log, records)
    check_journal(run, records)
    return found


def _is_repeat(path: str, found: Outcome, reference: Outcome) -> bool:
    """Tell whether this is nested work that a cut-off attempt did again, and that was undone."""
    rolled_back = found.steps.get(path, ("", ""))[1] in ("undone", "compensated")
    return "/~" in path and path not in reference.steps and rolled_back


def _check_settled(found: Outcome, records: Sequence[StepRecord]) -> None:
    assert found.status in ("completed", "failed", "halted", "cancelled"), found.status
    under_way = [
        record.path
        for record in records
        if record.progress.rollback in (StepRollback.UNDOING, StepRollback.COMPENSATING)
        or (
            found.status in ("completed", "failed")
            and record.progress.rollback is StepRollback.NONE
            and record.progress.status in (StepStatus.STARTED, StepStatus.RETRYING)
        )
    ]
    assert not under_way, f"the run is {found.status}, but {under_way} are under way"


def check_log(log: Sequence[Line]) -> None:
    """Nothing whose end was committed is done again; repeats keep their key and number."""
    over: set[tuple[str, str, int | None]] = set()
    keys: dict[tuple[str, str], str] = {}
    begun: set[tuple[str, str, int, int]] = set()
    for line in log:
        if line.what == "committed":
            over |= _over(line)
        if line.what != "begin":
            continue
        for attempt in (None, line.attempt):
            assert (line.path, line.action, attempt) not in over, (
                f"{line.action} of {line.path} was over, and began again: {line}"
            )
        if line.action == "undo_all":
            continue
        kind = "run" if line.action == "reconcile" else line.action
        assert keys.setdefault((line.path, kind), line.key) == line.key, f"another key: {line}"
        this = (line.path, line.action, line.attempt, line.pid)
        assert this not in begun, f"twice in one process: {line}"
        begun.add(this)
    assert len(set(keys.values())) == len(keys), f"one key for two actions: {keys}"


def _over(line: Line) -> set[tuple[str, str, int | None]]:
    over: set[tuple[str, str, int | None]] = set()
    if line.status in ("completed", "skipped", "halted", "failed"):
        over.add((line.path, "run", None))
    if line.status == "retrying":
        over.add((line.path, "run", line.attempt))
    if line.rollback == "undone":
        over |= {(line.path, "undo", None), (line.path, "undo_all", None)}
    if line.rollback == "compensated":
        over.add((line.path, "compensate", None))
    return over


def check_order(log: Sequence[Line], records: Sequence[StepRecord]) -> None:
    """What was undone was undone, each after all that completed later than it."""
    scopes = {record.path: record.scope for record in records}
    orders = {record.path: record.progress.completed_order for record in records}

    def line_of(path: str) -> list[str]:
        return [*line_of(scopes[path]), path] if path else []

    def later(one: str, other: str) -> bool:
        """Tell whether `one` may be undone before `other`."""
        for mine, theirs in zip(line_of(one), line_of(other), strict=False):
            first, second = orders[mine], orders[theirs]
            if mine != theirs:
                # what failed rolled itself back when it did
                return first is None or second is None or first > second
        return True

    undone: list[str] = []
    well: set[str] = set()
    for line in log:
        if line.action == "undo" and line.what == "begin" and line.path not in undone:
            undone.append(line.path)
        if line.action == "undo" and line.what == "end" and line.ok:
            well.add(line.path)
    wrong = [pair for pair in combinations(undone, 2) if not later(*pair)]
    assert not wrong, f"undone out of order: {wrong}"
    ran = {line.path for line in log if (line.what, line.action) == ("end", "run")}
    claimed = {
        r.path
        for r in records
        if r.progress.rollback is StepRollback.UNDONE
        and r.path in ran
        and r.progress.status is StepStatus.COMPLETED
    }
    bulk = any(line.action == "undo_all" for line in log)
    assert bulk or claimed <= well, f"recorded as undone, but never were: {claimed - well}"


def check_journal(run: Run, records: Sequence[StepRecord]) -> None:
    """Folding the trace gives the records."""
    by_path = {record.path: record for record in records}
    status: dict[str, str] = {}
    rollback: dict[str, StepRollback] = {}
    last = 0
    ending = ""
    for entry in run.trace:
        # a kill may lose the lines of a thread whose turn to commit came after another's
        assert entry.sequence > last, f"the trace falls from {last} to {entry.sequence}"
        last = entry.sequence
        kind, _, what = entry.kind.partition(".")
        if kind == "run" and what not in ("started", "taken_up", "rolling_back"):
            ending = what
        elif kind == "step" and what != "reconciling":
            status[entry.path or ""] = what
        elif entry.kind in _ROLLBACK_EVENTS:
            rollback[entry.path or ""] = _ROLLBACK_EVENTS[entry.kind]
    assert ending == run.status.value, f"the trace ends in {ending}, the run is {run.status.value}"
    for path, record in by_path.items():
        told, held = status.get(path), record.progress.status.value
        # an attempt in doubt that a rollback settled has no line of its own
        in_doubt = told in ("started", "retrying") and held in ("failed", "completed", "skipped")
        assert told == held or in_doubt, f"{path} is {held}, the trace says {told}"
        if path in rollback:
            assert rollback[path] is record.progress.rollback, (path, rollback[path], record)
