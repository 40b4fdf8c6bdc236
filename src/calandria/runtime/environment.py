"""What every level of one execution of a run shares."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from calandria.engine.events import UndoAsked
from calandria.errors import CalandriaError
from calandria.ports.clock import Clock
from calandria.ports.codec import Codec
from calandria.ports.coordination import CoordinationStore
from calandria.ports.middleware import RunInfo
from calandria.ports.run_store import JobRequest, RunStore
from calandria.runtime.drivers import AsyncDriver, SyncDriver
from calandria.runtime.effects import Effect
from calandria.runtime.event_loop import BackgroundLoop
from calandria.runtime.observers import Observers
from calandria.runtime.session import Session

if TYPE_CHECKING:
    from calandria.engine.events import MapEvent
    from calandria.runtime.endings import LevelOutcome, Suspension
    from calandria.runtime.levels import ReactorLevel
    from calandria.runtime.targets import Target

Execute: TypeAlias = "Callable[[Environment, ReactorLevel, MapEvent], Steps]"
Steps: TypeAlias = "Generator[Effect, Any, LevelOutcome | Suspension]"


@dataclass(eq=False)
class Environment:
    """The session, the middleware, and the threads of one execution of a run."""

    session: Session
    observers: Observers
    run: RunInfo
    loop: BackgroundLoop
    pool: ThreadPoolExecutor
    execute: Execute
    """Makes the execution of a level that is driven on its own: the run, or nested work."""
    stored_reactor: str = ""
    """The name the run's reactor is stored under."""
    parent_id: str | None = None
    """The run that spawned this one."""
    parks: bool = False
    """Whether the run steps aside while it waits, as in a worker; else it waits where it is."""
    released: Callable[[], None] = lambda: None
    """Tells those of this process that wait for keys that one was let go of."""
    enqueue: Callable[[Sequence[JobRequest]], None] = lambda _: None
    """Has workers look at runs whose jobs were just committed."""
    performs_here: Callable[[], bool] = lambda: True
    """Tells whether this process performs jobs, so that it need not import what they run."""
    nested_targets: dict[str, Target] = field(default_factory=dict)
    """What nested work of this execution runs, by path: a name may stand for several classes."""
    secrets: tuple[str, ...] = ()
    """Redacted texts that failure messages are scrubbed of."""
    by_hand: bool = False
    """Whether a person asked for what is done: undos that failed before are tried again."""
    store: RunStore = field(init=False)
    """The storage the run is in."""
    codec: Codec = field(init=False)
    """The codec of the journal."""
    records: Codec = field(init=False)
    """The codec for failures, reasons and the trace: without a limit."""
    clock: Clock = field(init=False)
    """The clock of the runtime."""

    def __post_init__(self) -> None:
        services = self.session.services
        self.store, self.clock = services.store, services.clock
        self.codec, self.records = services.codec, services.records

    def drive(self, steps: Steps, *, parallel: bool) -> LevelOutcome | Suspension:
        """Drive an execution in this thread; `parallel` ones have their bodies in the pool."""
        return SyncDriver(self.session, self.loop, self.pool if parallel else None).drive(steps)

    async def adrive(
        self, steps: Steps, *, nested: bool = False, backward: bool = False
    ) -> LevelOutcome | Suspension:
        """Drive an execution on the running event loop; see `AsyncDriver` about `nested`."""
        driver = AsyncDriver(self.session, self.pool, nested=nested, backward=backward)
        return await driver.drive(steps)

    @property
    def coordination(self) -> CoordinationStore:
        """The coordination of the run's storage; raises `CalandriaError` if it has none."""
        found: CoordinationStore | None = getattr(self.store, "coordination", None)
        if found is None:
            raise CalandriaError("this storage keeps no coordination: use a SQL storage.")
        return found

    @staticmethod
    def pause(seconds: float) -> None:
        """Wait a moment before trying again."""
        threading.Event().wait(seconds)

    @property
    def max_recoveries(self) -> int:
        """How often crashes may cut one action off."""
        return self.session.services.settings.max_recoveries


def undo_asked(environment: Environment) -> UndoAsked:
    """Return the event that has a level below undo what of it is outstanding."""
    return UndoAsked(environment.max_recoveries, environment.by_hand)


def event_data(codec: Codec, data: Mapping[str, Any]) -> str | None:
    """Encode the small data of a trace event; `None` if there is none."""
    return codec.encode(dict(data)) if data else None
