"""Locks on one step: two runs take turns, contend, and roll back under the same lock."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from calandria import (
    Dispatched,
    Failure,
    Lock,
    Reactor,
    Runtime,
    Settings,
    Step,
    Success,
    fail,
    step,
)

balance = {"alice": 100}
diary: list[str] = []
at_the_till = threading.Event()
may_leave = threading.Event()


class Charge(Step):
    """Reads, then writes: two at a time for one account would lose a charge."""

    account: str
    amount: int

    # The key is made from the step's own validated inputs. `wait` is for callers' processes.
    coordination = [Lock("account:{account}", ttl=30, wait=10)]

    def run(self) -> int:
        before = balance[self.account]
        diary.append("in")
        balance[self.account] = before - self.amount
        diary.append("out")
        return balance[self.account]

    def undo(self, result: int) -> None:
        # Rollback has taken the lock again, with the same key.
        assert [hold.key for hold in self.context.holds] == [f"account:{self.account}"]
        balance[self.account] += self.amount
        diary.append("put back")


class Pay(Reactor):
    account: str
    amount: int
    goods: str = "tea"

    charge = step(Charge)

    @step
    def deliver(*, charge: int, goods: str) -> str:
        if goods == "sold out":
            fail("there is none left")
        return f"{goods}, {charge} left"


def serialised() -> None:
    """Eight runs in eight threads: everything else overlaps, `charge` never does."""
    with ThreadPoolExecutor(8) as threads:
        results = list(threads.map(lambda _: Pay.run(account="alice", amount=10), range(8)))
    print("serialised:", balance)
    assert all(result.ok for result in results)
    assert balance == {"alice": 20}
    assert diary == ["in", "out"] * 8


class Till(Reactor):
    till: int
    background = True

    @step(coordination=[Lock("till:{till}", ttl=30)])
    def serve(*, till: int) -> str:
        at_the_till.set()
        may_leave.wait(5)
        return f"served at till {till}"


class ImpatientTill(Till):
    """The same step, in the caller's process: it waits for `wait`, which is 0, and fails."""

    background = False


def contended(runtime: Runtime) -> None:
    """In a worker who cannot have the key is parked; in the caller's process the step fails."""
    worker = runtime.start_worker(threads=2)
    first = Till.run(till=1)
    at_the_till.wait(5)
    second = Till.run(till=1)
    assert isinstance(first, Dispatched) and isinstance(second, Dispatched)

    parked = Till.find(second.run_id)
    while not parked.waiting_on:
        runtime.pause(0.01)
    print("parked:", parked.status.value, parked.waiting_on)
    assert parked.status.value == "running"
    assert parked.waiting_on == ["lock till:1 (Till.serve)"]

    refused = ImpatientTill.run(till=1)
    print("refused:", refused.error if isinstance(refused, Failure) else refused)
    assert isinstance(refused, Failure) and refused.exception_class == "LockNotAcquired"
    assert refused.step == "serve" and "till:1" in refused.error

    may_leave.set()
    assert Till.find(first.run_id).wait(10) == Success("served at till 1")
    # The release woke it: it does not sit out its snooze.
    assert parked.wait(10) == Success("served at till 1")
    assert worker.stop(timeout=10)


def compensated() -> None:
    """What comes after the step fails: the undo holds the key the step held."""
    balance["alice"] = 50
    diary.clear()
    result = Pay.run(account="alice", amount=10, goods="sold out")
    print("compensated:", result.error if isinstance(result, Failure) else result, balance)
    assert isinstance(result, Failure) and result.rollback_failures == []
    assert balance == {"alice": 50}
    assert diary == ["in", "out", "put back"]


if __name__ == "__main__":
    with Runtime(storage="memory://", settings=Settings(snooze_base_delay=60)) as runtime:
        serialised()
        contended(runtime)
        compensated()
