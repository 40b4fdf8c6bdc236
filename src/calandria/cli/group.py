"""The top of the command line: whatever goes wrong becomes one line and an exit code."""

from __future__ import annotations

import traceback
from typing import Any

import typer
from typer.core import TyperGroup

from calandria.cli.console import err, one_line
from calandria.cli.exits import ExitCode, exit_code_of
from calandria.cli.report import rollback_lines
from calandria.errors import CalandriaError, UndoIncomplete, ValidationError


class Commands(TyperGroup):
    """Runs a command and turns its errors into exit codes."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command; raises `typer.Exit` with the code that tells what went wrong."""
        try:
            return super().invoke(ctx)
        except CalandriaError as error:
            _explain(error, with_traceback=_wants_traceback(ctx))
            raise typer.Exit(exit_code_of(error)) from error
        except Exception as error:
            if _is_typers_own(error) or isinstance(error, BrokenPipeError):
                raise
            _explain(error, with_traceback=_wants_traceback(ctx))
            raise typer.Exit(ExitCode.FAILED) from error
        except KeyboardInterrupt as error:
            err().print("Interrupted.")
            raise typer.Exit(ExitCode.INTERRUPTED) from error


def _wants_traceback(ctx: typer.Context) -> bool:
    return bool(getattr(ctx.obj, "traceback", False))


def _is_typers_own(error: Exception) -> bool:
    """Tell whether typer handles this itself: it knows its exit code, or asks to abort."""
    return hasattr(error, "exit_code") or isinstance(error, typer.Abort)


def _explain(error: Exception, *, with_traceback: bool) -> None:
    console = err()
    if with_traceback:
        console.print("".join(traceback.format_exception(error)), end="", soft_wrap=True)
    kind = "" if isinstance(error, CalandriaError) else f"unexpected {type(error).__name__}: "
    console.print(f"Error: {kind}{one_line(error)}", soft_wrap=True)
    if isinstance(error, ValidationError):
        for field, messages in error.errors.items():
            for message in messages:
                console.print(f"  {one_line(field)}: {one_line(message)}", soft_wrap=True)
    if isinstance(error, UndoIncomplete):
        for line in rollback_lines(error.rollback_failures):
            console.print(f"  {line}", soft_wrap=True)
