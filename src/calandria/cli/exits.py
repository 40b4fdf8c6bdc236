"""The exit codes of the command line, and which error means which."""

from __future__ import annotations

from enum import IntEnum

from calandria.errors import (
    CalandriaError,
    DecodingError,
    IdempotencyConflict,
    RunBusy,
    RunStateError,
    StaleLease,
    StorageError,
    UndoIncomplete,
    UnknownRun,
    WaitTimeout,
)


class ExitCode(IntEnum):
    """What a script learns from a command; documented in docs/command-line.md."""

    OK = 0
    FAILED = 1
    """The run failed and was rolled back."""
    USAGE = 2
    """Wrong options, invalid inputs, a reactor that cannot be imported or is declared wrongly."""
    NOT_FOUND = 3
    """No such run; or no live worker."""
    INCOMPLETE = 4
    """A rollback left something behind: the run needs attention."""
    CONFLICT = 5
    """Another process executes the run, or its status does not allow what was asked, or `wait`
    waited for it in vain."""
    STORAGE = 6
    CUT_OFF = 7
    """A worker's time to drain was over before its steps were: others take their runs up."""
    INTERRUPTED = 130


class CommandError(CalandriaError):
    """A command cannot do what was asked; the message is the line that is shown."""

    def __init__(self, message: str, code: ExitCode = ExitCode.USAGE) -> None:
        super().__init__(message)
        self.code = code


_CODES: tuple[tuple[type[CalandriaError], ExitCode], ...] = (
    (UnknownRun, ExitCode.NOT_FOUND),
    (UndoIncomplete, ExitCode.INCOMPLETE),
    # a stale lease is a storage error that means somebody else has the run
    (StaleLease, ExitCode.CONFLICT),
    (RunBusy, ExitCode.CONFLICT),
    (RunStateError, ExitCode.CONFLICT),
    (IdempotencyConflict, ExitCode.CONFLICT),
    (WaitTimeout, ExitCode.CONFLICT),
    (StorageError, ExitCode.STORAGE),
    (DecodingError, ExitCode.STORAGE),
)


def exit_code_of(error: CalandriaError) -> ExitCode:
    """Return the exit code that tells a script what kind of error this is."""
    if isinstance(error, CommandError):
        return error.code
    for kind, code in _CODES:
        if isinstance(error, kind):
            return code
    return ExitCode.USAGE
