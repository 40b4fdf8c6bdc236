"""After a crash: had the payment landed? `reconcile` asks before the step would run again.

A child process dies between the bank's booking and the journal's record of it. `recover` takes
the run up, finds an attempt in doubt, and asks the step; a step without `reconcile` runs again.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from calandria import (
    Reactor,
    RunBusy,
    RunStatus,
    Runtime,
    Settings,
    Step,
    Success,
    runs,
    step,
)


class Pay(Step):
    """Writes into the bank's ledger, under a key that stays the same after a crash."""

    ledger: Path
    cents: int
    fatal: bool

    def run(self) -> str:
        with self.ledger.open("a") as ledger:
            ledger.write(f"{self.context.idempotency_key} {self.cents}\n")
        if self.fatal:
            os.kill(os.getpid(), signal.SIGKILL)  # no goodbye: the journal knows only the start
        return self.context.idempotency_key

    def reconcile(self) -> Success[str] | None:
        key = self.context.idempotency_key
        landed = any(line.split()[0] == key for line in self.ledger.read_text().splitlines())
        return Success(key) if landed else None  # None: it did not land, run again


class Purchase(Reactor):
    ledger: Path
    fatal: bool

    payment = step(Pay, cents=1250)

    @step
    def receipt(*, payment: str) -> str:
        return f"receipt for {payment}"


def runtime(folder: Path) -> Runtime:
    """Both processes use this file; a dead one's lease lapses after a quarter of a second."""
    return Runtime(storage=f"sqlite:///{folder / 'runs.db'}", settings=Settings(lease_ttl=0.25))


def main(folder: Path) -> None:
    ledger = folder / "ledger.txt"
    child = subprocess.run([sys.executable, __file__, str(folder)], check=False)
    assert child.returncode == -signal.SIGKILL
    assert len(ledger.read_text().splitlines()) == 1

    with runtime(folder):
        (run,) = runs(reactor=Purchase, status=RunStatus.RUNNING)
        print(f"{run.id} is {run.status.value}, its process is dead")
        while True:
            try:
                result = run.recover()
                break
            except RunBusy:  # not judged dead yet: its lease has not lapsed
                time.sleep(0.05)

    print(result)
    assert isinstance(result, Success)
    assert len(ledger.read_text().splitlines()) == 1, "paid once, not twice"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        with runtime(Path(sys.argv[1])):
            Purchase.run(ledger=Path(sys.argv[1]) / "ledger.txt", fatal=True)
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary))
