"""Keeping leases alive: one thread per runtime renews those of the runs it executes."""

from __future__ import annotations

import logging
import os
import threading
import time
import weakref
from collections.abc import Callable
from functools import partial

from calandria.errors import StorageError
from calandria.ports.coordination import CoordinationStore
from calandria.ports.run_store import Renewal, RunStore
from calandria.runtime.hold_book import HoldBook
from calandria.runtime.session import Session

logger = logging.getLogger("calandria.lease")

LONGEST_TICK = 2.0
"""Seconds: also how soon a cancel asked for in another process reaches a running step."""


class LeaseKeeper:
    """Renews leases for as long as the process lives, however slow the step they cover.

    A step that is still running is therefore never judged dead, and a killed process is judged
    dead within one lease.
    """

    def __init__(self, store: RunStore, ttl: float) -> None:
        self._store = store
        self._ttl = ttl
        self._tick = min(ttl / 4, LONGEST_TICK)
        self._sessions: dict[Session, None] = {}
        self._books: dict[HoldBook, None] = {}
        self._due = 0.0
        """When something is to be renewed next, by the monotonic clock."""
        self._thread: threading.Thread | None = None
        self._changed = threading.Condition()
        self._closed = False
        _keepers.add(self)

    def add(self, session: Session) -> None:
        """Renew this session's lease until it is removed."""
        self._sessions[session] = None
        session.holds.on_add = self._hurry
        if session.holds:
            self._hurry()
        self._start()

    def keep(self, book: HoldBook) -> None:
        """Renew the holds of an execution that is no run until `let_be`."""
        book.on_add = self._hurry
        self._books[book] = None
        self._start()

    def let_be(self, book: HoldBook) -> None:
        """Stop to renew the holds of an execution that is no run."""
        self._books.pop(book, None)

    def _start(self) -> None:
        if self._thread is None:
            with self._changed:
                if self._thread is None and not self._closed:
                    thread = threading.Thread(
                        target=self._keep, name="calandria-leases", daemon=True
                    )
                    # kept only once it runs: an interruption may come in between
                    thread.start()
                    self._thread = thread

    def removal(self, session: Session) -> Callable[[], None]:
        """Return what lets this session's lease be, in one step that no signal can divide."""
        return partial(self._sessions.pop, session, None)

    def session(self, run_id: str) -> Session | None:
        """Return the session under which this runtime executes a run, or `None`."""
        for session in tuple(self._sessions):
            if session.run_id == run_id and not session.lost:
                return session
        return None

    def sessions(self) -> tuple[Session, ...]:
        """Return the sessions whose leases it renews."""
        return tuple(self._sessions)

    @property
    def busy(self) -> bool:
        """Whether any run executes here."""
        return bool(self._sessions)

    def close(self) -> None:
        """Stop renewing."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _keep(self) -> None:
        known: set[Session] = set()
        while True:
            with self._changed:
                self._due = time.monotonic() + self._next_tick()
                while not self._closed and (left := self._due - time.monotonic()) > 0:
                    self._changed.wait(left)
                if self._closed:
                    return
            # a session younger than one tick has a fresh lease: short runs cost no renewal
            current = set(tuple(self._sessions))
            try:
                self._renew_holds()
                self._renew([session for session in current if session in known])
            except Exception:
                # this thread must outlive whatever happens: without it every lease would lapse
                logger.exception("event=lease.renewal_failed")
            known = current

    def _hurry(self) -> None:
        """Renew sooner if a hold was added that is to be renewed sooner."""
        due = time.monotonic() + self._next_tick()
        with self._changed:
            if due < self._due:
                self._due = due
                self._changed.notify_all()

    def _next_tick(self) -> float:
        """Return how long to sleep: a hold is renewed three times in its ttl."""
        books = [session.holds for session in tuple(self._sessions)] + list(tuple(self._books))
        ttls = [ttl for book in books if (ttl := book.shortest_ttl()) is not None]
        return min([self._tick] + [ttl / 3 for ttl in ttls])

    def _renew_holds(self) -> None:
        coordination: CoordinationStore | None = getattr(self._store, "coordination", None)
        books = [session.holds for session in tuple(self._sessions)] + list(tuple(self._books))
        held = [book for book in books if book]
        if coordination is None or not held:
            return
        try:
            for book in held:
                book.renew(coordination)
        except StorageError as error:
            logger.warning("event=hold.renewal_failed error=%r", str(error))

    def _renew(self, sessions: list[Session]) -> None:
        held = [session for session in sessions if session.exists and not session.lost]
        if not held:
            return
        try:
            renewal = self._store.renew_leases([s.lease for s in held], ttl=self._ttl)
            for session in held:
                if session in self._sessions:
                    self._tell(session, renewal)
        except StorageError as error:
            logger.warning("event=lease.renewal_failed runs=%d error=%r", len(held), str(error))

    def _tell(self, session: Session, renewal: Renewal) -> None:
        if session.run_id in renewal.lost:
            if not session.lets_go:
                session.lose()
        elif session.run_id in renewal.cancel_requested:
            stored = self._store.load_run(session.run_id)
            if stored is not None and stored.cancel_requested is not None:
                session.cancel(stored.cancel_requested)

    def forget_all(self) -> None:
        """In a forked child: drop every lease that was copied; they belong to the parent."""
        for session in self._sessions:
            session.lost = True
        self._sessions = {}
        self._books = {}
        self._thread = None
        self._changed = threading.Condition()


_keepers: weakref.WeakSet[LeaseKeeper] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for keeper in tuple(_keepers):
        keeper.forget_all()


os.register_at_fork(after_in_child=_after_fork_in_child)
