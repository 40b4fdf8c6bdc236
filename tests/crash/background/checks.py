"""What must be true of background runs, however often workers and callers were killed or stopped.

All is judged by epochs, not by time: an action may begin again only under a lease that was taken
before its end was recorded. A process that was stopped inside an action and wakes later still has
its old epoch.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from calandria import Run, Runtime
from tests.crash import checks
from tests.crash.background.deeds import Deed
from tests.crash.checks import Outcome

_ENDS = {"completed", "skipped", "halted", "failed"}
_BACK = {"undo": "undo", "compensate": "compensate"}


@dataclass(frozen=True)
class Tree:
    """What a run came to, and the units it dispatched."""

    outcome: Outcome
    units: dict[str, Tree]


def tree_of(run: Run, runtime: Runtime, deeds: Sequence[Deed], whole: Tree | None) -> Tree:
    """Check a run and every unit below it; return what it came to."""
    own = [deed for deed in deeds if deed.run == run.id]
    reference = None if whole is None else whole.outcome
    try:
        outcome = checks.check(run, runtime, [], reference, True)
        records = list(checks.all_records(runtime.store, run.id))
        checks.check_order([deed.as_line() for deed in own], records)
        _check_keys(own)
        _check_epochs(run, own)
        _check_done(own, records)
        units: dict[str, Tree] = {}
        for unit in run.children:
            stored = runtime.store.load_run(unit.id)
            assert stored is not None
            path = stored.run.parent_path or ""
            assert path not in units, f"{path} was dispatched twice"
            units[path] = tree_of(
                unit, runtime, deeds, None if whole is None else whole.units.get(path)
            )
        if whole is not None:
            assert units.keys() == whole.units.keys(), (units.keys(), whole.units.keys())
    except AssertionError as error:
        story = [f"{entry.kind} {entry.path or ''} {entry.data}" for entry in run.trace]
        lines = [str(deed) for deed in own]
        raise AssertionError(
            "\n".join([f"{run.reactor} {run.id}: {error}", *story, *lines])
        ) from None
    return Tree(outcome, units)


def _check_keys(deeds: Sequence[Deed]) -> None:
    keys: dict[tuple[str, str], set[str]] = defaultdict(set)
    for deed in deeds:
        keys[deed.path, "run" if deed.action == "run" else "back"].add(deed.key)
    several = {what: found for what, found in keys.items() if len(found) > 1}
    assert not several, f"one action under several keys: {several}"
    every = Counter(key for found in keys.values() for key in found)
    assert not [key for key, count in every.items() if count > 1], "one key for two actions"


def _check_epochs(run: Run, deeds: Sequence[Deed]) -> None:
    """Nothing begins under an epoch that is later than the one that recorded its end."""
    ended: dict[tuple[str, str, int | None], int] = {}
    failures: Counter[str] = Counter()
    epoch = 1
    for entry in run.trace:
        kind, _, what = entry.kind.partition(".")
        path = entry.path or ""
        if entry.kind == "run.taken_up":
            assert int(entry.data["epoch"]) >= epoch, "an older owner wrote after a newer one"
            epoch = int(entry.data["epoch"])
        elif kind == "step" and what == "retrying":
            failures[path] += 1
            ended[path, "run", failures[path]] = epoch
        elif kind == "step" and what in _ENDS:
            assert (path, "run", None) not in ended, f"{path} ended twice"
            ended[path, "run", None] = epoch
        elif kind in _BACK and what in ("completed", "failed"):
            ended[path, kind, None] = epoch
    begun: Counter[tuple[str, str, int, int]] = Counter()
    for deed in deeds:
        if deed.what != "begin":
            continue
        begun[deed.path, deed.action, deed.epoch, deed.attempt] += 1
        for attempt in (None, deed.attempt):
            over = ended.get((deed.path, deed.action, attempt))
            assert over is None or deed.epoch <= over, (
                f"{deed.action} of {deed.path} was over in epoch {over}, and began again: {deed}"
            )
    twice = [what for what, count in begun.items() if count > 1]
    assert not twice, f"begun twice under one lease: {twice}"


def _check_done(deeds: Sequence[Deed], records: Sequence[object]) -> None:
    """What is recorded as completed was done."""
    done = {
        deed.path for deed in deeds if (deed.what, deed.action, deed.ok) == ("end", "run", True)
    }
    begun = {deed.path for deed in deeds if deed.action == "run"}
    claimed = {
        record.path  # type: ignore[attr-defined]
        for record in records
        if record.progress.status.value == "completed"  # type: ignore[attr-defined]
    }
    assert claimed & begun <= done, (
        f"recorded as completed, but never were: {claimed & begun - done}"
    )
