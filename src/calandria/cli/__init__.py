"""The command line: `calandria`, also `python -m calandria`."""

from __future__ import annotations


def main() -> None:
    """Run the command line; exits with a code that scripts can use."""
    from calandria.cli.app import app

    app(prog_name="calandria")


__all__ = ["main"]
