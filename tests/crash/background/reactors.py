"""Reactors that go through workers: hand-offs, retries, spawned units, maps, concurrency."""

from __future__ import annotations

from typing import Any

from calandria import (
    Failure,
    Reactor,
    after,
    before,
    compose,
    element,
    inputs,
    map_each,
    spawn,
    step,
)
from tests.crash.background.deeds import Act, Asked, Patient, told


class Here(Reactor):
    """Runs in the caller."""

    late: str = ""

    a = step(Act)
    b = step(Patient, script="flaky", needs=a)
    c = step(Asked, script=inputs.late, needs=b)


class Forward(Reactor):
    background = True

    a = step(Act)
    b = step(Patient, script="flaky", needs=a)
    c = step(Act, script="skip", needs=b)
    d = step(Asked, needs=c)


class Back(Reactor):
    """Fails at its end: what is undone fails once, and one of it for good."""

    background = True

    a = step(Act)
    b = step(Act, script="undo_flaky", needs=a)
    c = step(Act, script="undo_broken", needs=b)
    d = step(Patient, script="flaky", needs=c)
    e = step(Act, script="raise compensate_flaky", needs=d)


class HandsAfter(Reactor):
    late: str = ""

    a = step(Act, script="")
    b = step(Patient, script="flaky", needs=a)
    c = step(Act, script="", needs=b)
    d = step(Act, script=inputs.late, needs=c)

    background = after(b)


class HandsBefore(Reactor):
    late: str = ""

    a = step(Act, script="")
    b = step(Act, script="", needs=a)
    c = step(Patient, script="flaky", needs=b)
    d = step(Act, script=inputs.late, needs=c)

    background = before(c)


class HandsUnit(Reactor):
    """Hands over after its first step, with a unit to dispatch."""

    a = step(Act, script="")
    b = step(Act, script="", needs=a)
    unread = spawn(Act, script="").after(a)

    background = after(a)
    returns = b


class Child(Reactor):
    script: str = ""

    first = step(Act, script="")
    second = step(Patient, script=inputs.script, needs=first)
    third = step(Act, script="", needs=second)


class Maps(Reactor):
    scripts: list[str]
    late: str = ""

    background = True

    before = step(Act, script="")
    each = map_each(Patient, over=inputs.scripts, script=element).after(before)
    every = map_each(Child, over=inputs.scripts, script=element).after(each)
    last = step(Act, script=inputs.late).after(every)


class Parallel(Reactor):
    late: str = ""

    background = True
    concurrency = 3

    a = step(Act, script="")
    b = step(Patient, script="flaky")
    c = step(Act, script="undo_flaky")
    d = compose(Child, script="flaky")
    e = step(Act, script=inputs.late).after(a, b, c, d)


class Spawns(Reactor):
    """Dispatches units that succeed, fail, and are reactors; reads some of them."""

    late: str = ""

    background = True

    a = step(Act, script="")
    good = spawn(Patient, script="flaky", needs=a)
    bad = spawn(Act, script="raise compensate_flaky", needs=a)
    child = spawn(Child, script="flaky").after(a)
    unread = spawn(Child, script="fail").after(a)

    @step
    def reader(*, context: Any, good: Any, bad: Any, child: Any) -> list[str]:
        with told(context, "run"):
            assert isinstance(bad, Failure), bad
            return [good, bad.error, child]

    last = step(Act, script=inputs.late, needs=reader)

    returns = reader


class SpawnsHere(Reactor):
    """Dispatches from the caller's process, which waits for what it reads."""

    late: str = ""

    a = step(Act, script="")
    good = spawn(Patient, script="flaky", needs=a)
    b = step(Act, script="", needs=good)
    last = step(Act, script=inputs.late, needs=b)


class Unread(Reactor):
    """Dispatches a unit whose end nobody waits for."""

    unit = spawn(Act, script="")
    b = step(Act, script="").after(unit)


class ThreeUnits(Reactor):
    """Dispatches all its units in one commit."""

    one = spawn(Act, script="")
    two = spawn(Act, script="")
    three = spawn(Act, script="")
    last = step(Act, script="").after(one, two, three)


class Chain(Reactor):
    background = True

    a = step(Act, script="")
    b = step(Act, script="").after(a)
    c = step(Act, script="").after(b)


class Fails(Reactor):
    background = True

    a = step(Act, script="")
    b = step(Act, script="").after(a)
    c = step(Act, script="fail").after(b)


class Elements(Reactor):
    background = True

    before = step(Act, script="")
    each = map_each(Act, over=["x", "y", "z"], script="", needs=element).after(before)


class ReadsUnit(Reactor):
    background = True

    a = step(Act, script="")
    unit = spawn(Act, script="").after(a)

    @step
    def reader(*, context: Any, unit: Any) -> str:
        with told(context, "run"):
            return unit.error if isinstance(unit, Failure) else str(unit)


class Broken(Reactor):
    first = step(Act, script="")
    second = step(Act, script="fail", needs=first)


class SpawnsReactor(Reactor):
    background = True

    unit = spawn(Broken)
    last = step(Act, script="").after(unit)


KINDS: dict[str, tuple[type[Reactor], dict[str, Any]]] = {
    "here": (Here, {}),
    "here-fails": (Here, {"late": "fail"}),
    "forward": (Forward, {}),
    "back": (Back, {}),
    "after": (HandsAfter, {}),
    "after-fails": (HandsAfter, {"late": "raise"}),
    "before": (HandsBefore, {}),
    "before-fails": (HandsBefore, {"late": "fail"}),
    "maps": (Maps, {"scripts": ["", "flaky", "skip"]}),
    "maps-fail": (Maps, {"scripts": ["", "undo_flaky"], "late": "fail"}),
    "element-fails": (Maps, {"scripts": ["", "", "fail"]}),
    "parallel": (Parallel, {}),
    "parallel-fails": (Parallel, {"late": "fail"}),
    "spawns": (Spawns, {}),
    "spawns-fails": (Spawns, {"late": "fail"}),
    "spawns-here": (SpawnsHere, {}),
    "spawns-here-fails": (SpawnsHere, {"late": "fail"}),
}
