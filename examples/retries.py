"""Retries: how often, how long between, for which errors, and what is never retried."""

from __future__ import annotations

from calandria import Failure, Reactor, Retry, Runtime, Step, Success, fail, step

calls: list[int] = []


class Fetch(Step):
    """Fails with a passing error until `works_at` attempts were made."""

    works_at: int

    # Attempts count from 1; delays double from 1 ms here, with 10% of chance in them.
    retry = Retry(
        max_attempts=3, backoff="exponential", base_delay=0.001, retry_on=(ConnectionError,)
    )

    def run(self) -> str:
        calls.append(self.context.attempt)
        if self.works_at == 0:
            raise PermissionError("no retry helps")  # not in `retry_on`
        if self.works_at < 0:
            fail("asked not to be retried", retryable=False)
        if self.context.attempt < self.works_at:
            raise ConnectionError(f"attempt {self.context.attempt}: connection refused")
        return "fetched"


class Download(Reactor):
    works_at: int

    fetch = step(Fetch)


class Patient(Reactor):
    works_at: int

    # A policy given here replaces the step's own.
    fetch = step(Fetch).retry(Retry(max_attempts=5, backoff="fixed", base_delay=0.001))


def main() -> None:
    assert Download.run(works_at=3) == Success("fetched")
    assert calls == [1, 2, 3]

    calls.clear()
    result = Download.run(works_at=4)
    print(result)
    assert isinstance(result, Failure)
    assert result.attempts == 3 and result.error == "attempt 3: connection refused"

    calls.clear()
    assert Patient.run(works_at=4) == Success("fetched")
    assert calls == [1, 2, 3, 4]

    for hopeless in (0, -1):
        calls.clear()
        result = Download.run(works_at=hopeless)
        print(result)
        assert isinstance(result, Failure) and calls == [1]


if __name__ == "__main__":
    with Runtime(storage="memory://"):
        main()
