"""How often a step is tried, and how long to wait between attempts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from calandria.errors import DefinitionError

Backoff = Literal["exponential", "linear", "fixed"]


@dataclass(frozen=True)
class Retry:
    """A retry policy.

    Args:
        max_attempts: failed attempts allowed in all, the first included; at least 1.
        backoff: how the delay grows: doubling, by `base_delay` each time, or not at all.
        base_delay: the delay after the first failed attempt.
        max_delay: the longest delay.
        jitter: the share of each delay, 0 to 1, that is spread at random around it.
        retry_on: only these exception types are retried; `None` means any failure.

    Durations are seconds or `timedelta`. Raises `DefinitionError` for values out of range.
    """

    max_attempts: int = 3
    backoff: Backoff = "exponential"
    base_delay: float | timedelta = 1.0
    max_delay: float | timedelta = 300.0
    jitter: float = 0.1
    retry_on: tuple[type[Exception], ...] | type[Exception] | None = None

    def __post_init__(self) -> None:
        for name in ("base_delay", "max_delay"):
            value = getattr(self, name)
            seconds = value.total_seconds() if isinstance(value, timedelta) else value
            if not isinstance(seconds, (int, float)) or not seconds >= 0:
                raise DefinitionError(f"Retry({name}={value!r}): give a duration of 0 or more.")
            object.__setattr__(self, name, float(seconds))
        if not isinstance(self.max_attempts, int) or self.max_attempts < 1:
            raise DefinitionError(
                f"Retry(max_attempts={self.max_attempts!r}): give a whole number of at least 1."
            )
        if self.backoff not in ("exponential", "linear", "fixed"):
            raise DefinitionError(
                f"Retry(backoff={self.backoff!r}): use 'exponential', 'linear' or 'fixed'."
            )
        if not 0 <= self.jitter <= 1:
            raise DefinitionError(f"Retry(jitter={self.jitter!r}): give a share from 0 to 1.")
        if isinstance(self.retry_on, type):
            object.__setattr__(self, "retry_on", (self.retry_on,))

    def delay_after(self, failed_attempts: int, randomness: float) -> float:
        """Return the seconds to wait after that many failed attempts.

        `randomness` is a number from 0 to 1 that places the delay within its jitter.
        """
        base, longest = float(self.base_delay), float(self.max_delay)  # type: ignore[arg-type]
        if self.backoff == "exponential":
            # beyond 2**64 every delay is past any longest one, and the power would overflow
            delay = base * 2.0 ** min(failed_attempts - 1, 64)
        elif self.backoff == "linear":
            delay = base * failed_attempts
        else:
            delay = base
        delay = min(delay, longest)
        return delay * (1 + self.jitter * (2 * randomness - 1))

    def allows(self, exception: BaseException | None) -> bool:
        """Tell whether `retry_on` lets a failure with this exception be tried again."""
        if self.retry_on is None:
            return True
        return isinstance(exception, self.retry_on)


ONCE = Retry(max_attempts=1)
