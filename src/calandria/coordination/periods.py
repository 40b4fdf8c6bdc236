"""The bucket of time that an instant falls into."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from calandria.ports.coordination import PeriodMark


def bucket_of(every: str | int, now: float) -> str:
    """Return the name of the bucket of `every` (a calendar unit, or seconds) that `now` is in.

    `now` is seconds since 1970; calendar units are of UTC, weeks are those of ISO 8601.
    """
    if isinstance(every, int):
        return f"{every}s:{int(now // every)}"
    at = datetime.fromtimestamp(now, UTC)
    match every:
        case "minute":
            return at.strftime("%Y-%m-%dT%H:%M")
        case "hour":
            return at.strftime("%Y-%m-%dT%H")
        case "day":
            return at.strftime("%Y-%m-%d")
        case "week":
            year, week, _ = at.isocalendar()
            return f"{year}-W{week:02}"
        case "month":
            return at.strftime("%Y-%m")
        case "quarter":
            return f"{at.year}-Q{(at.month + 2) // 3}"
        case _:
            return f"{at.year}"


def end_of_bucket(every: str | int, now: float) -> float:
    """Return when the bucket that `now` is in is over, in seconds since 1970."""
    if isinstance(every, int):
        return (now // every + 1) * every
    at = datetime.fromtimestamp(now, UTC)
    day = at.replace(hour=0, minute=0, second=0, microsecond=0)
    match every:
        case "minute":
            end = at.replace(second=0, microsecond=0) + timedelta(minutes=1)
        case "hour":
            end = at.replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
        case "day":
            end = day + timedelta(days=1)
        case "week":
            end = day + timedelta(days=7 - day.weekday())
        case "month":
            end = _first_of_month(day, day.month)
        case "quarter":
            end = _first_of_month(day, (day.month + 2) // 3 * 3)
        case _:
            end = _first_of_month(day, 12)
    return end.timestamp()


def _first_of_month(day: datetime, after: int) -> datetime:
    """Return the first day of the month after the one numbered `after` in the year of `day`."""
    if after == 12:
        return day.replace(year=day.year + 1, month=1, day=1)
    return day.replace(month=after + 1, day=1)


def mark_in(every: str | int, at: float, *, key: str, run_id: str, path: str) -> PeriodMark:
    """Return the mark that work leaves which was let in at `at`."""
    return PeriodMark(key, bucket_of(every, at), run_id, path, end_of_bucket(every, at))
