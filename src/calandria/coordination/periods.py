"""The bucket of time that an instant falls into."""

from __future__ import annotations

from datetime import UTC, datetime


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
