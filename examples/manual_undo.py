"""Undo by hand: a finished run is taken back, weeks later if need be, newest step first."""

from __future__ import annotations

from calandria import Reactor, RunStatus, Runtime, Step, Success, UndoIncomplete, step

diary: list[str] = []


class Open(Step):
    what: str

    def run(self) -> str:
        diary.append(f"+{self.what}")
        return self.what

    def undo(self, result: str) -> None:
        if result == "fuse":
            raise RuntimeError("a blown fuse stays blown")
        diary.append(f"-{result}")


class Provision(Reactor):
    account = step(Open, what="account")
    mailbox = step(Open, what="mailbox").after(account)


class Irreversible(Reactor):
    fuse = step(Open, what="fuse")


def main() -> None:
    result = Provision.run()
    assert isinstance(result, Success) and result.run_id is not None
    assert diary == ["+account", "+mailbox"]

    Provision.undo(result.run_id)

    print(diary)
    assert diary == ["+account", "+mailbox", "-mailbox", "-account"]
    run = Provision.find(result.run_id)
    assert run.status is RunStatus.CANCELLED
    assert run.rollback.value == "complete"

    # Undoing it again finds nothing left to do.
    Provision.undo(result.run_id)
    assert len(diary) == 4

    result = Irreversible.run()
    assert isinstance(result, Success) and result.run_id is not None
    try:
        Irreversible.undo(result.run_id)
    except UndoIncomplete as error:
        print(error)
        assert [left.step for left in error.rollback_failures] == ["fuse"]
    else:
        raise AssertionError("an undo that leaves something behind says so")


if __name__ == "__main__":
    with Runtime(storage="memory://"):
        main()
