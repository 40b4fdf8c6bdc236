"""`calandria keys`: who holds which key, who waits for it, and moving a sequence on."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer
from rich.table import Table

from calandria.cli.as_data import hold_data, instant_data
from calandria.cli.console import err, one_line, out, print_block, print_json
from calandria.cli.exits import CommandError, ExitCode
from calandria.cli.opening import open_existing_runtime
from calandria.cli.options import AsJson, GlobalOptions
from calandria.cli.report import instant
from calandria.coordination.primitives import OrderedLock
from calandria.ports.coordination import SequencePosition, Waiter
from calandria.runtime.key_views import KeyView, key_views

Data = dict[str, object]

Key = Annotated[str, typer.Argument(metavar="KEY", help="The key of an ordered sequence.")]

keys = typer.Typer(help="Show who holds which coordination key, and who waits for it.")


@keys.callback(invoke_without_command=True)
def show_keys(
    context: typer.Context,
    prefix: Annotated[
        str, typer.Option(metavar="TEXT", help="Only keys that begin with this.")
    ] = "",
    run_id: Annotated[
        str | None,
        typer.Option(
            "--run",
            metavar="RUN",
            help="Only keys that this run holds or waits for, with everybody else at them.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show who holds which coordination key, and who waits for it."""
    if context.invoked_subcommand is not None:
        return
    options: GlobalOptions = context.obj
    with open_existing_runtime(options) as runtime:
        views = key_views(runtime, prefix=prefix, run_id=run_id)
        now = datetime.fromtimestamp(runtime.services.clock.now(), UTC)
        if as_json:
            print_json([_data(view, now) for view in views])
        elif views:
            print_block(out(), _table(views, now))
        else:
            err().print("No keys are held or waited for.")


@keys.command("skip")
def skip(
    context: typer.Context,
    key: Key,
    position: Annotated[int, typer.Argument(metavar="POSITION", help="As `keys` shows it.")],
    as_json: AsJson = False,
) -> None:
    """Pass a position of an ordered sequence whose run will not go on."""
    options: GlobalOptions = context.obj
    with open_existing_runtime(options) as runtime:
        passed = OrderedLock.skip(key, position, runtime=runtime)
    if not passed:
        raise CommandError(
            f"There is no position {position} to pass under {key!r}: `calandria keys` shows those "
            "that are waiting or active.",
            ExitCode.NOT_FOUND,
        )
    if as_json:
        print_json({"key": key, "position": position, "skipped": True})
    else:
        out().print(f"Passed position {position} of {one_line(key)}.", soft_wrap=True)


@keys.command("reset")
def reset(context: typer.Context, key: Key, as_json: AsJson = False) -> None:
    """Forget an ordered sequence: who still waits gets a new position when it next asks."""
    options: GlobalOptions = context.obj
    with open_existing_runtime(options) as runtime:
        count = OrderedLock.reset(key, runtime=runtime)
    if not count:
        raise CommandError(f"There is no sequence under {key!r}.", ExitCode.NOT_FOUND)
    if as_json:
        print_json({"key": key, "positions": count})
    else:
        out().print(f"Forgot {count} positions of {one_line(key)}.", soft_wrap=True)


def _data(view: KeyView, now: datetime) -> Data:
    return {
        "key": view.key,
        "holders": [hold_data(hold, now) for hold in view.holds],
        "waiters": [
            *(_waiter_data(waiter, for_turn=False) for waiter in view.waiters),
            *(_waiter_data(waiter, for_turn=True) for waiter in view.turn_waiters),
        ],
        "sequence": [_position_data(position) for position in view.positions],
    }


def _waiter_data(waiter: Waiter, *, for_turn: bool) -> Data:
    since = datetime.fromtimestamp(waiter.since, UTC)
    return {
        "run": waiter.run_id,
        "step": waiter.label,
        "since": instant_data(since),
        "for_turn": for_turn,
    }


def _position_data(position: SequencePosition) -> Data:
    return {
        "position": position.position,
        "state": position.state,
        "run": position.execution,
        "path": position.path,
        "step": position.label,
    }


def _table(views: list[KeyView], now: datetime) -> Table:
    table = Table(box=None, pad_edge=False, show_edge=False)
    for heading in ("key", "state", "run", "step", "since", "until"):
        table.add_column(heading, overflow="fold", no_wrap=heading not in ("key", "step"))
    for view in views:
        for row in _rows(view, now):
            table.add_row(*(one_line(cell) for cell in (view.key, *row)))
    return table


def _rows(view: KeyView, now: datetime) -> Iterator[tuple[str, str, str, str, str]]:
    for hold in view.holds:
        since = datetime.fromtimestamp(hold.acquired_at, UTC)
        until = now + timedelta(seconds=hold.expires_in)
        state = f"holds {hold.kind.value}"
        yield state, hold.execution, hold.label, instant(since), instant(until)
    for waiter in view.waiters:
        yield "waits", waiter.run_id, waiter.label, _since(waiter), ""
    parked = {waiter.run_id: waiter for waiter in view.turn_waiters}
    for position in view.positions:
        here = parked.pop(position.execution, None)
        since_when = "" if here is None else _since(here)
        state = f"position {position.position} {position.state}"
        yield state, position.execution, position.label, since_when, ""
    # after a reset they have no position until they ask again
    for waiter in parked.values():
        yield "waits for a turn", waiter.run_id, waiter.label, _since(waiter), ""


def _since(waiter: Waiter) -> str:
    return instant(datetime.fromtimestamp(waiter.since, UTC))
