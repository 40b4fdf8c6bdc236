"""Semaphores: at most so many executions at a time inside one step."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from calandria import Failure, Reactor, Runtime, Semaphore, Step, Success, step

count = threading.Lock()
inside = 0
most = 0
pause = threading.Event()


class Render(Step):
    page: int

    # Ten callers may wait up to ten seconds for one of three places.
    coordination = [Semaphore("renderer", limit=3, wait=10)]

    def run(self) -> str:
        global inside, most
        with count:
            inside += 1
            most = max(most, inside)
        pause.wait(0.02)
        with count:
            inside -= 1
        return f"page {self.page}"


class Print(Reactor):
    page: int
    render = step(Render)


class Scan(Reactor):
    """Its only place is taken for as long as the test wants; `wait` is 0."""

    @step(coordination=[Semaphore("scanner", limit=1)])
    def scan() -> str:
        scanning.set()
        may_end.wait(5)
        return "scanned"


scanning = threading.Event()
may_end = threading.Event()


def refused() -> None:
    with ThreadPoolExecutor(1) as thread:
        first = thread.submit(Scan.run)
        scanning.wait(5)
        second = Scan.run()
        print("refused:", second.error if isinstance(second, Failure) else second)
        assert isinstance(second, Failure) and second.exception_class == "SemaphoreFull"
        assert second.step == "scan" and "scanner" in second.error
        may_end.set()
        assert first.result() == Success("scanned")


def main() -> None:
    with ThreadPoolExecutor(10) as threads:
        results = list(threads.map(lambda page: Print.run(page=page), range(10)))
    print(f"{len(results)} pages, at most {most} at a time")
    assert results == [Success(f"page {page}") for page in range(10)]
    assert most == 3


if __name__ == "__main__":
    with Runtime(storage="memory://"):
        main()
        refused()
