"""`Run`: a handle on a run in the storage."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

from calandria.errors import UnknownRun, WaitTimeout
from calandria.plan.drawing import draw
from calandria.ports.coordination import Hold
from calandria.ports.run_store import RunFilter, StepRecord, StoredRun
from calandria.results import Failure, Result
from calandria.runtime.outline import read_outline
from calandria.runtime.paging import PAGE, steps_in
from calandria.runtime.redacting import RunRedaction
from calandria.runtime.slots import decode_failure, decode_rollback_failures
from calandria.runtime.stored_results import stored_result
from calandria.runtime.targets import MARK
from calandria.runtime.values import REDACTED_TEXT, load_inputs, shown
from calandria.runtime.views import Progress, StepKind, StepView, TraceEntry, instant
from calandria.statuses import FINISHED, RollbackState, RunStatus, StepStatus

if TYPE_CHECKING:
    from calandria.runtime.runtime import Runtime

SHORTEST_POLL = 0.005
LONGEST_POLL = 0.25
"""Seconds between two looks at a run that another process executes."""


class Run:
    """A run, read from the storage each time it is asked.

    Everything but the verbs (`undo`, `cancel`, `recover`, `wait`, `await_result`) only reads. Every
    member raises `StorageError` when the storage cannot be reached, and `UnknownRun` once the run
    was pruned.
    """

    def __init__(self, runtime: Runtime, run_id: str) -> None:
        self._runtime = runtime
        self.id = run_id

    def __repr__(self) -> str:
        return f"<Run {self.id}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Run) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    def _stored(self) -> StoredRun:
        stored = self._runtime.store.load_run(self.id)
        if stored is None:
            raise UnknownRun(f"There is no run {self.id!r} in {self._runtime.storage_url}.")
        return stored

    @property
    def reactor(self) -> str:
        """The name its reactor is stored under: `module:qualified.name`."""
        return self._stored().run.reactor

    @property
    def status(self) -> RunStatus:
        """Where the run stands."""
        return self._stored().header.status

    @property
    def rollback(self) -> RollbackState:
        """What became of its rollback: `none`, `complete` or `incomplete`."""
        return self._stored().header.rollback

    @property
    def result(self) -> Result[Any] | None:
        """What the run came to; `None` while it is under way."""
        stored = self._stored()
        self._runtime.learn_stored(stored)
        return stored_result(stored, self._runtime.codec)

    @property
    def failure(self) -> Failure | None:
        """Why the run failed, was cancelled or was aborted; `None` if it was not."""
        result = self.result
        return result if isinstance(result, Failure) else None

    @property
    def results(self) -> Mapping[str, Any]:
        """The results of its completed steps at the top, by name, each read when asked for."""
        self._runtime.learn_stored(self._stored())
        return StoredResults(self._runtime, self.id)

    @property
    def inputs(self) -> Mapping[str, Any]:
        """The run's inputs, redacted."""
        stored = self._stored()
        self._runtime.learn_stored(stored)
        values = load_inputs(stored.run.inputs, self._runtime.codec)
        redaction = self._redaction(stored)
        return shown(values, redaction.run_inputs(values))

    @property
    def trace(self) -> Iterator[TraceEntry]:
        """What happened, in order, read a page at a time."""
        after = 0
        while True:
            page = self._runtime.store.read_events(self.id, after=after, limit=PAGE)
            for event in page:
                data = {} if event.data is None else self._runtime.codec.decode(event.data)
                assert isinstance(data, dict)
                yield TraceEntry(event.sequence, instant(event.at), event.kind, event.path, data)
            if len(page) < PAGE:
                return
            after = page[-1].sequence

    @property
    def holds(self) -> tuple[Hold, ...]:
        """The coordination keys the run holds, each with its path, token and time left."""
        if getattr(self._runtime.store, "coordination", None) is None:
            return ()
        return tuple(self._runtime.gates.store.holds(execution=self.id))

    @property
    def waiting_on(self) -> list[str]:
        """What the run waits for, if anything."""
        waits_for = self._stored().header.waits_for
        return [] if waits_for is None else waits_for.split(", ")

    @property
    def ready_interrupts(self) -> tuple[str, ...]:
        """The interrupts that can be resumed."""
        return ()

    @property
    def pending_compensation(self) -> str | None:
        """The path of a step that failed or was cut off and was not compensated, or `None`."""
        return self._stored().header.pending_compensation

    @property
    def needs_attention(self) -> bool:
        """Whether a person should look: an incomplete rollback, an abort, a pending compensate."""
        header = self._stored().header
        return (
            header.rollback is RollbackState.INCOMPLETE
            or header.status is RunStatus.ABORTED
            or header.pending_compensation is not None
        )

    @property
    def children(self) -> Iterator[Run]:
        """The runs that this one dispatched."""
        return self._runtime.list_runs(RunFilter(parent_id=self.id))

    @property
    def idempotency_key(self) -> str | None:
        """The key the run was started under, if any."""
        return self._stored().run.idempotency_key

    @property
    def correlation_id(self) -> str | None:
        """The caller's own id for the run, if any."""
        return self._stored().run.correlation_id

    @property
    def epoch(self) -> int:
        """How often the run has had an owner: the fencing token of its writes."""
        return self._stored().epoch

    @property
    def lease_owner(self) -> str | None:
        """The process that executes the run, or `None` if no live one does."""
        stored = self._stored()
        return stored.lease_owner if stored.lease_live else None

    @property
    def created_at(self) -> datetime:
        """When the run was created."""
        return instant(self._stored().run.created_at)

    @property
    def updated_at(self) -> datetime:
        """When the run's record last changed."""
        return instant(self._stored().updated_at)

    @property
    def finished_at(self) -> datetime | None:
        """When the run ended, or `None`."""
        at = self._stored().header.finished_at
        return None if at is None else instant(at)

    @property
    def progress(self) -> Progress:
        """How far the run has come."""
        stored = self._stored()
        done = 0
        maps: dict[str, tuple[int, int | None]] = {}
        map_names = self._runtime.map_names(stored)
        for record in self._records(""):
            if record.progress.status in _DONE:
                done += 1
            if record.path in map_names:
                maps[record.path] = self._map_progress(record)
        return Progress(done, self._runtime.step_count(stored), maps)

    def _map_progress(self, record: StepRecord) -> tuple[int, int | None]:
        last = self._runtime.store.read_steps(self.id, record.path, descending=True, limit=1)
        reached = last[0].position + 1 if last else 0
        over = record.progress.status is StepStatus.COMPLETED
        in_hand = bool(last) and last[0].progress.status not in _ENDED
        return reached - (1 if in_hand else 0), reached if over else None

    def steps(self, scope: str = "") -> Iterator[StepView]:
        """Yield the steps directly in a scope: the run itself, or the path of one of its steps."""
        stored = self._stored()
        self._runtime.learn_stored(stored)
        redaction = self._redaction(stored)
        for record in self._records(scope):
            yield self._view(record, redaction)

    def _records(self, scope: str) -> Iterator[StepRecord]:
        return steps_in(self._runtime.store, self.id, scope)

    def _view(self, record: StepRecord, redaction: RunRedaction) -> StepView:
        codec, progress = self._runtime.codec, record.progress
        inputs = load_inputs(record.inputs, codec)
        result = self._shown_result(record, redaction)
        failures = progress.rollback_error
        return StepView(
            path=record.path,
            name=record.path[len(record.scope) :].lstrip("/"),
            kind=self._kind(record, redaction),
            status=progress.status,
            attempts=progress.attempts,
            recoveries=progress.recoveries,
            started_at=instant(record.started_at),
            finished_at=None if progress.finished_at is None else instant(progress.finished_at),
            inputs=shown(
                inputs,
                redaction.inputs(record.path, inputs),
            ),
            result=result,
            error=None if progress.error is None else decode_failure(progress.error, codec),
            rollback=progress.rollback,
            rollback_failures=[] if failures is None else decode_rollback_failures(failures, codec),
        )

    def _shown_result(self, record: StepRecord, redaction: RunRedaction) -> Any:
        if record.progress.result is None:
            return None
        if redaction.result(record.path):
            return REDACTED_TEXT
        return self._runtime.codec.decode(record.progress.result)

    @staticmethod
    def _kind(record: StepRecord, redaction: RunRedaction) -> StepKind:
        if record.path.endswith("]"):
            return "element"
        if record.path[len(record.scope) :].lstrip("/").startswith(MARK):
            return "nested"
        return redaction.kind(record.path)

    def _redaction(self, stored: StoredRun) -> RunRedaction:
        fed = read_outline(stored.run.outline).redacted
        return RunRedaction(self._runtime.loaded(stored), fed)

    def undo(self) -> Result[Any]:
        """Undo what is outstanding of the run, newest step first.

        Raises `UndoIncomplete` if something is left, `RunBusy` if another process executes it,
        `RunStateError` if its status rules it out.
        """
        return self._runtime.runner.undo(None, self.id)

    def cancel(self, reason: str = "") -> None:
        """Stop the run and keep what it did; raises `RunStateError` if it has ended."""
        self._runtime.runner.cancel(None, self.id, reason)

    def recover(self) -> Result[Any]:
        """Take the run up, here and now, if its process died; raises `RunBusy` if it lives."""
        return self._runtime.runner.recover(None, self.id)

    def wait(self, timeout: float | timedelta | None = None) -> Result[Any]:
        """Wait until the run has ended or is paused, and return its result.

        Raises `WaitTimeout` after `timeout` (seconds or `timedelta`; `None`: never); it goes on.
        """
        for pause in self._looks(timeout):
            found = self._ended()
            if found is not None:
                return found
            self._runtime.pause(pause)
        raise AssertionError("looking ends only by raising")

    async def await_result(self, timeout: float | timedelta | None = None) -> Result[Any]:
        """Like `wait`, from async code: no thread is kept while it waits.

        Raises `WaitTimeout` after `timeout` (seconds or `timedelta`; `None`: never); it goes on.
        """
        for pause in self._looks(timeout):
            found = await self._runtime.look(self._ended)
            if found is not None:
                return found
            await asyncio.sleep(pause)
        raise AssertionError("looking ends only by raising")

    def _ended(self) -> Result[Any] | None:
        stored = self._stored()
        over = stored.header.status in FINISHED or stored.header.status is RunStatus.PAUSED
        return self._runtime.result_of(stored) if over else None

    def _looks(self, timeout: float | timedelta | None) -> Iterator[float]:
        """Yield how long to pause after each look; raise `WaitTimeout` when time is up."""
        clock = self._runtime.services.clock
        if isinstance(timeout, timedelta):
            timeout = timeout.total_seconds()
        deadline = None if timeout is None else clock.monotonic() + timeout
        pause, last = SHORTEST_POLL, False
        while not last:
            left = None if deadline is None else deadline - clock.monotonic()
            last = left is not None and left <= 0
            yield pause if left is None else max(min(pause, left), 0.0)
            pause = min(pause * 2, LONGEST_POLL)
        raise WaitTimeout(
            f"Run {self.id} is still {self.status.value} after {timeout:g} s; it goes on."
        )

    def draw(self, format: Literal["svg", "mermaid", "text"] = "svg") -> str:
        """Return a picture of the run: its reactor's steps with their statuses.

        Raises `CalandriaError` if its reactor is not loaded.
        """
        definition = self._runtime.definition_of(self._stored())
        statuses: dict[str, str] = {}
        self._collect_statuses("", statuses)
        return draw(definition.plan, format, statuses)

    def _collect_statuses(self, scope: str, statuses: dict[str, str]) -> None:
        for record in self._records(scope):
            statuses[record.path] = shown_status(record)
            if not record.path.endswith("]"):
                self._collect_statuses(record.path, statuses)

    def _repr_svg_(self) -> str:
        return self.draw("svg")


def shown_status(record: StepRecord) -> str:
    """Return one word for where a step stands, its rollback included."""
    rollback = record.progress.rollback.value
    return record.progress.status.value if rollback == "none" else rollback


class StoredResults(Mapping[str, Any]):
    """The results of a run's completed steps at the top, by name."""

    def __init__(self, runtime: Runtime, run_id: str) -> None:
        self._runtime = runtime
        self._run_id = run_id

    def __getitem__(self, name: str) -> Any:
        record = self._runtime.store.read_step(self._run_id, name)
        if record is None or record.progress.status not in _DONE:
            raise KeyError(name)
        text = record.progress.result
        return None if text is None else self._runtime.codec.decode(text)

    def __iter__(self) -> Iterator[str]:
        done = steps_in(self._runtime.store, self._run_id, "", _DONE)
        return (record.path for record in done)

    def __len__(self) -> int:
        return sum(1 for _ in self)


_DONE = frozenset({StepStatus.COMPLETED, StepStatus.SKIPPED})
_ENDED = frozenset({StepStatus.COMPLETED, StepStatus.SKIPPED, StepStatus.HALTED, StepStatus.FAILED})
