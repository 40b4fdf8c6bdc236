"""Every exception the library raises, on one page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from calandria.results import RollbackFailure


class CalandriaError(Exception):
    """The root of every error raised by Calandria."""


class DefinitionError(CalandriaError):
    """A reactor or step is declared wrongly; the message names it and the fix."""

    def __init__(
        self, message: str, *, reactor: str | None = None, step: str | None = None
    ) -> None:
        super().__init__(message)
        self.reactor = reactor
        self.step = step


class ValidationError(CalandriaError):
    """Values do not satisfy a declared contract.

    `errors` maps each offending field to its messages; redacted values never appear in them.
    """

    def __init__(
        self,
        message: str,
        *,
        errors: Mapping[str, Sequence[str]],
        reactor: str | None = None,
        step: str | None = None,
    ) -> None:
        super().__init__(message)
        self.errors: dict[str, list[str]] = {field: list(found) for field, found in errors.items()}
        self.reactor = reactor
        self.step = step


class UnresolvedReference(CalandriaError):
    """A wired value cannot be read: its path is missing, or its `.map` function raised."""


class EncodingError(CalandriaError):
    """A value cannot be recorded in the journal; `path` says where in the value it stands."""

    def __init__(self, message: str, *, path: str = "") -> None:
        super().__init__(message)
        self.path = path


class DecodingError(CalandriaError):
    """A recorded value cannot be read back: its text is damaged or from a newer version."""


class UnknownRun(CalandriaError):
    """No run with this id is in the storage (of this reactor, where one was named)."""


class IdempotencyConflict(CalandriaError):
    """The idempotency key was used before with different inputs."""


class WaitTimeout(CalandriaError):
    """Something awaited did not settle in time; it goes on, unharmed."""


class RunStateError(CalandriaError):
    """The run's status does not allow what was asked of it."""


class RunBusy(CalandriaError):
    """Another process holds the run's lease; try again when it has let go."""


class KeyUnusable(CalandriaError):
    """A coordination key cannot be computed, is not text, is empty or too long."""


class ContentionError(CalandriaError):
    """A key was not to be had in time; nothing was done under it."""

    def __init__(
        self,
        message: str,
        *,
        reactor: str | None = None,
        step: str | None = None,
        key: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.reactor = reactor
        self.step = step
        self.key = key
        self.retry_after = retry_after


class LockNotAcquired(ContentionError):
    """Another execution holds the lock."""


class SemaphoreFull(ContentionError):
    """As many executions as the semaphore allows hold it."""


class RateLimited(ContentionError):
    """The rate limit's window is full; `retry_after` says in how many seconds one has room."""


class OutOfTurn(ContentionError):
    """Positions before this one in the ordered sequence are not done."""


class Deadlock(ContentionError):
    """Waiting would close a circle of runs that wait for each other."""


class HoldLost(CalandriaError):
    """A hold lapsed and went to another execution while its work ran."""


class HandOffRefused(CalandriaError):
    """Work that needs a key which this execution holds cannot be dispatched from inside it."""


class UndoIncomplete(CalandriaError):
    """An undo left something behind; `rollback_failures` lists what and why."""

    def __init__(self, message: str, *, rollback_failures: Sequence[RollbackFailure]) -> None:
        super().__init__(message)
        self.rollback_failures = list(rollback_failures)


class StorageError(CalandriaError):
    """The storage could not do what was asked; the message says what to do about it."""


class SchemaOutdated(StorageError):
    """The storage's schema is older or newer than this version of Calandria."""


class StaleLease(StorageError):
    """The run has a newer owner: this process was fenced out and has recorded nothing."""
