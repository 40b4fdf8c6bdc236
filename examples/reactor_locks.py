"""Locks on a whole reactor: nested work re-enters, strangers do not, hand-off is refused."""

from __future__ import annotations

import threading

from calandria import (
    CalandriaError,
    Failure,
    HandOffRefused,
    Lock,
    LockNotAcquired,
    Reactor,
    Runtime,
    Step,
    Success,
    compose,
    spawn,
    step,
)


class Debit(Step):
    account: str

    coordination = [Lock("account:{account}")]

    def run(self) -> str:
        return f"debited {self.account}"


class Settle(Reactor):
    account: str
    coordination = [Lock("account:{account}")]
    debit = step(Debit)


class DebitAgain(Step):
    account: str

    def run(self) -> str:
        # `context.call` works inside this run.
        assert self.context.call(Debit, account=self.account).ok
        # A bare call is an execution of its own: it would wait for its own caller.
        try:
            Debit.call(account=self.account)
        except CalandriaError as error:
            print("refused:", error)
            return "nested work is done"
        raise AssertionError("it got in")


class Outer(Reactor):
    """The key is held by the run; the compose, its step and the nested call all re-enter."""

    account: str
    coordination = [Lock("account:{account}", ttl=30)]

    settle = compose(Settle)
    again = step(DebitAgain).after(settle)


held = threading.Event()
let_go = threading.Event()


class Busy(Reactor):
    account: str
    coordination = [Lock("account:{account}")]

    @step
    def work() -> str:
        held.set()
        let_go.wait(5)
        return "done"


class HandsOff(Reactor):
    """The unit would run in its own job, and wait for the run that waits for it."""

    account: str
    coordination = [Lock("account:{account}")]

    debit = spawn(Debit)

    @step
    def read(*, debit: str | Failure) -> str:
        return str(debit)


def main() -> None:
    assert Outer.run(account="ada") == Success("nested work is done")

    # Strangers contend. At the level of a reactor that raises: nothing has run.
    busy = threading.Thread(target=lambda: Busy.run(account="ada"))
    busy.start()
    held.wait(5)
    try:
        Settle.run(account="ada")
    except LockNotAcquired as error:
        print("contended:", error)
        assert (error.reactor, error.step, error.key) == ("Settle", None, "account:ada")
    else:
        raise AssertionError("it got in")
    # So does a step that is called directly.
    try:
        Debit.call(account="ada")
    except LockNotAcquired as error:
        assert error.key == "account:ada"
    else:
        raise AssertionError("it got in")
    assert Debit.call(account="bob") == Success("debited bob")
    let_go.set()
    busy.join()
    assert Debit.call(account="ada") == Success("debited ada")

    refused = HandsOff.run(account="ada")
    print("hand-off:", refused.error if isinstance(refused, Failure) else refused)
    assert isinstance(refused, Failure)
    assert refused.exception_class == HandOffRefused.__name__ and "account:ada" in refused.error


if __name__ == "__main__":
    with Runtime(storage="memory://") as runtime:
        worker = runtime.start_worker(threads=1)
        main()
        assert worker.stop(timeout=10)
