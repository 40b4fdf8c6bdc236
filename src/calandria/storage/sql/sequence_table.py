"""Ordered sequences: who comes after whom, and who is passed."""

from __future__ import annotations

from calandria.ports.coordination import (
    AcquireRequest,
    Refusal,
    Refused,
    TurnEnd,
    TurnRequest,
    encloses,
)
from calandria.storage.sql.database import Session
from calandria.storage.sql.statements import STATEMENTS, Value


def assign_position(
    session: Session, request: AcquireRequest, key: str, time: dict[str, Value]
) -> tuple[int, str]:
    """Return the position and state of an execution's path, assigned now if it has none."""
    values: dict[str, Value] = time | {
        "key": key,
        "execution": request.execution,
        "path": request.path,
        "label": request.label,
    }
    own = session.row(STATEMENTS["own_position"], values)
    if own is not None:
        return int(own[0]), str(own[1])
    row = session.row(STATEMENTS["next_position"], values)
    assert row is not None
    values["position"] = row[0]
    session.execute(STATEMENTS["write_position"], values)
    return int(row[0]), "waiting"


def take_turn(
    session: Session, request: AcquireRequest, turn: TurnRequest, time: dict[str, Value]
) -> Refused | None:
    """Make the position active if its turn has come; else say why not."""
    own: dict[str, Value] = {"key": turn.key, "execution": request.execution}
    for (path,) in session.rows(STATEMENTS["active_paths"], own):
        if path != request.path and encloses(path, request.path):
            return None
    position, state = assign_position(session, request, turn.key, time)
    values: dict[str, Value] = time | {"key": turn.key, "position": position}
    if state == "stale":
        return _refused(Refusal.STALE, turn.key, "it was passed after proving no life for too long")
    if state in ("done", "failed"):
        return _refused(Refusal.STALE, turn.key, "it is over already")
    ahead = _first_ahead(session, turn, values)
    if ahead is not None:
        if turn.keep:
            session.execute(STATEMENTS["see_position"], values | {"state": state})
        else:
            session.execute(STATEMENTS["hand_back_position"], values)
            drain_if_done(session, turn.key)
        detail = f"position {position} waits for position {ahead[0]}"
        return _refused(Refusal.TURN, turn.key, detail, holders=[ahead[1]])
    if turn.strict and session.row(STATEMENTS["failed_before"], values) is not None:
        # passed, so that a run which dies before it records this does not begin when taken up
        session.execute(STATEMENTS["see_position"], values | {"state": "stale"})
        drain_if_done(session, turn.key)
        return _refused(Refusal.CHAIN_FAILED, turn.key, "an earlier position failed")
    session.execute(STATEMENTS["see_position"], values | {"state": "active"})
    return None


def _first_ahead(
    session: Session, turn: TurnRequest, values: dict[str, Value]
) -> tuple[int, str] | None:
    """Return the first position before this one that is not done, passing the poisoned ones."""
    values = values | {"poison_timeout": turn.poison_timeout}
    while True:
        head = session.row(STATEMENTS["head_of_sequence"], values)
        if head is None:
            return None
        position, execution, fresh = head
        if fresh or _lives(session, execution, values):
            return int(position), str(execution)
        session.execute(
            STATEMENTS["see_position"], values | {"position": position, "state": "stale"}
        )


def _lives(session: Session, execution: str, values: dict[str, Value]) -> bool:
    row = session.row(STATEMENTS["run_lives"], values | {"execution": execution})
    return row is not None and bool(row[0])


def end_turn(session: Session, execution: str, end: TurnEnd, time: dict[str, Value]) -> bool:
    """Note that a position is done or has failed; tell whether there was one to note."""
    values: dict[str, Value] = time | {"key": end.key, "execution": execution, "path": end.path}
    own = session.row(STATEMENTS["own_position"], values)
    if own is None or own[1] not in ("waiting", "active"):
        return False
    values["position"] = own[0]
    if end.handed_back:
        session.execute(STATEMENTS["hand_back_position"], values)
    else:
        values["state"] = "failed" if end.failed else "done"
        session.execute(STATEMENTS["see_position"], values)
    drain_if_done(session, end.key)
    return True


def pass_position(session: Session, key: str, position: int, time: dict[str, Value]) -> bool:
    """Pass one position by an operator's word; false if it is not there or is done."""
    for found, _, _, state, _ in session.rows(STATEMENTS["positions"], {"key": key}):
        if found == position and state in ("waiting", "active"):
            values: dict[str, Value] = time | {"key": key, "position": position, "state": "stale"}
            session.execute(STATEMENTS["see_position"], values)
            drain_if_done(session, key)
            return True
    return False


def forget_sequence(session: Session, key: str) -> int:
    """Delete a sequence; return how many positions it had."""
    count = session.execute(STATEMENTS["forget_positions"], {"key": key})
    session.execute(STATEMENTS["drain_sequence"], {"key": key})
    return count


def drain_if_done(session: Session, key: str) -> None:
    """Reset a sequence once nobody in it waits or works: the next position is the first again."""
    if session.row(STATEMENTS["open_positions"], {"key": key}) is None:
        session.execute(STATEMENTS["drain_positions"], {"key": key})
        session.execute(STATEMENTS["drain_sequence"], {"key": key})


def _refused(reason: Refusal, key: str, detail: str, holders: list[str] | None = None) -> Refused:
    return Refused(reason, "OrderedLock", key, holders=holders or [], detail=detail)
