"""What came of performing a body: from what it returned or raised to an outcome."""

from __future__ import annotations

import asyncio
import concurrent.futures
import traceback as tracebacks
from typing import Any

from calandria.results import Failure, Halt, Signal, Skipped, Success
from calandria.runtime.effects import Interrupted, StepOutcome


class WorkStopped(BaseException):
    """Unwinds a body whose nested work was stopped by `interruption` or, if `None`, a cancel."""

    def __init__(self, interruption: BaseException | None) -> None:
        super().__init__(interruption)
        self.interruption = interruption


class WorkerStopping(SystemExit):
    """Interrupts the runs of a worker that was stopped: another one is to go on with them."""


_UNREQUESTED = (asyncio.CancelledError, concurrent.futures.CancelledError)


def of_value(value: Any) -> StepOutcome:
    """Return what a body that returned `value` came to."""
    if isinstance(value, (Success, Skipped, Halt, Failure)):
        return value
    return Success(value)


def of_exception(exception: BaseException, *, stopping: bool) -> StepOutcome | Interrupted:
    """Return what a body that raised `exception` came to.

    `stopping` says that the body had been asked to stop, so that a cancellation was meant for it;
    one that no one asked for is an ordinary failure.
    """
    signal = _find_signal(exception)
    if signal is not None:
        return signal.outcome
    if isinstance(exception, WorkStopped):
        return Interrupted(exception.interruption)
    if isinstance(exception, _UNREQUESTED):
        return Interrupted(None) if stopping else failure_of(exception)
    if isinstance(exception, MemoryError) or not isinstance(exception, Exception):
        let_go(exception)
        return Interrupted(_interruption_in(exception))
    return failure_of(exception)


def failure_of_function(exception: BaseException) -> Failure:
    """Return the failure of a function of the definition: `.when`, `.map`, `over`, `.collect`.

    Raises `exception` itself if it is an interruption.
    """
    signal = _find_signal(exception)
    if signal is not None:
        if isinstance(signal.outcome, Failure):
            return signal.outcome
        called = "skip" if isinstance(signal.outcome, Skipped) else "halt"
        return Failure(
            f"{called}() ends a step from within its body; this function is called outside of it.",
            retryable=False,
        )
    if isinstance(of_exception(exception, stopping=False), Interrupted):
        raise exception
    return failure_of(exception, retryable=False)


def let_go(interruption: BaseException) -> None:
    """Free what the frames that an interruption unwound still hold.

    One that came on the way out of a transaction left it open, and holding its lock, for as long as
    its traceback lives; the interruption itself is on record, or about to be.
    """
    at: BaseException | None = interruption
    while at is not None:
        tracebacks.clear_frames(at.__traceback__)
        at = at.__context__


def failure_of(exception: BaseException, *, retryable: bool = True) -> Failure:
    """Return the failure that an exception amounts to."""
    return Failure(
        exception,  # type: ignore[arg-type]  # Failure takes its message from the exception
        retryable=retryable,
    )


def reason_of(failure: Failure) -> BaseException | str:
    """Return what `compensate` receives: the exception, or the message of a declared failure."""
    return failure.exception if failure.exception is not None else str(failure.error)


def _find_signal(exception: BaseException) -> Signal | None:
    if isinstance(exception, Signal):
        return exception
    if isinstance(exception, BaseExceptionGroup):
        # a real interruption among them outweighs a signal
        if _holds_interruption(exception):
            return None
        for inner in exception.exceptions:
            found = _find_signal(inner)
            if found is not None:
                return found
    return None


def _holds_interruption(exception: BaseException) -> bool:
    if isinstance(exception, BaseExceptionGroup):
        return any(_holds_interruption(inner) for inner in exception.exceptions)
    if isinstance(exception, (Signal, *_UNREQUESTED)):
        return False
    return isinstance(exception, MemoryError) or not isinstance(exception, Exception)


def _interruption_in(exception: BaseException) -> BaseException:
    """Return the interruption itself where a group carries it alone."""
    if isinstance(exception, BaseExceptionGroup) and len(exception.exceptions) == 1:
        return _interruption_in(exception.exceptions[0])
    return exception
