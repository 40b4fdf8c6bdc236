"""Independent steps at the same time; when one fails, the rollback waits for the others."""

from __future__ import annotations

import threading

from calandria import Failure, Reactor, Runtime, Step, Success, fail, step

together = threading.Barrier(3, timeout=10)
failed = threading.Event()
diary: list[str] = []


class Quote(Step):
    """Meets the other two: with one thread the three would wait for each other for ever."""

    supplier: str

    def run(self) -> str:
        together.wait()
        return f"{self.supplier} offers"


class Quotes(Reactor):
    concurrency = 3

    first = step(Quote, supplier="A")
    second = step(Quote, supplier="B")
    third = step(Quote, supplier="C")

    @step
    def best(*, first: str, second: str, third: str) -> list[str]:
        return [first, second, third]


class Fails(Step):
    def run(self) -> None:
        failed.set()
        fail("the fast one failed")


class Slow(Step):
    """Succeeds only after the other has failed: a late success, which is undone like any other."""

    def run(self) -> str:
        assert failed.wait(timeout=10)
        diary.append("slow done")
        return "late"

    def undo(self, result: str) -> None:
        diary.append(f"slow undone: {result}")


class Late(Reactor):
    concurrency = 2

    slow = step(Slow)
    fast = step(Fails)


def main() -> None:
    result = Quotes.run()
    print(result)
    assert result == Success(["A offers", "B offers", "C offers"])

    result = Late.run()
    print(result, diary)
    assert isinstance(result, Failure) and result.step == "fast"
    assert diary == ["slow done", "slow undone: late"]


if __name__ == "__main__":
    with Runtime(storage="memory://"):
        main()
