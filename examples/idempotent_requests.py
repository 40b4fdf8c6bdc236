"""Idempotent requests: twenty threads place one order at the same time; it is placed once."""

from __future__ import annotations

import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

from calandria import (
    Dispatched,
    Failure,
    IdempotencyConflict,
    Reactor,
    Runtime,
    Success,
    fail,
    runs,
    step,
)

CLIENTS = 20
charges: list[str] = []


class Order(Reactor):
    order: str
    cents: int

    @step
    def charge(*, order: str, cents: int) -> str:
        charges.append(order)
        if cents > 10_000:
            fail("above the limit")
        return f"{order} charged"

    background = True


def request(order: str, cents: int, together: Barrier) -> str:
    """What a web view does: it may be called again by a client that got no answer."""
    together.wait()
    result = Order.options(idempotency_key=order).run(order=order, cents=cents)
    assert result.run_id is not None
    # Who comes first dispatches the run; the others get that run, or its result.
    assert isinstance(result, Dispatched) or result.ok
    return result.run_id


def main(runtime: Runtime) -> None:
    worker = runtime.start_worker(threads=4)
    together = Barrier(CLIENTS)
    with ThreadPoolExecutor(CLIENTS) as clients:
        answers = list(clients.map(lambda _: request("42", 500, together), range(CLIENTS)))
    print(f"{len(answers)} requests, {len(set(answers))} run")
    assert len(set(answers)) == 1
    run = Order.find(answers[0])
    assert run.wait(timeout=10) == Success("42 charged")
    assert charges == ["42"] and len(list(runs())) == 1

    # Later requests get its result, and so they do after a failure.
    again = Order.options(idempotency_key="42").run(order="42", cents=500)
    assert again == Success("42 charged") and again.run_id == run.id
    large = Order.options(idempotency_key="43")
    dispatched = large.run(order="43", cents=20_000)
    assert isinstance(dispatched, Dispatched)
    Order.find(dispatched.run_id).wait(timeout=10)
    remembered = large.run(order="43", cents=20_000)
    print(remembered.error if isinstance(remembered, Failure) else remembered)
    assert isinstance(remembered, Failure) and remembered.error == "above the limit"
    assert charges == ["42", "43"]

    # One key cannot stand for two requests.
    try:
        large.run(order="43", cents=1)
    except IdempotencyConflict as error:
        print(error)
    else:
        raise AssertionError("the inputs differ")
    assert worker.stop(timeout=10)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'runs.db'}"
        with Runtime(storage=url) as runtime:
            main(runtime)
