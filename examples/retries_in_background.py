"""Retries in a worker: the run is given back until the next attempt is due; no thread sleeps."""

from __future__ import annotations

from calandria import Dispatched, Failure, Reactor, Retry, Runtime, Success, fail, step

attempts: list[str] = []
PATIENT = Retry(max_attempts=3, backoff="fixed", base_delay=0.5, jitter=0)


class Deliver(Reactor):
    parcel: str
    at_home_on: int

    @step(retry=PATIENT)
    def ring(*, parcel: str, at_home_on: int) -> str:
        attempts.append(parcel)
        if attempts.count(parcel) < at_home_on:
            fail("nobody is at home")
        return f"{parcel} handed over"

    @ring.compensate
    def _(*, parcel: str) -> None:
        attempts.append(f"{parcel} goes back")

    background = True


class Quick(Reactor):
    @step
    def do() -> str:
        return "done meanwhile"

    background = True


def main(runtime: Runtime) -> None:
    # One thread is enough for everything: a run that waits takes none.
    worker = runtime.start_worker(threads=1)

    slow = Deliver.run(parcel="P1", at_home_on=3)
    assert isinstance(slow, Dispatched)
    run = Deliver.find(slow.run_id)
    while not run.waiting_on:
        runtime.pause(0.01)
    print(run.status.value, run.waiting_on)
    assert run.waiting_on == ["retry ring"]

    quick = Quick.run()
    assert isinstance(quick, Dispatched)
    assert Quick.find(quick.run_id).wait(timeout=10) == Success("done meanwhile")
    assert run.result is None, "the delivery still waits for its next attempt"

    result = run.wait(timeout=10)
    print(result)
    assert result == Success("P1 handed over")
    assert attempts == ["P1"] * 3
    parks = [entry.kind for entry in run.trace].count("run.parked")
    assert parks >= 1

    # After the last attempt the step is compensated and the run rolls back.
    attempts.clear()
    never = Deliver.run(parcel="P2", at_home_on=9)
    assert isinstance(never, Dispatched)
    failed = Deliver.find(never.run_id).wait(timeout=10)
    assert isinstance(failed, Failure)
    print(f"{failed.error}, {failed.attempts} attempts")
    assert failed.attempts == 3
    assert attempts == ["P2", "P2", "P2", "P2 goes back"]
    assert worker.stop(timeout=10)


if __name__ == "__main__":
    with Runtime(storage="memory://") as runtime:
        main(runtime)
