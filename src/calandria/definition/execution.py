"""The port to whatever executes reactors and steps: a runtime registers itself here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from calandria.results import Result

if TYPE_CHECKING:
    from calandria.definition.reactors import Reactor
    from calandria.definition.unit import StepUnit
    from calandria.runtime.run import Run
    from calandria.runtime.runtime import Runtime


@dataclass(frozen=True)
class RunOptions:
    """How to run a reactor: `Reactor.options(...)`.

    `runtime` is the one to use instead of the process's default.
    """

    idempotency_key: str | None = None
    runtime: Runtime | None = None
    correlation_id: str | None = None


@dataclass(frozen=True)
class CallOptions:
    """How to call a step on its own. `runtime` is the one to use instead of the default."""

    runtime: Runtime | None = None


class Executor(Protocol):
    """Executes what the definition layer declares."""

    def run(
        self, reactor: type[Reactor], values: dict[str, object], options: RunOptions
    ) -> Result[Any]:
        """Run a reactor in the calling process and return what it came to."""
        ...

    async def arun(
        self, reactor: type[Reactor], values: dict[str, object], options: RunOptions
    ) -> Result[Any]:
        """Run a reactor on the caller's event loop and return what it came to."""
        ...

    def call(self, unit: StepUnit, values: dict[str, object], options: CallOptions) -> Result[Any]:
        """Run one step as an execution of its own."""
        ...

    async def acall(
        self, unit: StepUnit, values: dict[str, object], options: CallOptions
    ) -> Result[Any]:
        """Run one step as an execution of its own, on the caller's event loop."""
        ...

    def call_undo(self, unit: StepUnit, result: object, values: dict[str, object]) -> Result[Any]:
        """Undo one step as an execution of its own."""
        ...

    def call_compensate(
        self, unit: StepUnit, reason: object, values: dict[str, object]
    ) -> Result[Any]:
        """Compensate one step as an execution of its own."""
        ...

    def find(self, reactor: type[Reactor], run_id: str) -> Run:
        """Return a run of this reactor; raises `UnknownRun`."""
        ...

    def undo(self, reactor: type[Reactor], run_id: str) -> Result[Any]:
        """Undo a run; raises `UndoIncomplete` if something is left."""
        ...

    def cancel(self, reactor: type[Reactor], run_id: str, reason: str) -> Run:
        """Stop a run, keeping what it did."""
        ...

    def recover(self, reactor: type[Reactor], run_id: str) -> Result[Any]:
        """Take up, here and now, a run whose process died."""
        ...


_executor: Executor | None = None
_make_executor: Callable[[], Executor] | None = None


def set_executor(executor: Executor) -> None:
    """Make `executor` the one that `run`, `call` and the like use from now on."""
    global _executor
    _executor = executor


def make_executor_with(make: Callable[[], Executor]) -> None:
    """Have `make` called for the executor when one is first needed."""
    global _make_executor
    _make_executor = make


def executor() -> Executor:
    """Return the registered executor; raises `RuntimeError` if there is none."""
    if _executor is None and _make_executor is not None:
        set_executor(_make_executor())
    if _executor is None:
        raise RuntimeError("Nothing can execute reactors yet: import the calandria package first.")
    return _executor
