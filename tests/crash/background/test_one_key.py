"""Many processes call one reactor under one key at the same moment: one run comes of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from calandria import Dispatched, Reactor, Success, runs
from tests.crash.background.reactors import Chain, Here, SpawnsHere
from tests.crash.background.workshop import Workshop, end
from tests.crash.children import Child, alone, until

REACTORS: dict[str, type[Reactor]] = {"caller": Here, "worker": Chain, "spawning": SpawnsHere}


def _one_key(folder: Path, where: str, count: str) -> None:
    reactor = REACTORS[where]
    shop = Workshop(folder, lease=20)
    gate, told = folder / "gate", folder / "told"
    told.mkdir()

    def call(number: int) -> None:
        with shop.runtime() as runtime:
            runtime.prepare()
            (told / f"ready-{number}").touch()
            until(gate.exists, "the gate was not opened")
            bound = reactor.options(idempotency_key="the only one")
            result = bound.run()  # type: ignore[attr-defined]
            assert isinstance(result, (Dispatched, Success)), result
            (told / f"run-{number}").write_text(str(result.run_id))

    callers = [Child(lambda number=number: call(number)) for number in range(int(count))]
    until(lambda: len(list(told.glob("ready-*"))) == int(count), "the callers are not ready")
    gate.touch()
    worker = shop.worker(2)
    for caller in callers:
        caller.join()
    with shop.runtime() as runtime:
        (run,) = runs(runtime=runtime)
        assert isinstance(run.wait(20), Success)
        assert {file.read_text() for file in told.glob("run-*")} == {run.id}
        assert len(list(run.children)) == (1 if where == "spawning" else 0)
    begun = [(deed.run, deed.path, deed.attempt) for deed in shop.deeds() if deed.what == "begin"]
    assert len(begun) == len(set(begun)), "a step ran twice"
    end(worker)


@pytest.mark.parametrize("where", REACTORS)
def test_ten_processes_with_one_key(tmp_path: Path, where: str) -> None:
    alone(_one_key, tmp_path, where, "10")


@pytest.mark.slow
@pytest.mark.parametrize("where", REACTORS)
def test_fifty_processes_with_one_key(tmp_path: Path, where: str) -> None:
    alone(_one_key, tmp_path, where, "50")
