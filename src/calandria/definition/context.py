"""What a running step can see of its execution, as `self.context` or a `context` parameter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from calandria.ports.coordination import Hold
from calandria.results import Result

if TYPE_CHECKING:
    import logging

    from calandria.definition.reactors import Reactor
    from calandria.definition.steps import Step


class StepContext(Protocol):
    """The execution around one action of a step."""

    @property
    def run_id(self) -> str | None:
        """The run's id; `None` in a direct `Step.call`."""
        ...

    @property
    def root_id(self) -> str | None:
        """The id of the top-level run this one belongs to."""
        ...

    @property
    def reactor(self) -> str | None:
        """The name of the reactor that declares the step."""
        ...

    @property
    def step(self) -> str:
        """The path of the step in its run, such as `refunds[17]/charge`."""
        ...

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1."""
        ...

    @property
    def inputs(self) -> Mapping[str, Any]:
        """The validated inputs of the reactor."""
        ...

    def result(self, step: Any) -> Any:
        """Return the result of a completed step, given the step or its name."""
        ...

    @property
    def idempotency_key(self) -> str:
        """Stable across retries and recoveries; another one for the step's undo."""
        ...

    @property
    def holds(self) -> Sequence[Hold]:
        """The coordination keys this execution holds, with their fencing tokens."""
        ...

    @property
    def epoch(self) -> int:
        """The epoch of the lease the step runs under."""
        ...

    @property
    def cancelled(self) -> bool:
        """True when the work should stop: a cancel, or a lost lease or hold."""
        ...

    @property
    def logger(self) -> logging.Logger | logging.LoggerAdapter[Any]:
        """A logger that knows the run and the step."""
        ...

    def call(self, step: type[Step], /, **inputs: Any) -> Result[Any]:
        """Run a step inside this execution and return its result."""
        ...

    def run(self, reactor: type[Reactor], /, **inputs: Any) -> Result[Any]:
        """Run a reactor inside this execution and return its result."""
        ...

    async def acall(self, step: type[Step], /, **inputs: Any) -> Result[Any]:
        """Run a step inside this execution, from an async body."""
        ...

    async def arun(self, reactor: type[Reactor], /, **inputs: Any) -> Result[Any]:
        """Run a reactor inside this execution, from an async body."""
        ...
