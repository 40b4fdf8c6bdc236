"""Cancel stops a run and keeps what it did; a running step is told and may stop early."""

from __future__ import annotations

import threading
import time

from calandria import Reactor, RunStatus, Runtime, Step, runs, step

started = threading.Event()
diary: list[str] = []


class Prepare(Step):
    def run(self) -> str:
        diary.append("prepared")
        return "material"

    def undo(self, result: str) -> None:
        diary.append(f"cleared {result}")


class Work(Step):
    """Long work that looks up from time to time."""

    def run(self) -> str:
        started.set()
        while not self.context.cancelled:
            time.sleep(0.005)
        diary.append("stopped early")
        return "half the work"


class Never(Step):
    def run(self) -> None:
        raise AssertionError("no step starts after a cancel")


class Job(Reactor):
    prepare = step(Prepare)
    work = step(Work).after(prepare)
    rest = step(Never).after(work)


def main(runtime: Runtime) -> None:
    results: list[object] = []
    worker = threading.Thread(target=lambda: results.append(Job.options(runtime=runtime).run()))
    worker.start()
    assert started.wait(timeout=10)

    (run,) = runs(reactor=Job, status=RunStatus.RUNNING)
    run.cancel("no longer needed")
    worker.join(timeout=10)

    run = Job.find(run.id)
    print(run.status.value, diary, results)
    assert run.status is RunStatus.CANCELLED
    assert diary == ["prepared", "stopped early"]  # progress is kept

    # `undo` is the verb that takes it back.
    run.undo()
    assert diary == ["prepared", "stopped early", "cleared material"]


if __name__ == "__main__":
    with Runtime(storage="memory://") as this_runtime:
        main(this_runtime)
