"""What a run calls on its own, from any body of its own, cannot wait for the run's own keys."""

from __future__ import annotations

from typing import Any

import pytest

from calandria import Failure, Lock, Reactor, Runtime, element, fail, map_each, step


class Inner(Reactor):
    coordination = [Lock("k", wait=30)]

    @step
    def work() -> None: ...


def run_inner(results: Any) -> None:
    Inner.run()


async def arun_inner(results: Any) -> None:
    await Inner.arun()


@pytest.mark.parametrize("undo_all", [run_inner, arun_inner])
def test_a_bulk_undo_is_told_at_once(runtime: Runtime, undo_all: Any) -> None:
    def one(*, number: int) -> int:
        return number

    class Outer(Reactor):
        coordination = [Lock("k")]

        each = map_each(one, over=[1, 2], number=element).undo_all(undo_all)

        @step
        def last(*, each: list[int]) -> None:
            fail("no")

    result = Outer.run()

    assert isinstance(result, Failure)
    [left] = result.rollback_failures
    assert left.kind == "undo_all"
    assert "wait for itself" in left.message
