"""Each primitive through the store, and the bare statements that it cannot do without."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

from benchmarks import measure
from calandria.ports.coordination import (
    AcquireRequest,
    CoordinationStore,
    Granted,
    HoldKind,
    HoldRequest,
    PeriodMark,
    PeriodRequest,
    RateRequest,
    TurnEnd,
    TurnRequest,
)
from calandria.storage import open_store

TTL = 60.0
NOW = 1_800_000_000.0


def take(folder: Path, what: str, times: int) -> dict[str, float]:
    """Enter one key over and over through the store; return seconds per entry.

    `what` is a primitive and the setting of `synchronous`, as in `lock/FULL`.
    """
    primitive, _, setting = what.partition("/")
    store = open_store(f"sqlite:///{folder / 'runs.db'}", sqlite_synchronous=setting)
    store.prepare()
    keys: CoordinationStore = store.coordination  # type: ignore[attr-defined]
    enter = _entering(primitive, keys)
    enter(0)
    with measure.stopwatch() as watch:
        for number in range(1, times + 1):
            enter(number)
    store.close()
    return {"wall": watch.wall / times}


def _entering(primitive: str, keys: CoordinationStore) -> Callable[[int], None]:
    def hold(number: int) -> None:
        kind = HoldKind.LOCK if primitive == "lock" else HoldKind.SEMAPHORE
        wanted = HoldRequest(kind, "k", 1 if primitive == "lock" else 3, TTL)
        _granted(keys, AcquireRequest("run", "step", "label", NOW, holds=[wanted]))
        keys.release("run", "step")

    def start(number: int) -> None:
        rate = RateRequest("k", [(1, 10), (60, 10_000_000)])
        _granted(keys, AcquireRequest("run", "step", "label", NOW + number, rates=[rate]))

    def mark(number: int) -> None:
        period = PeriodRequest("k", f"bucket {number}")
        _granted(keys, AcquireRequest("run", "step", "label", NOW, periods=[period]))
        left = PeriodMark("k", period.bucket, "run", "step")
        keys.settle("run", "step", marks=[left], turn_ends=[], now=NOW)

    def turn(number: int) -> None:
        wanted = TurnRequest("k", True, 600, True)
        _granted(keys, AcquireRequest("run", "step", "label", NOW, turns=[wanted]))
        keys.settle("run", "step", marks=[], turn_ends=[TurnEnd("k", "step", False)], now=NOW)

    others = {"rate limit": start, "period": mark, "ordered lock": turn}
    return others.get(primitive, hold)


def _granted(keys: CoordinationStore, request: AcquireRequest) -> None:
    answer = keys.acquire(request)
    if not isinstance(answer, Granted):
        raise RuntimeError(f"not taken: {answer}")


def bare(folder: Path, what: str, times: int) -> dict[str, float]:
    """Do the statements that an entry cannot do without; return seconds per entry."""
    primitive, _, setting = what.partition("/")
    store = open_store(f"sqlite:///{folder / 'runs.db'}", sqlite_synchronous="NORMAL")
    store.prepare()
    store.close()
    connection = sqlite3.connect(folder / "runs.db", isolation_level=None)
    connection.execute(f"PRAGMA synchronous = {setting}")
    transactions = _BARE[primitive]
    with measure.stopwatch() as watch:
        for number in range(times):
            for transaction in transactions:
                connection.execute("BEGIN IMMEDIATE")
                for statement in transaction:
                    given = {"number": number, "now": NOW} if ":" in statement else {}
                    connection.execute(statement, given).fetchall()
                connection.execute("COMMIT")
    connection.close()
    return {"wall": watch.wall / times}


_HOLDERS = (
    "SELECT execution, path, kind, nested, token FROM calandria_holds "
    "WHERE hold_key = 'k' AND expires_boot = 'b' AND expires > :now"
)
_TOKEN = (
    "INSERT INTO calandria_fences VALUES ('k', 1) "
    "ON CONFLICT (hold_key) DO UPDATE SET token = token + 1 RETURNING token"
)
_HOLD = (
    "INSERT INTO calandria_holds "
    "VALUES ('k', 'run', 'step', 'lock', 'label', 0, :number, :now, :now, 'b')"
)
_LET_GO = "DELETE FROM calandria_holds WHERE execution = 'run' AND path = 'step' RETURNING hold_key"
_FIRST_WAITER = (
    "SELECT run_id FROM calandria_waiters WHERE wait_key = 'k' ORDER BY since, run_id LIMIT 1"
)
_COUNT = (
    "ON CONFLICT (rate_key, seconds) DO UPDATE SET used = CASE WHEN place = excluded.place "
    "THEN used + 1 ELSE 1 END, place = excluded.place"
)
_HOLDING = ((_HOLDERS, _TOKEN, _HOLD), (_LET_GO, _FIRST_WAITER))
_BARE = {
    "lock": _HOLDING,
    "semaphore": _HOLDING,
    "rate limit": (
        (
            "SELECT seconds, place, used FROM calandria_windows WHERE rate_key = 'k'",
            f"INSERT INTO calandria_windows VALUES ('k', 1, :number, 1) {_COUNT}",
            f"INSERT INTO calandria_windows VALUES ('k', 60, :number / 60, 1) {_COUNT}",
        ),
    ),
    "period": (
        (
            "SELECT run_id, path FROM calandria_marks "
            "WHERE period_key = 'k' AND bucket = 'bucket ' || :number",
        ),
        (
            _LET_GO,
            "INSERT INTO calandria_marks "
            "VALUES ('k', 'bucket ' || :number, 'run', 'step', :now) ON CONFLICT DO NOTHING",
        ),
    ),
    "ordered lock": (
        (
            "SELECT position, state FROM calandria_positions "
            "WHERE sequence_key = 'k' AND execution = 'run' AND path = 'step'",
            "INSERT INTO calandria_sequences VALUES ('k', 2) ON CONFLICT (sequence_key) "
            "DO UPDATE SET next_position = next_position + 1 RETURNING next_position - 1",
            "INSERT INTO calandria_positions "
            "VALUES ('k', 1, 'run', 'step', 'label', 'active', :now, 'b')",
            "SELECT position, state FROM calandria_positions "
            "WHERE sequence_key = 'k' AND position < 1 ORDER BY position LIMIT 1",
        ),
        (
            _LET_GO,
            "SELECT position, state FROM calandria_positions "
            "WHERE sequence_key = 'k' AND execution = 'run' AND path = 'step'",
            "SELECT 1 FROM calandria_positions "
            "WHERE sequence_key = 'k' AND state = 'waiting' LIMIT 1",
            "DELETE FROM calandria_positions WHERE sequence_key = 'k'",
            "DELETE FROM calandria_sequences WHERE sequence_key = 'k'",
            _FIRST_WAITER,
        ),
    ),
}
"""By primitive its transactions, each a list of statements."""
