"""Reactors to be killed: every construct, each action told to the step log."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from calandria import (
    Failure,
    Reactor,
    Retry,
    Step,
    Success,
    compose,
    element,
    fail,
    halt,
    index,
    inputs,
    map_each,
    skip,
    step,
)
from tests.crash.steplog import current, logged, read_log

SOON = Retry(max_attempts=3, base_delay=0.001, jitter=0)


class Act(Step):
    """Does what `script` says, and says that it did."""

    script: str = ""
    needs: object = None

    rollback_retry = SOON

    def run(self) -> str:
        with logged(self.context, "run"):
            return play(self.script, self.context)

    def compensate(self, reason: object) -> None:
        with logged(self.context, "compensate"):
            play_back(self.script, "compensate", self.context)

    def undo(self, result: object) -> None:
        with logged(self.context, "undo"):
            assert result == f"did {self.context.step}", result
            play_back(self.script, "undo", self.context)


def play(script: str, context: Any) -> str:
    words = script.split()
    if "flaky" in words and context.attempt < 3:
        raise RuntimeError(f"attempt {context.attempt}")
    if "fail" in words:
        fail("broken")
    if "raise" in words:
        raise RuntimeError("broken")
    if "halt" in words:
        halt("enough")
    if "skip" in words:
        skip("left out")
    if "cancel" in words:
        Cancelled.cancel(context.run_id, "no more")
    return f"did {context.step}"


def play_back(script: str, action: str, context: Any) -> None:
    words = script.split()
    if f"{action}_flaky" in words and context.attempt < 2:
        raise RuntimeError(f"{action} attempt {context.attempt}")
    if f"{action}_broken" in words:
        raise RuntimeError(f"{action} broken")


class Patient(Act):
    """Is tried again."""

    retry = SOON


class AsyncAct(Step):
    """Like `Act`, in coroutines."""

    script: str = ""
    needs: object = None

    async def run(self) -> str:
        with logged(self.context, "run"):
            await asyncio.sleep(0)
            return play(self.script, self.context)

    async def compensate(self, reason: object) -> None:
        with logged(self.context, "compensate"):
            await asyncio.sleep(0)

    async def undo(self, result: object) -> None:
        with logged(self.context, "undo"):
            await asyncio.sleep(0)


class Asked(Act):
    """Asks the log whether a cut-off attempt landed; what failed did not land."""

    def reconcile(self) -> Success[str] | None:
        with logged(self.context, "reconcile"):
            key = self.context.idempotency_key
            ended = [
                line
                for line in read_log(current()._path)
                if (line.what, line.action, line.key) == ("end", "run", key)
            ]
            return Success(f"did {self.context.step}") if any(e.ok for e in ended) else None


class Forward(Reactor):
    a = step(Act)
    b = step(Patient, script="flaky", needs=a)
    c = step(Act, script="skip", needs=b)
    d = step(Asked, needs=c)

    @step
    def e(*, context: Any, a: str, c: str, d: str) -> list[str]:
        with logged(context, "run"):
            return [a, c, d]


class Back(Reactor):
    """Fails at its end: what is undone fails once, and one of it for good."""

    a = step(Act)
    b = step(Act, script="undo_flaky", needs=a)
    c = step(Act, script="skip", needs=b)
    d = step(Act, script="undo_broken", needs=c)
    e = step(Asked, needs=d)
    f = step(Act, script="raise compensate_flaky", needs=e)
    g = step(Act, needs=f)


class BackWhole(Reactor):
    a = step(Act)
    b = step(Act, script="undo_flaky", needs=a)
    f = step(Patient, script="fail", needs=b)


class Child(Reactor):
    script: str = ""

    first = step(Act, script="")
    second = step(Act, script=inputs.script, needs=first)
    third = step(Act, script="", needs=second)


class Grandchild(Reactor):
    script: str = ""

    own = step(Act, script="")
    child = compose(Child, script=inputs.script).after(own)
    more = step(Act, script="", needs=child)


class Composed(Reactor):
    deep: str = ""
    late: str = ""

    before = step(Act, script="")
    nested = compose(Grandchild, script=inputs.deep).after(before)
    last = step(Act, script=inputs.late, needs=nested)


class Mapped(Reactor):
    scripts: list[str]
    late: str = ""

    before = step(Act, script="")
    each = map_each(Patient, over=inputs.scripts, script=element, needs=index).after(before)
    last = step(Act, script=inputs.late, needs=each)


class MappedReactors(Reactor):
    scripts: list[str]
    late: str = ""

    each = map_each(Child, over=inputs.scripts, script=element)
    last = step(Act, script=inputs.late).after(each)


class Tolerant(Reactor):
    scripts: list[str]
    late: str = ""

    each = map_each(Act, over=inputs.scripts, script=element).keep_going()
    last = step(Act, script=inputs.late).after(each)

    @step
    def count(*, context: Any, each: Any, last: str) -> list[object]:
        with logged(context, "run"):
            return [list(each.successes), [failure.error for failure in each.failures]]


def undo_in_bulk(results: Iterable[str]) -> None:
    current().write("begin", "undo_all", "each")
    found = list(results)
    current().write("end", "undo_all", "each", key=" ".join(found))


class Bulk(Reactor):
    scripts: list[str]
    late: str = ""

    before = step(Act, script="")
    each = map_each(Act, over=inputs.scripts, script=element).undo_all(undo_in_bulk).after(before)
    last = step(Act, script=inputs.late).after(each)


def broken_source(scripts: Sequence[str]) -> Iterator[str]:
    yield from scripts
    raise OSError("the source broke off")


class BrokenSource(Reactor):
    scripts: list[str]

    before = step(Act, script="")
    each = map_each(Act, over=inputs.scripts.map(broken_source), script=element).after(before)


class BrokenReturn(Reactor):
    inner_too: bool = False

    a = step(Act, script="")
    b = step(Act, script="", needs=a)

    returns = b["nothing there"]


class ComposedBrokenReturn(Reactor):
    a = step(Act, script="")
    inner = compose(BrokenReturn).after(a)


class Parent(Step):
    """Does nested work: two steps and a reactor, then what `script` says."""

    script: str = ""
    inner: str = ""
    needs: object = None

    retry = SOON

    def run(self) -> list[object]:
        with logged(self.context, "run"):
            done: list[object] = []
            for result in (
                self.context.call(Act, script=""),
                self.context.run(Child, script=self.inner),
                self.context.call(Act, script=""),
            ):
                if isinstance(result, Failure):
                    fail(result.error)
                done.append(result.value if isinstance(result, Success) else str(result))
            play(self.script, self.context)
            return done

    def compensate(self, reason: object) -> None:
        with logged(self.context, "compensate"):
            pass

    def undo(self, result: object) -> None:
        with logged(self.context, "undo"):
            pass


class Nesting(Reactor):
    script: str = ""
    inner: str = ""
    late: str = ""

    before = step(Act, script="")
    parent = step(Parent, needs=before)
    last = step(Act, script=inputs.late, needs=parent)


class Parallel(Reactor):
    late: str = ""

    concurrency = 4

    a = step(Act, script="")
    b = step(AsyncAct, script="")
    c = step(Act, script="undo_flaky")
    d = compose(Child, script="")
    e = step(Act, script=inputs.late).after(a, b, c, d)


class Async(Reactor):
    late: str = ""

    a = step(AsyncAct, script="")
    b = step(AsyncAct, script="", needs=a)
    c = step(AsyncAct, script=inputs.late, needs=b)


class Halting(Reactor):
    a = step(Act, script="")
    b = step(Act, script="halt", needs=a)
    c = step(Act, script="", needs=b)


class Cancelled(Reactor):
    a = step(Act, script="")
    b = step(Act, script="cancel", needs=a)
    c = step(Act, script="", needs=b)


class Everything(Reactor):
    """A map of reactors that compose, nest and map, beside a step, and then a failure."""

    scripts: list[str]
    late: str = ""

    concurrency = 2

    aside = step(Patient, script="flaky")
    every = map_each(Nesting, over=inputs.scripts, script=element, late="")
    bulk = compose(Bulk, scripts=inputs.scripts, late="")
    last = step(Asked, script=inputs.late).after(aside, every, bulk)
