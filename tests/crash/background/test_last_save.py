"""A caller's last save and a worker's resume, in both orders: no progress is lost or repeated.

The caller is held just before, or just after, the commit with which it hands its run over. Where
it is held before, the worker's lease clock runs ahead, so that the caller looks dead to it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from calandria import Dispatched, Reactor, StaleLease, Success, runs
from calandria.ports.run_store import Changes, Lease
from calandria.storage import open_store
from tests.crash.background.checks import tree_of
from tests.crash.background.deeds import Acting
from tests.crash.background.reactors import HandsAfter, HandsBefore, HandsUnit
from tests.crash.background.workshop import Workshop
from tests.crash.children import Child, alone, until
from tests.crash.killing import LATER_SECONDS, LaterClock

Kind = tuple[type[Reactor], dict[str, Any], str, str]

REACTORS: list[Kind] = [
    (HandsAfter, {}, "b", "did d"),
    (HandsBefore, {}, "b", "did d"),
    (HandsUnit, {}, "a", "did b"),
    (HandsAfter, {"late": "fail"}, "b", ""),
]


class Held:
    """Holds this process before or after the commit that lets go of its run."""

    def __init__(self, store: Any, order: str, folder: Path) -> None:
        self._store = store
        self._order = order
        self._at, self._gate = folder / "at", folder / "gate"

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def commit(self, lease: Lease, changes: Changes) -> str | None:
        if not changes.release:
            return self._store.commit(lease, changes)  # type: ignore[no-any-return]
        if self._order == "worker first":
            self._hold()
        reason: str | None = self._store.commit(lease, changes)
        if self._order == "caller first":
            self._hold()
        return reason

    def _hold(self) -> None:
        self._at.touch()
        until(self._gate.exists, "the gate was not opened")


def _interleave(folder: Path, count: str, seed: str) -> None:
    chance = random.Random(int(seed))
    for number in range(int(count)):
        for order in ("caller first", "worker first"):
            place = folder / f"{number} {order}"
            place.mkdir()
            _once(place, order, chance.choice(REACTORS), chance.random() < 0.5)
    print(f"{count} interleavings in each order, seed {seed}")


def _once(folder: Path, order: str, kind: Kind, goes_back: bool) -> None:
    """`goes_back`: the caller's commit returns while the worker still works, not after."""
    reactor, inputs, last_in_caller, expected = kind
    shop = Workshop(folder, lease=30)
    at, gate = folder / "at", folder / "gate"

    def call() -> None:
        with shop.runtime(Held(open_store(shop.url), order, folder)) as runtime:
            try:
                result = reactor.options(runtime=runtime).run(**inputs)  # type: ignore[attr-defined]
            except StaleLease:
                assert order == "worker first"
            else:
                assert order == "caller first" and isinstance(result, Dispatched), result

    def work() -> None:
        ahead = LATER_SECONDS if order == "worker first" else 0.0
        store = open_store(shop.url, clock=LaterClock(ahead))

        def open_gate(context: Any) -> None:
            gate.touch()
            caller.join_elsewhere()

        if goes_back:
            Acting.by_path = {("run", "d"): open_gate}
        with shop.runtime(store) as runtime:
            worker = runtime.start_worker(1)
            if order == "worker first":
                assert runtime.sweep() == 1
                runtime.wakeups.wake_all()
            (run,) = runs(runtime=runtime)
            run.wait(20)
            worker.stop()

    caller = Caller(call, folder / "caller-ended")
    until(at.exists, "the caller did not come to its last save")
    Child(work).join()
    gate.touch()
    caller.child.join()
    with shop.runtime() as runtime:
        (run,) = runs(runtime=runtime)
        result: Any = run.result
        assert (result == Success(expected)) if expected else (run.status.value == "failed"), result
        assert run.lease_owner is None
        tree_of(run, runtime, shop.deeds(), None)
        assert run.epoch >= 2
    begun = [
        (deed.path, deed.attempt)
        for deed in shop.deeds()
        if (deed.what, deed.action) == ("begin", "run")
    ]
    again = {path for path, attempt in begun if begun.count((path, attempt)) > 1}
    # the end of the last step in the caller was to be saved with the hand-over, and was not
    assert again <= ({last_in_caller} if order == "worker first" else set()), again


class Caller:
    """A caller's process, whose end others can wait for."""

    def __init__(self, work: Callable[[], None], ended: Path) -> None:
        self._ended = ended

        def and_say_so() -> None:
            try:
                work()
            finally:
                ended.touch()

        self.child = Child(and_say_so)

    def join_elsewhere(self) -> None:
        until(self._ended.exists, "the caller did not end")


def test_a_few_interleavings_of_last_save_and_resume(tmp_path: Path) -> None:
    alone(_interleave, tmp_path, "8", "1")


@pytest.mark.slow
@pytest.mark.parametrize("seed", ["2", "3", "4", "5"])
def test_a_hundred_interleavings_of_last_save_and_resume(tmp_path: Path, seed: str) -> None:
    alone(_interleave, tmp_path, "25", seed)
