"""Crash loops outside of steps: a condition, a `.map`, an `over=` that kills its process.

The deaths of a step are counted with its own record. What kills a process between two steps
leaves no record, so that each taking up after a death is recorded before anything of the run is
done: one that finds such a line in the trace, and nothing new since, knows that there was no
progress in between.
"""

from __future__ import annotations

import logging

from calandria.ports.run_store import Changes, Event, TakenLease
from calandria.results import Failure
from calandria.runtime.environment import event_data
from calandria.runtime.session import Session
from calandria.statuses import RunStatus

logger = logging.getLogger("calandria.run")

TAKEN_UP = "run.taken_up"
WINDOW = 100
"""How many lines of the trace are looked at: more than the levels that one taking up reopens."""


def record_death(session: Session, taken: TakenLease) -> int:
    """Record that the run is taken up after a death; return how many there were since progress.

    Raises `StaleLease` or `StorageError` when it cannot be recorded.
    """
    services = session.services
    deaths = _deaths_before(session, taken) + 1
    told = event_data(services.records, {"epoch": taken.lease.epoch, "deaths": deaths})
    now = services.clock.now()
    event = Event(session.next_sequence(), now, TAKEN_UP, None, told)
    session.commit(Changes(events=[event], now=now))
    return deaths


def _deaths_before(session: Session, taken: TakenLease) -> int:
    services = session.services
    after = max(taken.last_sequence - WINDOW, 0)
    for event in reversed(services.store.read_events(session.run_id, after=after, limit=WINDOW)):
        data = {} if event.data is None else services.records.decode(event.data)
        assert isinstance(data, dict)
        if event.kind == TAKEN_UP:
            return int(data.get("deaths", 0))
        if not (event.kind == "step.started" and "recovery" in data):
            return 0
    return 0


def gives_up(session: Session, taken: TakenLease, deaths: int) -> bool:
    """Tell whether a run that was going forward killed its process once too often."""
    forward = taken.stored.header.status in (RunStatus.PENDING, RunStatus.RUNNING)
    # a step gives up at one death less, and says more of what went wrong
    if not forward or deaths <= session.services.settings.max_recoveries + 1:
        return False
    logger.error("event=run.given_up run=%s deaths=%d", session.run_id, deaths)
    return True


def crash_failure(reactor: str, deaths: int) -> Failure:
    """Return the failure of a run that is given up."""
    return Failure(
        f"{reactor}: the process executing it died {deaths} times between two steps, without "
        "progress; it is not tried again. Look at its conditions, `.map`s, sources and `returns`.",
        retryable=False,
        exception_class="Crashed",
        reactor=reactor,
    )
