"""The coordination store on a SQL database: each method is one transaction."""

from __future__ import annotations

import json
from collections.abc import Sequence

from calandria.ports.coordination import (
    TURN_PREFIX,
    AcquireRequest,
    Granted,
    Hold,
    HoldKind,
    PeriodMark,
    Refused,
    SequencePosition,
    TurnEnd,
    Wait,
    Waiter,
)
from calandria.ports.run_store import CoordinationChanges, JobRequest
from calandria.storage.sql.database import Database, Session
from calandria.storage.sql.hold_table import acquire, hold_of, places_taken
from calandria.storage.sql.job_table import add_job
from calandria.storage.sql.sequence_table import (
    assign_position,
    drain_if_done,
    end_turn,
    forget_sequence,
    pass_position,
)
from calandria.storage.sql.statements import STATEMENTS, Value

LONGEST_CHAIN = 300
"""Runs looked at in search of a circle; a longer chain is taken for none."""


class SqlCoordination:
    """Keeps holds, windows, marks and sequences beside the runs. See `CoordinationStore`.

    What only holds and waits are about need not outlast a power cut: no hold lives longer than the
    boot of its host. Tokens, windows, marks and positions do last.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def acquire(self, request: AcquireRequest) -> Granted | Refused:
        """Take everything asked for, or nothing."""
        with self._database.write() as session:
            found = acquire(session, request)
            if isinstance(found, Granted) and session.execute(
                STATEMENTS["waits_no_more"],
                {"run_id": request.execution, "label": request.label},
            ):
                _share_places(session, request)
            elif isinstance(found, Refused) and found.primitive == "OrderedLock":
                # positions before it may have been passed, or its own was: whose turn is it now?
                _wake(session, TURN_PREFIX + found.key)
        return found

    def release(self, execution: str, path: str) -> Sequence[str]:
        """Let go of everything a path holds; return the keys."""
        with self._database.write(lasting=False) as session:
            return _release(session, execution, path)

    def settle(
        self,
        execution: str,
        path: str,
        *,
        marks: Sequence[PeriodMark],
        turn_ends: Sequence[TurnEnd],
        now: float,
    ) -> None:
        """Let go of what a path holds, and leave what its end leaves, for work without a run."""
        changes = CoordinationChanges([path], marks, turn_ends=turn_ends, now=now)
        with self._database.write() as session:
            write_coordination(session, execution, changes)

    def renew(self, holds: Sequence[Hold], *, ttls: Sequence[float]) -> Sequence[Hold]:
        """Extend holds by their `ttls` from now; return those that were lost."""
        lost: list[Hold] = []
        with self._database.write(lasting=False) as session:
            time = session.lease_time
            for hold, ttl in zip(holds, ttls, strict=True):
                values = time | {
                    "key": hold.key,
                    "execution": hold.execution,
                    "path": hold.path,
                    "token": hold.token,
                    "ttl": ttl,
                }
                if not session.execute(STATEMENTS["renew_hold"], values):
                    lost.append(hold)
            for execution in {hold.execution for hold in holds}:
                session.execute(STATEMENTS["see_execution"], time | {"execution": execution})
        return lost

    def see(self, execution: str) -> None:
        """Note that an execution lives, so that its positions in sequences are not passed."""
        with self._database.write(lasting=False) as session:
            values = session.lease_time | {"execution": execution}
            session.execute(STATEMENTS["see_execution"], values)

    def adopt(self, execution: str, *, now: float) -> Sequence[Hold]:
        """Return the live holds of an execution that a new process takes up, with new tokens."""
        with self._database.read() as session:
            # most runs that are taken up hold nothing: they need not stand in line with writers
            if session.row(STATEMENTS["any_hold"], {"execution": execution}) is None:
                return []
        with self._database.write() as session:
            values: dict[str, Value] = session.lease_time | {"execution": execution}
            # or the process that had them would extend them, and share a token with this one
            session.execute(STATEMENTS["drop_lapsed_of_execution"], values)
            rows = session.rows(STATEMENTS["holds_of_execution"], values)
            for key in {row[1] for row in rows}:
                token = session.row(STATEMENTS["next_token"], {"key": key})
                assert token is not None
                renumbered: dict[str, Value] = {
                    "key": key,
                    "execution": execution,
                    "token": token[0],
                }
                session.execute(STATEMENTS["renumber_holds"], renumbered)
            rows = session.rows(STATEMENTS["holds_of_execution"], values)
        return [hold_of(row) for row in rows]

    def drop(self, execution: str, *, keep: Sequence[str]) -> None:
        """Let go of every hold of an execution but those of the paths in `keep`."""
        with self._database.write(lasting=False) as session:
            found = session.rows(STATEMENTS["paths_of_execution"], {"execution": execution})
            for path in {path for (path,) in found} - set(keep):
                _release(session, execution, path)

    def assign(self, request: AcquireRequest) -> None:
        """Assign the positions of an execution that is about to be created or dispatched."""
        with self._database.write() as session:
            for turn in request.turns:
                assign_position(session, request, turn.key, session.lease_time)

    def wait_for(
        self, run_id: str, key: str, *, label: str, now: float, holders: Sequence[str] = ()
    ) -> Wait:
        """Note that a run is parked for a key, whose release makes its job due."""
        values: dict[str, Value] = {"run_id": run_id, "key": key, "label": label, "now": now}
        with self._database.write(lasting=False) as session:
            for (other,) in session.rows(STATEMENTS["waits_no_more_for"], values):
                _pass_on(session, other)
            circle = _circle(session, run_id, key)
            if circle:
                session.execute(STATEMENTS["stop_waiting"], values)
                return Wait(circle=circle)
            row = session.row(STATEMENTS["write_waiter"], values)
            assert row is not None
            if _came_free(session, run_id, key, holders):
                add_job(session, JobRequest(run_id))
        return Wait(tries=row[0])

    def stop_waiting(self, run_id: str, key: str) -> None:
        """Note that a run waits for a key no more, without having got it."""
        with self._database.write(lasting=False) as session:
            session.execute(STATEMENTS["stop_waiting"], {"run_id": run_id, "key": key})
            _pass_on(session, key)

    def holds(self, *, execution: str | None = None) -> Sequence[Hold]:
        """Return live holds, oldest first; of one execution if given."""
        with self._database.read() as session:
            if execution is None:
                rows = session.rows(STATEMENTS["all_holds"], session.lease_time)
            else:
                values = session.lease_time | {"execution": execution}
                rows = session.rows(STATEMENTS["holds_of_execution"], values)
        return [hold_of(row) for row in rows]

    def waiters(self) -> Sequence[Waiter]:
        """Return the runs that wait for keys, the longest wait first."""
        with self._database.read() as session:
            return [Waiter(*row) for row in session.rows(STATEMENTS["waiters"], {})]

    def sequence_keys(self) -> Sequence[str]:
        """Return the keys of the ordered sequences that have not drained, in order."""
        with self._database.read() as session:
            return [key for (key,) in session.rows(STATEMENTS["sequence_keys"], {})]

    def sequence(self, key: str) -> Sequence[SequencePosition]:
        """Return the positions of an ordered sequence, in order."""
        with self._database.read() as session:
            rows = session.rows(STATEMENTS["positions"], {"key": key})
        return [SequencePosition(*row) for row in rows]

    def skip(self, key: str, position: int) -> bool:
        """Pass a position; its execution ends skipped. False if there is none to pass."""
        with self._database.write() as session:
            passed = pass_position(session, key, position, session.lease_time)
            if passed:
                _wake_sequence(session, key)
        return passed

    def prune(self, *, now: float) -> int:
        """Delete marks and windows whose time is over, drained sequences, and holds long lapsed."""
        with self._database.write() as session:
            values = session.lease_time | {"now": now}
            return sum(session.execute(STATEMENTS[name], values) for name in _PRUNED)

    def reset(self, key: str) -> int:
        """Forget a whole sequence; return how many positions it had."""
        with self._database.write() as session:
            count = forget_sequence(session, key)
            _wake_sequence(session, key)
        return count


_PRUNED = (
    "prune_marks",
    "prune_windows",
    "prune_positions",
    "prune_sequences",
    "prune_holds",
    "prune_waiters",
)


def _wake_sequence(session: Session, key: str) -> None:
    """Have everybody looked at who is parked for a turn: passed, next, or without a position."""
    for (run_id,) in session.rows(STATEMENTS["parked_for"], {"key": TURN_PREFIX + key}):
        add_job(session, JobRequest(run_id))


def write_coordination(session: Session, execution: str, changes: CoordinationChanges) -> None:
    """Write what a run's commit changes of its coordination, in the transaction of the commit."""
    time = session.lease_time
    for path in changes.releases:
        _release(session, execution, path)
    for mark in changes.marks:
        _leave_mark(session, mark, changes.now)
    for path in changes.unmarks:
        session.execute(STATEMENTS["take_marks"], {"run_id": execution, "path": path})
    if changes.unmark_all_but is not None:
        kept = json.dumps(list(changes.unmark_all_but))
        session.execute(STATEMENTS["take_all_marks"], {"run_id": execution, "kept": kept})
    for end in changes.turn_ends:
        _end_turn(session, execution, end, time)
    if changes.extend_holds is not None:
        values = time | {"execution": execution, "ttl": changes.extend_holds}
        session.execute(STATEMENTS["extend_holds"], values)
    for request in changes.positions:
        for turn in request.turns:
            assign_position(session, request, turn.key, time)
    if changes.ends:
        _end_execution(session, execution, time)


def _end_execution(session: Session, execution: str, time: dict[str, Value]) -> None:
    """Leave nothing of an execution that is over: also what a process took that died."""
    values: dict[str, Value] = {"execution": execution}
    for (path,) in session.rows(STATEMENTS["paths_of_execution"], values):
        _release(session, execution, path)
    for key, path in session.rows(STATEMENTS["positions_of_execution"], values):
        _end_turn(session, execution, TurnEnd(key, path, failed=False), time)
        # one that was passed was kept for this execution to learn of it
        drain_if_done(session, key)
    session.execute(STATEMENTS["forget_waiter"], {"run_id": execution})


def _leave_mark(session: Session, mark: PeriodMark, now: float) -> None:
    values: dict[str, Value] = {
        "key": mark.key,
        "bucket": mark.bucket,
        "run_id": mark.run_id,
        "path": mark.path,
        "now": now,
        "over_at": mark.over_at,
    }
    session.execute(STATEMENTS["leave_mark"], values)


def _end_turn(session: Session, execution: str, end: TurnEnd, time: dict[str, Value]) -> None:
    if end_turn(session, execution, end, time):
        _wake(session, TURN_PREFIX + end.key)


def _release(session: Session, execution: str, path: str) -> Sequence[str]:
    values: dict[str, Value] = {"execution": execution, "path": path}
    keys = [key for (key,) in session.rows(STATEMENTS["release_holds"], values)]
    for key in keys:
        _wake(session, key)
    return keys


def _wake(session: Session, key: str) -> None:
    """Have the run looked at that has waited longest for a key, or whose turn it is.

    Runs that were woken already are left out: of two places that come free, each wakes one.
    """
    name, wanted = "first_waiter", key
    if key.startswith(TURN_PREFIX):
        name, wanted = "next_in_turn", key.removeprefix(TURN_PREFIX)
    row = session.row(STATEMENTS[name], session.lease_time | {"key": wanted})
    if row is not None and row[-1]:
        add_job(session, JobRequest(row[0]))
        # a try that a release brought about does not use up the run's patience
        session.execute(STATEMENTS["forgive_try"], {"run_id": row[0], "key": key})


def _share_places(session: Session, request: AcquireRequest) -> None:
    """Wake the next run for each semaphore with room left after one that had waited got in.

    Two places that came free in a row may both have woken that one.
    """
    for wanted in request.holds:
        if 1 < wanted.limit > len(places_taken(session, wanted.key)):
            _wake(session, wanted.key)


def _pass_on(session: Session, key: str) -> None:
    """Wake the next run for a key, if it is free, in place of one that wants it no more."""
    if key.startswith(TURN_PREFIX) or not places_taken(session, key):
        _wake(session, key)


def _came_free(session: Session, run_id: str, key: str, holders: Sequence[str]) -> bool:
    """Tell whether a release came between a refusal and the note of the wait."""
    if key.startswith(TURN_PREFIX):
        turn: dict[str, Value] = {"key": key.removeprefix(TURN_PREFIX), "execution": run_id}
        return session.row(STATEMENTS["first_before"], turn) is None
    return len(places_taken(session, key)) < len(holders)


def _circle(session: Session, run_id: str, key: str) -> Sequence[str]:
    """Return the runs that would wait for each other if `run_id` waited for `key`."""
    found = _leads_back(session, run_id, (run_id, key), {})
    return [] if found is None else [run_id, *found]


def _leads_back(
    session: Session, run_id: str, wait: tuple[str, str], seen: dict[str, list[str] | None]
) -> list[str] | None:
    """Return over which runs a wait comes back to `run_id`; `None` if it may end without it.

    One place of a semaphore is enough, so each of its holders must lead back.
    """
    waiter, wanted = wait
    found: list[str] | None = None
    in_the_way, any_will_do = _in_the_way(session, waiter, wanted, run_id)
    for holder in in_the_way:
        path: list[str] | None = None
        if holder != run_id:
            path = _holder_leads_back(session, run_id, holder, seen)
        elif waiter != run_id:
            path = []
        if path is not None:
            found = path
        if (path is None) is any_will_do:
            return found if path is not None else None
    return found


def _holder_leads_back(
    session: Session, run_id: str, holder: str, seen: dict[str, list[str] | None]
) -> list[str] | None:
    if holder in seen or len(seen) >= LONGEST_CHAIN:
        return seen.get(holder)
    seen[holder] = None
    for (further,) in session.rows(STATEMENTS["keys_waited_for"], {"run_id": holder}):
        path = _leads_back(session, run_id, (holder, further), seen)
        if path is not None:
            seen[holder] = [holder, *path]
            break
    return seen[holder]


def _in_the_way(session: Session, waiter: str, wanted: str, run_id: str) -> tuple[list[str], bool]:
    """Return the executions that keep a run from a key, and whether any of them may let it in.

    Of those before it in a sequence only those count that are `run_id` or wait for something else:
    what the others wait for is before them, and so before this one, too.
    """
    if wanted.startswith(TURN_PREFIX):
        turn: dict[str, Value] = {"key": wanted.removeprefix(TURN_PREFIX), "wait": wanted}
        turn |= {"execution": waiter, "run_id": run_id}
        return [row[0] for row in session.rows(STATEMENTS["blocked_before"], turn)], False
    rows = session.rows(STATEMENTS["live_holds_of_key"], session.lease_time | {"key": wanted})
    any_will_do = any(row[2] == HoldKind.SEMAPHORE.value for row in rows)
    return list(dict.fromkeys(row[0] for row in rows)), any_will_do
