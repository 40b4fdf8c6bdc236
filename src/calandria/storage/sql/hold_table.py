"""Locks, semaphores, rate limits and periods: all that a piece of work needs, or nothing."""

from __future__ import annotations

from collections.abc import Sequence

from calandria.ports.coordination import (
    AcquireRequest,
    Granted,
    Hold,
    HoldKind,
    HoldRequest,
    PeriodRequest,
    RateRequest,
    Refusal,
    Refused,
    encloses,
)
from calandria.storage.sql.database import Row, Session
from calandria.storage.sql.sequence_table import take_turn
from calandria.storage.sql.statements import STATEMENTS, Value


def acquire(session: Session, request: AcquireRequest) -> Granted | Refused:
    """Take everything asked for, or nothing; see `CoordinationStore.acquire`."""
    time = session.lease_time
    for turn in request.turns:
        refused = take_turn(session, request, turn, time)
        if refused is not None:
            return refused
    for period in request.periods:
        refused = _check_period(session, request, period)
        if refused is not None:
            return refused
    for rate in request.rates:
        refused = _check_rate(session, request, rate)
        if refused is not None:
            return refused
    grants: list[tuple[HoldRequest, int | None, bool]] = []
    wanted_once = _once_each(request.holds)
    if isinstance(wanted_once, Refused):
        return wanted_once
    for wanted in wanted_once:
        checked = _check_hold(session, request, wanted, time)
        if isinstance(checked, Refused):
            return checked
        grants.append((wanted, *checked))
    for key, seconds in {
        (rate.key, seconds) for rate in request.rates for seconds, _ in rate.windows
    }:
        _count_start(session, request, key, seconds)
    return Granted([_grant(session, request, *grant, time) for grant in grants])


def _check_period(
    session: Session, request: AcquireRequest, period: PeriodRequest
) -> Refused | None:
    values: dict[str, Value] = {"key": period.key, "bucket": period.bucket}
    mark = session.row(STATEMENTS["mark_of"], values)
    if mark is None or mark == (request.execution, request.path):
        return None
    return Refused(
        Refusal.PERIOD,
        "Period",
        period.key,
        holders=[mark[0]],
        detail=f"already done in {period.bucket}",
    )


def _check_rate(session: Session, request: AcquireRequest, rate: RateRequest) -> Refused | None:
    """Refuse if a window is full; of several the one that takes longest to have room."""
    tightest: tuple[float, int, int] | None = None
    last = {row[0]: row[1:] for row in session.rows(STATEMENTS["windows"], {"key": rate.key})}
    for seconds, limit in rate.windows:
        place = int(request.now // seconds)
        last_place, used = last.get(seconds, (place, 0))
        if last_place != place or used < limit:
            continue
        left = (place + 1) * seconds - request.now
        tightest = max(tightest or (0.0, 0, 0), (left, seconds, limit))
    if tightest is None:
        return None
    left, seconds, limit = tightest
    return Refused(
        Refusal.RATE,
        "RateLimit",
        rate.key,
        retry_after=left,
        detail=f"{limit} starts in {seconds} s are used up",
    )


def _count_start(session: Session, request: AcquireRequest, key: str, seconds: int) -> None:
    place = int(request.now // seconds)
    values: dict[str, Value] = {"key": key, "seconds": seconds, "place": place}
    session.execute(STATEMENTS["count_start"], values)


def _once_each(holds: Sequence[HoldRequest]) -> list[HoldRequest] | Refused:
    """Return what is asked for in the order of taking; keys that came out equal count once."""
    found: dict[str, HoldRequest] = {}
    for wanted in sorted(holds, key=lambda hold: (hold.kind.value, hold.key)):
        other = found.setdefault(wanted.key, wanted)
        if other.kind is not wanted.kind:
            return _mixed(wanted, other.kind.value, [])
        limit, ttl = min(other.limit, wanted.limit), max(other.ttl, wanted.ttl)
        found[wanted.key] = HoldRequest(wanted.kind, wanted.key, limit, ttl)
    return list(found.values())


def places_taken(session: Session, key: str) -> list[str]:
    """Return the execution behind each live hold of a key that is not a re-entry."""
    rows = session.rows(STATEMENTS["live_holds_of_key"], session.lease_time | {"key": key})
    return [row[0] for row in rows if _takes_place(row, rows)]


def _takes_place(row: Row, rows: Sequence[Row]) -> bool:
    """Tell whether a hold counts by itself: no re-entry, or what it re-entered is no more."""
    execution, path, _, is_nested, _ = row
    return not is_nested or not any(
        other[0] == execution and other[1] != path and encloses(other[1], path) for other in rows
    )


def _check_hold(
    session: Session, request: AcquireRequest, wanted: HoldRequest, time: dict[str, Value]
) -> Refused | tuple[int | None, bool]:
    """Return the token to go on with (`None`: a new one) and whether it is a re-entry."""
    rows = session.rows(STATEMENTS["live_holds_of_key"], time | {"key": wanted.key})
    in_the_way: list[str] = []
    token: int | None = None
    nested = False
    for row in rows:
        execution, path, kind, is_nested, held_token = row
        if kind != wanted.kind.value:
            return _mixed(wanted, kind, [execution])
        own = execution == request.execution
        if own and path == request.path:
            return held_token, bool(is_nested)
        if own and encloses(path, request.path):
            token, nested = held_token, True
        elif _takes_place(row, rows):
            in_the_way.append(execution)
    if nested or len(in_the_way) < wanted.limit:
        return token, nested
    primitive = "Lock" if wanted.kind is HoldKind.LOCK else "Semaphore"
    return Refused(Refusal.HELD, primitive, wanted.key, holders=in_the_way)


def _mixed(wanted: HoldRequest, kind: str, holders: Sequence[str]) -> Refused:
    return Refused(
        Refusal.MIXED,
        "Lock" if wanted.kind is HoldKind.LOCK else "Semaphore",
        wanted.key,
        holders=holders,
        detail=f"the key is held as a {kind}: use different keys for locks and semaphores",
    )


def _grant(
    session: Session,
    request: AcquireRequest,
    wanted: HoldRequest,
    token: int | None,
    nested: bool,
    time: dict[str, Value],
) -> Hold:
    values: dict[str, Value] = time | {
        "key": wanted.key,
        "execution": request.execution,
        "path": request.path,
        "kind": wanted.kind.value,
        "label": request.label,
        "nested": nested,
        "now": request.now,
        "ttl": wanted.ttl,
    }
    if token is None:
        session.execute(STATEMENTS["drop_lapsed_holds"], values)
        row = session.row(STATEMENTS["next_token"], values)
        assert row is not None
        token = int(row[0])
    values["token"] = token
    session.execute(STATEMENTS["write_hold"], values)
    return Hold(
        wanted.kind,
        wanted.key,
        request.execution,
        request.path,
        request.label,
        token,
        request.now,
        wanted.ttl,
    )


def hold_of(row: Row) -> Hold:
    """Return the hold in a row of `select_holds`."""
    kind, key, execution, path, label, token, acquired_at, expires_in = row
    return Hold(HoldKind(kind), key, execution, path, label, token, acquired_at, expires_in)
