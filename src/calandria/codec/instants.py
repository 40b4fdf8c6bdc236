"""Instants, durations and time zones."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from calandria.codec.format import MARK, Form, Rebuilds, Reduces, integers_at, text_at
from calandria.codec.refusal import Refusal
from calandria.errors import DecodingError


def _reduce_date(value: date, inner: Reduces) -> Form:
    return {MARK: "date", "v": value.isoformat()}


def _rebuild_date(form: dict[str, Form], inner: Rebuilds) -> date:
    return date.fromisoformat(text_at(form, "v"))


def _is_unnamed(zone: tzinfo | None) -> bool:
    if zone is None:
        return True
    if type(zone) is not timezone:
        return False
    return zone.tzname(None) == timezone(zone.utcoffset(None)).tzname(None)


def _reduce_instant(value: datetime | time, inner: Reduces) -> Form:
    zone = value.tzinfo
    text = (value if _is_unnamed(zone) else value.replace(tzinfo=None)).isoformat()
    form: dict[str, Form] = {MARK: type(value).__name__, "v": text}
    if not _is_unnamed(zone):
        form["tz"] = inner.reduce(zone)
    if value.fold:
        form["fold"] = 1
    return form


def _zone_of(form: dict[str, Form], unnamed: tzinfo | None, inner: Rebuilds) -> tzinfo | None:
    if "tz" not in form:
        return unnamed
    zone = inner.rebuild(form["tz"])
    if not isinstance(zone, tzinfo):
        raise DecodingError(f"A recorded {form[MARK]} is in an unknown zone: {zone!r}.")
    return zone


def _rebuild_datetime(form: dict[str, Form], inner: Rebuilds) -> datetime:
    value = datetime.fromisoformat(text_at(form, "v"))
    fold = 1 if form.get("fold") else 0
    return value.replace(tzinfo=_zone_of(form, value.tzinfo, inner), fold=fold)


def _rebuild_time(form: dict[str, Form], inner: Rebuilds) -> time:
    value = time.fromisoformat(text_at(form, "v"))
    fold = 1 if form.get("fold") else 0
    return value.replace(tzinfo=_zone_of(form, value.tzinfo, inner), fold=fold)


def _reduce_timedelta(value: timedelta, inner: Reduces) -> Form:
    return {MARK: "timedelta", "v": [value.days, value.seconds, value.microseconds]}


def _rebuild_timedelta(form: dict[str, Form], inner: Rebuilds) -> timedelta:
    return timedelta(*integers_at(form, "v", 3))


def _reduce_timezone(value: timezone, inner: Reduces) -> Form:
    offset = value.utcoffset(None)
    form: dict[str, Form] = {
        MARK: "timezone",
        "v": [offset.days, offset.seconds, offset.microseconds],
    }
    if not _is_unnamed(value):
        form["name"] = inner.reduce(value.tzname(None))
    return form


def _rebuild_timezone(form: dict[str, Form], inner: Rebuilds) -> timezone:
    offset = timedelta(*integers_at(form, "v", 3))
    name = inner.rebuild(form.get("name"))
    return timezone(offset, name) if isinstance(name, str) else timezone(offset)


def _reduce_zoneinfo(value: ZoneInfo, inner: Reduces) -> Form:
    if value.key is None:
        raise Refusal("a ZoneInfo read from a file has no key to find it by: use ZoneInfo(key).")
    return {MARK: "zoneinfo", "v": value.key}


def _rebuild_zoneinfo(form: dict[str, Form], inner: Rebuilds) -> ZoneInfo:
    key = text_at(form, "v")
    try:
        return ZoneInfo(key)
    except Exception as error:
        raise DecodingError(
            f"The recorded time zone {key!r} is not known on this machine: install tzdata."
        ) from error


INSTANT_REDUCERS: dict[type, Callable[[Any, Reduces], Form]] = {
    date: _reduce_date,
    datetime: _reduce_instant,
    time: _reduce_instant,
    timedelta: _reduce_timedelta,
    timezone: _reduce_timezone,
    ZoneInfo: _reduce_zoneinfo,
}

INSTANT_REBUILDERS: dict[str, Callable[[dict[str, Form], Rebuilds], object]] = {
    "date": _rebuild_date,
    "datetime": _rebuild_datetime,
    "time": _rebuild_time,
    "timedelta": _rebuild_timedelta,
    "timezone": _rebuild_timezone,
    "zoneinfo": _rebuild_zoneinfo,
}
