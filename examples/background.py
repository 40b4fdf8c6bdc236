"""Background: the caller takes the order, a worker does the rest; a failure there rolls back."""

from __future__ import annotations

import tempfile
from pathlib import Path

from calandria import Dispatched, Failure, Reactor, Runtime, Success, after, fail, runs, step

diary: list[str] = []


class PlaceOrder(Reactor):
    order: str
    lines: int

    @step
    def accept(*, order: str) -> str:
        diary.append(f"accepted {order}")
        return order

    @accept.undo
    def _(*, result: str) -> None:
        diary.append(f"took {result} back")

    @step
    def pack(*, accept: str, lines: int) -> str:
        if lines > 3:
            fail("does not fit into a parcel")
        diary.append(f"packed {accept}")
        return f"parcel {accept}"

    # `accept` is the last step in the caller's process; a worker goes on from there.
    background = after(accept)


def main(runtime: Runtime) -> None:
    # Wrong inputs never reach a worker: the caller hears of them, and nothing is recorded.
    refused = PlaceOrder.run(order="A", lines="many")  # type: ignore[arg-type]
    assert isinstance(refused, Failure) and list(refused.validation_errors) == ["lines"]
    assert list(runs()) == []

    # In production: `calandria worker my.module`. Here: threads of this process.
    worker = runtime.start_worker(threads=2)

    dispatched = PlaceOrder.run(order="A", lines=2)
    print(dispatched)
    assert isinstance(dispatched, Dispatched)
    assert diary[0] == "accepted A"
    run = PlaceOrder.find(dispatched.run_id)
    print(run.wait(timeout=10))
    assert run.result == Success("parcel A")
    assert diary == ["accepted A", "packed A"]

    # A failure in the worker undoes what the caller did.
    diary.clear()
    large = PlaceOrder.run(order="B", lines=9)
    assert isinstance(large, Dispatched)
    failed = PlaceOrder.find(large.run_id).wait(timeout=10)
    print(failed.error if isinstance(failed, Failure) else failed)
    assert isinstance(failed, Failure) and failed.step == "pack"
    assert diary == ["accepted B", "took B back"]
    assert worker.stop(timeout=10)


def without_a_worker() -> None:
    """For tests: every job is performed at once, by who causes it."""
    with Runtime(storage="memory://", jobs="immediate"):
        result = PlaceOrder.run(order="C", lines=1)
        assert isinstance(result, Dispatched)
        assert PlaceOrder.find(result.run_id).result == Success("parcel C")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'runs.db'}"
        with Runtime(storage=url) as runtime:
            main(runtime)
        without_a_worker()
