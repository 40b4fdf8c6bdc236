"""What a running step sees of its execution: `self.context`."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from calandria.errors import CalandriaError
from calandria.ports.coordination import Hold
from calandria.results import Result
from calandria.runtime.drivers import in_event_loop
from calandria.runtime.effects import BACKWARD
from calandria.runtime.hold_book import HoldBook
from calandria.runtime.targets import MARK
from calandria.runtime.values import fresh_inputs

if TYPE_CHECKING:
    from calandria.definition.reactors import Reactor
    from calandria.definition.steps import Step
    from calandria.runtime.environment import Environment
    from calandria.runtime.levels import Level
    from calandria.runtime.nested import NestedWork
    from calandria.runtime.slots import Slot

_log = logging.getLogger("calandria.step")


class Context:
    """The context of one action of a step in a run."""

    __slots__ = ("_action", "_environment", "_level", "_nested", "_slot", "attempt")

    def __init__(
        self,
        environment: Environment,
        level: Level,
        slot: Slot,
        action: str,
        attempt: int,
        nested: NestedWork | None,
    ) -> None:
        self._environment = environment
        self._level = level
        self._slot = slot
        self._action = action
        self._nested = nested
        self.attempt = attempt

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self._environment.run.run_id

    @property
    def root_id(self) -> str:
        """The id of the top-level run this one belongs to."""
        return self._environment.run.root_id

    @property
    def reactor(self) -> str:
        """The name of the reactor that declares the step."""
        return self._level.reactor_name

    @property
    def step(self) -> str:
        """The step's path in the run."""
        return self._slot.path

    @property
    def inputs(self) -> Mapping[str, Any]:
        """The reactor's validated inputs: each reader has a copy of its own."""
        return fresh_inputs(self._level.reactor_inputs(), self._environment.codec)

    def result(self, step: Any) -> Any:
        """Return the result of a completed step, given the step itself or its name.

        Raises `KeyError` if it is not done.
        """
        name = step if isinstance(step, str) else getattr(step, "name", None)
        if not isinstance(name, str):
            raise KeyError(f"{step!r} is not a step of {self.reactor}")
        return self._level.results_view()[name]

    @property
    def idempotency_key(self) -> str:
        """The same through all retries and recoveries of this action of this step in this run."""
        suffix = "" if self._action in ("run", "reconcile") else f":{self._action}"
        return f"{self.run_id}:{self._slot.path}{suffix}"

    @property
    def holds(self) -> tuple[Hold, ...]:
        """The coordination keys that protect this step, with their fencing tokens."""
        return self._environment.session.holds.around(self._slot.path)

    @property
    def epoch(self) -> int:
        """The epoch of the lease the step runs under."""
        return self._environment.session.lease.epoch

    @property
    def cancelled(self) -> bool:
        """Whether the work should stop: a cancel, an interruption, a lost lease or a lost hold.

        A cancel is no reason for `undo` and `compensate` to stop.
        """
        backward = self._action in BACKWARD
        return self._environment.session.stops_at(self._slot.path, backward=backward)

    @property
    def logger(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger whose lines carry the run and the step."""
        return logging.LoggerAdapter(
            _log,
            {
                "run": self.run_id,
                "reactor": self.reactor,
                "step": self._slot.path,
                "attempt": self.attempt,
            },
        )

    def call(self, step: type[Step], /, **inputs: Any) -> Result[Any]:
        """Run a step inside this execution; it is journalled and rolled back with this one.

        Raises `CalandriaError` outside of `run`, or when called on an event loop.
        """
        return self._work("acall").call(step, inputs)

    def run(self, reactor: type[Reactor], /, **inputs: Any) -> Result[Any]:
        """Run a reactor inside this execution; it is journalled and rolled back with this one.

        Raises `CalandriaError` outside of `run`, or when called on an event loop.
        """
        return self._work("arun").run(reactor, inputs)

    async def acall(self, step: type[Step], /, **inputs: Any) -> Result[Any]:
        """Like `call`, from an async body."""
        return await self._work(None).acall(step, inputs)

    async def arun(self, reactor: type[Reactor], /, **inputs: Any) -> Result[Any]:
        """Like `run`, from an async body."""
        return await self._work(None).arun(reactor, inputs)

    def _work(self, on_loop: str | None) -> NestedWork:
        if self._nested is None:
            raise CalandriaError(
                f"{self.reactor}.{self.step}: nested work belongs in `run`, where it is rolled "
                f"back with the step; in `{self._action}`, call the step or reactor on its own."
            )
        if on_loop is not None and in_event_loop():
            raise CalandriaError(
                f"{self.reactor}.{self.step}: this would block the event loop; in an async body "
                f"use `await self.context.{on_loop}(...)`."
            )
        return self._nested


class InsideCalls(Protocol):
    """Calls a step inside another one that is called on its own."""

    def call(self, outer: DetachedContext, step: type[Step], inputs: dict[str, Any]) -> Result[Any]:
        """Call a step; it re-enters what `outer` holds."""
        ...

    async def acall(
        self, outer: DetachedContext, step: type[Step], inputs: dict[str, Any]
    ) -> Result[Any]:
        """Call a step like `call`, on the running event loop."""
        ...


class DetachedContext:
    """The context of a step that is called on its own, outside of any run.

    `execution` names the call from outside, which every call inside it belongs to; `path` is the
    place of this one in it.
    """

    __slots__ = (
        "_inside",
        "_numbers",
        "_outer",
        "attempt",
        "book",
        "execution",
        "path",
        "step",
        "stopped",
    )

    reactor = None
    run_id = None
    root_id = None
    epoch = 0

    def __init__(
        self,
        step: str,
        execution: str,
        inside: InsideCalls,
        *,
        path: str | None = None,
        outer: DetachedContext | None = None,
    ) -> None:
        self.step = step
        self.execution = execution
        self.path = step if path is None else path
        self.book = HoldBook()
        self.attempt = 1
        self.stopped = False
        self._inside = inside
        self._outer = outer
        self._numbers = itertools.count(1)

    def inner(self, step: str) -> DetachedContext:
        """Return the context of a step called inside this one."""
        path = f"{self.path}/{MARK}{next(self._numbers)}:{step}"
        return DetachedContext(step, self.execution, self._inside, path=path, outer=self)

    @property
    def cancelled(self) -> bool:
        """Whether a hold was lost, or the task that awaits the step cancelled, here or around."""
        if self.stopped or self.book.lost_paths():
            return True
        return self._outer is not None and self._outer.cancelled

    @property
    def holds(self) -> tuple[Hold, ...]:
        """What the step, and those it is called inside, declare and hold, with fencing tokens."""
        around = () if self._outer is None else self._outer.holds
        return (*around, *self.book.all())

    @property
    def inputs(self) -> Mapping[str, Any]:
        """No reactor, no inputs."""
        return {}

    def result(self, step: Any) -> Any:
        """Raise `KeyError`: there are no other steps."""
        raise KeyError(f"{self.step} is called on its own: there is no step {step!r}")

    @property
    def idempotency_key(self) -> str:
        """A key of this call."""
        return self.execution if self._outer is None else f"{self.execution}:{self.path}"

    @property
    def logger(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger whose lines carry the step."""
        return logging.LoggerAdapter(_log, {"step": self.step})

    def call(self, step: type[Step], /, **inputs: Any) -> Result[Any]:
        """Call a step inside this execution: what it declares and this one holds, it re-enters."""
        return self._inside.call(self, step, inputs)

    def run(self, reactor: type[Reactor], /, **inputs: Any) -> Result[Any]:
        """Run a reactor of its own: there is no run around this step for it to be part of."""
        return reactor.run(**inputs)

    async def acall(self, step: type[Step], /, **inputs: Any) -> Result[Any]:
        """Call a step inside this execution like `call`, from an async body."""
        return await self._inside.acall(self, step, inputs)

    async def arun(self, reactor: type[Reactor], /, **inputs: Any) -> Result[Any]:
        """Run a reactor of its own, from an async body."""
        return await reactor.arun(**inputs)
