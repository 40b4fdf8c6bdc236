"""Recovery: a worker process is killed in mid-step; another takes the run up and finishes it."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path

from calandria import Dispatched, Reactor, Runtime, Settings, Step, Success, step

QUICK = Settings(lease_ttl=0.5, sweep_interval=0.2)


class Withdraw(Step):
    amount: int
    log: str

    def run(self) -> int:
        write(self.log, f"withdrew {self.amount}")
        return self.amount

    def undo(self, result: int) -> None:
        write(self.log, f"put back {result}")


class Transfer(Step):
    amount: int
    log: str

    def run(self) -> str:
        # The key is the same however often the step is taken up: a bank would book it once.
        write(self.log, f"asked the bank to book {self.context.idempotency_key}")
        if not Path(self.log + ".killed").exists():
            Path(self.log + ".killed").touch()
            os.kill(os.getpid(), 9)
        return "booked"


class Pay(Reactor):
    amount: int
    log: str

    withdraw = step(Withdraw)
    transfer = step(Transfer).after(withdraw)

    background = True


def write(log: str, line: str) -> None:
    with open(log, "a", encoding="utf-8") as file:
        file.write(f"{line}\n")


def start_worker(url: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "calandria", "--storage", url, "worker", "recovery"],
        cwd=Path(__file__).parent,
        env={**os.environ, "CALANDRIA_LEASE_TTL": "0.5", "CALANDRIA_SWEEP_INTERVAL": "0.2"},
        stderr=subprocess.DEVNULL,
    )


def main(folder: Path) -> None:
    url, log = f"sqlite:///{folder / 'runs.db'}", folder / "log"
    with Runtime(storage=url, settings=QUICK) as runtime:
        dispatched = Pay.run(amount=100, log=str(log))
        assert isinstance(dispatched, Dispatched)
        run = Pay.find(dispatched.run_id)

        first = start_worker(url)
        print(f"the first worker ended by signal {-first.wait(timeout=30)}")
        assert first.returncode == -9
        print(f"the run is {run.status.value}; nobody does anything about it yet")
        assert run.result is None

        # Any worker does: its sweep finds the run once the dead one's lease has lapsed.
        second = runtime.start_worker(threads=1)
        result = run.wait(timeout=30)
        assert second.stop(timeout=10)

        print(result)
        assert result == Success("booked")
        lines = log.read_text(encoding="utf-8").splitlines()
        print(*lines, sep="\n")
        # What was done was not done again; what was cut off was, under the same key.
        assert lines[0] == "withdrew 100"
        assert len(lines) == 3 and lines[1] == lines[2]
        (cut_off,) = [found for found in run.steps() if found.recoveries]
        assert (cut_off.name, cut_off.recoveries, cut_off.attempts) == ("transfer", 1, 1)


# Imported by its name, as the worker does: a class of `__main__` has none outside.
if __name__ == "__main__":
    # A sweep that finds something warns about it, for it means that a process died.
    logging.getLogger("calandria").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as name:
        import_module("recovery").main(Path(name))
