"""The executor: what `Reactor.run`, `Step.call` and the other class methods reach."""

from __future__ import annotations

from typing import Any

from calandria.definition.execution import CallOptions, RunOptions
from calandria.definition.reactors import Reactor
from calandria.definition.unit import StepUnit
from calandria.results import Result
from calandria.runtime import direct
from calandria.runtime.run import Run
from calandria.runtime.runtime import default_runtime, runtime_of


class RuntimeExecutor:
    """Executes what the definition layer declares, in a runtime."""

    def run(
        self, reactor: type[Reactor], values: dict[str, object], options: RunOptions
    ) -> Result[Any]:
        """Run a reactor in the calling thread."""
        runtime = runtime_of(options.runtime)
        runtime.prepare()
        runtime.gates.check(reactor.definition())
        return runtime.runner.run(reactor, values, options)

    async def arun(
        self, reactor: type[Reactor], values: dict[str, object], options: RunOptions
    ) -> Result[Any]:
        """Run a reactor on the running event loop."""
        runtime = runtime_of(options.runtime)
        if not runtime.prepared:
            await runtime.in_thread(runtime.prepare)
        runtime.gates.check(reactor.definition())
        return await runtime.runner.arun(reactor, values, options)

    def call(self, unit: StepUnit, values: dict[str, object], options: CallOptions) -> Result[Any]:
        """Run one step as an execution of its own."""
        return direct.call(unit, values, runtime_of(options.runtime))

    async def acall(
        self, unit: StepUnit, values: dict[str, object], options: CallOptions
    ) -> Result[Any]:
        """Run one step as an execution of its own, on the running event loop."""
        return await direct.acall(unit, values, runtime_of(options.runtime))

    def call_undo(self, unit: StepUnit, result: object, values: dict[str, object]) -> Result[Any]:
        """Undo one step as an execution of its own."""
        return direct.call_back(unit, "undo", values, result, default_runtime())

    def call_compensate(
        self, unit: StepUnit, reason: object, values: dict[str, object]
    ) -> Result[Any]:
        """Compensate one step as an execution of its own."""
        return direct.call_back(unit, "compensate", values, reason, default_runtime())

    def find(self, reactor: type[Reactor], run_id: str) -> Run:
        """Return a run of this reactor."""
        return default_runtime().find(run_id, reactor)

    def undo(self, reactor: type[Reactor], run_id: str) -> Result[Any]:
        """Undo a run."""
        runtime = default_runtime()
        runtime.prepare()
        return runtime.runner.undo(reactor, run_id)

    def cancel(self, reactor: type[Reactor], run_id: str, reason: str) -> Run:
        """Stop a run, keeping what it did."""
        runtime = default_runtime()
        runtime.prepare()
        runtime.runner.cancel(reactor, run_id, reason)
        return Run(runtime, run_id)

    def recover(self, reactor: type[Reactor], run_id: str) -> Result[Any]:
        """Take up a run whose process died."""
        runtime = default_runtime()
        runtime.prepare()
        return runtime.runner.recover(reactor, run_id)
