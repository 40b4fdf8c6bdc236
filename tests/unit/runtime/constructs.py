"""Every construct that a step can stand in, as makers of a reactor's member."""

from __future__ import annotations

from typing import Any

from calandria import Reactor, Step, compose, map_each, step


def plain(target: type[Step]) -> Any:
    return step(target)


def composed(target: type[Step]) -> Any:
    class Inner(Reactor):
        work = step(target)

    return compose(Inner)


def mapped(target: type[Step]) -> Any:
    return map_each(target, over=[0])


def mapped_reactor(target: type[Step]) -> Any:
    class Inner(Reactor):
        work = step(target)

    return map_each(Inner, over=[0])


def called(target: type[Step]) -> Any:
    class Caller(Step):
        def run(self) -> Any:
            return self.context.call(target)

    return step(Caller)


def called_reactor(target: type[Step]) -> Any:
    class Inner(Reactor):
        work = step(target)

    class Caller(Step):
        def run(self) -> Any:
            return self.context.run(Inner)

    return step(Caller)


def awaited(target: type[Step]) -> Any:
    class Caller(Step):
        async def run(self) -> Any:
            return await self.context.acall(target)

    return step(Caller)


def awaited_reactor(target: type[Step]) -> Any:
    class Inner(Reactor):
        work = step(target)

    class Caller(Step):
        async def run(self) -> Any:
            return await self.context.arun(Inner)

    return step(Caller)


def three_deep(target: type[Step]) -> Any:
    class Third(Reactor):
        work = step(target)

    class Second(Reactor):
        third = compose(Third)

    class First(Reactor):
        second = map_each(Second, over=[0])

    return compose(First)


DECLARED = [plain, composed, mapped, mapped_reactor, three_deep]
CONSTRUCTS = [*DECLARED, called, called_reactor, awaited, awaited_reactor]

PATHS = {
    plain: "subject",
    composed: "subject/work",
    mapped: "subject[0]",
    mapped_reactor: "subject[0]/work",
    three_deep: "subject/second[0]/third/work",
}
"""Where the step stands in the run when the member is called `subject`."""
