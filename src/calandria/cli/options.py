"""The options that commands share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import typer


@dataclass(frozen=True)
class GlobalOptions:
    """What stands before the command: where runs are kept, and how to tell what happens."""

    storage: str | None = None
    log: Literal["key-value", "json"] | None = None
    verbose: bool = False
    traceback: bool = False


AsJson = Annotated[bool, typer.Option("--json", help="Write JSON, for scripts.")]

Modules = Annotated[
    list[str] | None,
    typer.Option(
        "--module",
        "-m",
        metavar="MODULE",
        help="Import this module first, for the reactors in it. Repeatable.",
    ),
]

RunId = Annotated[str, typer.Argument(metavar="RUN", help="The run's id.")]
