"""One bulk call instead of one undo for each element."""

from __future__ import annotations

from collections.abc import Iterable

from calandria import Failure, Reactor, Runtime, Step, element, fail, inputs, map_each, step

invited: list[str] = []
calls: list[str] = []


class Invite(Step):
    name: str

    def run(self) -> str:
        invited.append(self.name)
        return self.name

    def undo(self, result: str) -> None:
        calls.append(f"one by one: {result}")


def uninvite(results: Iterable[str]) -> None:
    """Receives the completed elements' results, lazily, in index order."""
    names = list(results)
    calls.append(f"at once: {names}")
    for name in names:
        invited.remove(name)


class Party(Reactor):
    guests: list[str]
    venue: str

    invitations = map_each(Invite, over=inputs.guests, name=element).undo_all(uninvite)

    @step
    def rent(*, venue: str, invitations: object) -> str:
        if venue == "closed":
            fail("the venue is closed")
        return venue


def main() -> None:
    assert Party.run(guests=["Ada", "Bob"], venue="garden").ok
    assert invited == ["Ada", "Bob"]

    invited.clear()
    result = Party.run(guests=["Cyd", "Dan", "Eve"], venue="closed")
    print(result, calls)
    assert isinstance(result, Failure) and result.rollback_failures == []
    assert calls == ["at once: ['Cyd', 'Dan', 'Eve']"]
    assert invited == []

    # Where no element was completed there is nothing to undo, and no call.
    calls.clear()
    assert not Party.run(guests=[], venue="closed").ok
    assert calls == []


if __name__ == "__main__":
    with Runtime(storage="memory://"):
        main()
