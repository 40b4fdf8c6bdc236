"""Ctrl-C in mid-run: no rollback code runs then; the run is `aborted`, and `undo` can follow."""

from __future__ import annotations

from calandria import Reactor, RunStatus, Runtime, Step, runs, step

diary: list[str] = []


class Copy(Step):
    name: str

    def run(self) -> str:
        diary.append(f"+{self.name}")
        return self.name

    def undo(self, result: str) -> None:
        diary.append(f"-{result}")


class CopyMuch(Step):
    def run(self) -> str:
        diary.append("+half")
        raise KeyboardInterrupt  # what Ctrl-C raises in the middle of a step

    def compensate(self, reason: object) -> None:
        diary.append("-half")


class Backup(Reactor):
    first = step(Copy, name="first")
    much = step(CopyMuch).after(first)


def main() -> None:
    try:
        Backup.run()
    except KeyboardInterrupt:
        print("interrupted")
    else:
        raise AssertionError("an interruption reaches the caller")

    (run,) = runs(needs_attention=True)
    print(run.status.value, "with", run.pending_compensation, "to be compensated")
    assert run.status is RunStatus.ABORTED
    assert run.pending_compensation == "much"
    assert diary == ["+first", "+half"]

    run.undo()

    print(diary)
    assert diary == ["+first", "+half", "-half", "-first"]
    assert Backup.find(run.id).status is RunStatus.CANCELLED


if __name__ == "__main__":
    with Runtime(storage="memory://"):
        main()
