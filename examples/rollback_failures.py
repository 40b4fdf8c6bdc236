"""An undo that fails: it is retried, the rest is undone all the same, and nothing is dropped."""

from __future__ import annotations

from calandria import Failure, Reactor, Retry, RollbackState, Runtime, Step, fail, runs, step

diary: list[str] = []
carrier = {"reachable": False}
attempts = {"recall": 0}


class Reserve(Step):
    def run(self) -> str:
        return "goods"

    def undo(self, result: str) -> None:
        diary.append(f"released {result}")


class Ship(Step):
    # For this step's own undo and compensate; without it they are tried once.
    rollback_retry = Retry(max_attempts=3, base_delay=0.001)

    def run(self) -> str:
        return "parcel"

    def undo(self, result: str) -> None:
        attempts["recall"] += 1
        if not carrier["reachable"]:
            raise ConnectionError("the carrier cannot be reached")
        diary.append(f"recalled {result}")


class Bill(Step):
    def run(self) -> str:
        fail("the customer is unknown")


class Order(Reactor):
    reserve = step(Reserve)
    ship = step(Ship).after(reserve)
    bill = step(Bill).after(ship)


def main() -> None:
    result = Order.run()
    print(result)
    assert isinstance(result, Failure) and result.step == "bill"
    (left,) = result.rollback_failures
    print(left)
    assert (left.step, left.kind, left.reason) == ("ship", "undo", "raised")
    assert "the carrier cannot be reached" in left.message
    assert attempts["recall"] == 3
    assert diary == ["released goods"]  # the rest was undone all the same

    # It stays on the list of what needs a person ...
    (run,) = runs(needs_attention=True)
    assert run.rollback is RollbackState.INCOMPLETE

    # ... who undoes the run once the carrier answers: only what is left is done.
    carrier["reachable"] = True
    run.undo()
    print(diary)
    assert diary == ["released goods", "recalled parcel"]
    assert list(runs(needs_attention=True)) == []
    assert Order.find(run.id).rollback is RollbackState.COMPLETE


if __name__ == "__main__":
    with Runtime(storage="memory://"):
        main()
