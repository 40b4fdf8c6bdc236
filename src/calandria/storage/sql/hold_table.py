"""Locks, semaphores, rate limits and periods: all that a piece of work needs, or nothing."""

from __future__ import annotations

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
    for wanted in sorted(request.holds, key=lambda hold: (hold.kind.value, hold.key)):
        checked = _check_hold(session, request, wanted, time)
        if isinstance(checked, Refused):
            return checked
        grants.append((wanted, *checked))
    for rate in request.rates:
        _count_start(session, request, rate)
    return Granted([_grant(session, request, *grant, time) for grant in grants])


def encloses(outer: str, inner: str) -> bool:
    """Tell whether the path `outer` is `inner`, or around it."""
    return outer in ("", inner) or inner.startswith((f"{outer}/", f"{outer}["))


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
    for seconds, limit in rate.windows:
        place = int(request.now // seconds)
        row = session.row(STATEMENTS["window"], {"key": rate.key, "seconds": seconds})
        if row is None or row[0] != place or row[1] < limit:
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


def _count_start(session: Session, request: AcquireRequest, rate: RateRequest) -> None:
    for seconds, _ in rate.windows:
        place = int(request.now // seconds)
        values: dict[str, Value] = {"key": rate.key, "seconds": seconds, "place": place}
        session.execute(STATEMENTS["count_start"], values)


def _check_hold(
    session: Session, request: AcquireRequest, wanted: HoldRequest, time: dict[str, Value]
) -> Refused | tuple[int | None, bool]:
    """Return the token to go on with (`None`: a new one) and whether it is a re-entry."""
    rows = session.rows(STATEMENTS["live_holds_of_key"], time | {"key": wanted.key})
    in_the_way: list[str] = []
    token: int | None = None
    nested = False
    for execution, path, kind, is_nested, held_token in rows:
        if kind != wanted.kind.value:
            return _mixed(wanted, kind, execution)
        own = execution == request.execution
        if own and path == request.path:
            return held_token, bool(is_nested)
        if own and encloses(path, request.path):
            token, nested = held_token, True
        elif not is_nested:
            in_the_way.append(execution)
    if nested or len(in_the_way) < wanted.limit:
        return token, nested
    primitive = "Lock" if wanted.kind is HoldKind.LOCK else "Semaphore"
    return Refused(Refusal.HELD, primitive, wanted.key, holders=in_the_way)


def _mixed(wanted: HoldRequest, kind: str, execution: str) -> Refused:
    return Refused(
        Refusal.MIXED,
        "Lock" if wanted.kind is HoldKind.LOCK else "Semaphore",
        wanted.key,
        holders=[execution],
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
