"""Calling one step on its own: an execution without a run."""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import secrets
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any

from calandria.definition.steps import callable_unit
from calandria.definition.unit import ActionName, StepUnit
from calandria.errors import ValidationError
from calandria.results import Failure, Result, Skipped, Success
from calandria.runtime.context import DetachedContext
from calandria.runtime.detached_holds import Protection
from calandria.runtime.effects import Interrupted, StepOutcome
from calandria.runtime.gates import enter_execution, leave_execution
from calandria.runtime.outcomes import of_exception, of_value
from calandria.runtime.values import scrub_failure, secrets_in, shown

if TYPE_CHECKING:
    from calandria.definition.steps import Step
    from calandria.runtime.event_loop import BackgroundLoop
    from calandria.runtime.runtime import Runtime


def call(
    unit: StepUnit,
    values: dict[str, object],
    runtime: Runtime,
    outer: DetachedContext | None = None,
) -> Result[Any]:
    """Validate, take what is declared, run, validate what came out; no retries, nothing recorded.

    `outer` is the step called on its own inside which this one is called: they are one execution.
    Raises `ContentionError` when a key is not to be had within its `wait`.
    """
    validated = _validated(unit, values)
    if isinstance(validated, Failure):
        return validated
    return _call_protected(unit, validated, runtime, _context(unit, runtime, outer))


def _call_protected(
    unit: StepUnit, values: dict[str, object], runtime: Runtime, context: DetachedContext
) -> Result[Any]:
    protection = Protection(runtime, unit, values, context)
    protection.enter()
    if protection.skipped:
        return Skipped(None)
    outcome: StepOutcome | None = None
    try:
        if context.stopped:
            raise CancelledError
        performed = _perform(unit, "run", values, runtime.loop, context)
        told = outcome = _told(unit, values, protection.judge(_checked(unit, performed)))
    finally:
        protection.leave(outcome)
    return told


async def acall(
    unit: StepUnit,
    values: dict[str, object],
    runtime: Runtime,
    outer: DetachedContext | None = None,
) -> Result[Any]:
    """Like `call`, from the running event loop: a sync body runs in a thread of the pool.

    A cancellation of the task is delivered once a sync body, which sees `context.cancelled`, has
    ended; a second one at once.
    """
    validated = _validated(unit, values)
    if isinstance(validated, Failure):
        return validated
    context = _context(unit, runtime, outer)
    if unit.is_async("run"):
        return await _acall_protected(unit, validated, runtime, context)
    working = asyncio.ensure_future(
        runtime.in_thread(_call_protected, unit, validated, runtime, context)
    )
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        context.stopped = True
        await asyncio.wait([working])
        raise


async def _acall_protected(
    unit: StepUnit, values: dict[str, object], runtime: Runtime, context: DetachedContext
) -> Result[Any]:
    protection = Protection(runtime, unit, values, context)
    try:
        await runtime.in_thread(protection.enter, undo=lambda _: protection.leave(None))
    except asyncio.CancelledError:
        context.stopped = True
        raise
    if protection.skipped:
        return Skipped(None)
    outcome: StepOutcome | None = None
    try:
        performed = await _aperform(unit, values, context)
        assert not isinstance(performed, Interrupted)
        told = outcome = _told(unit, values, protection.judge(_checked(unit, performed)))
    finally:
        await asyncio.shield(runtime.in_thread(protection.leave, outcome))
    return told


async def _aperform(
    unit: StepUnit, values: dict[str, object], context: DetachedContext
) -> StepOutcome | Interrupted:
    outside = enter_execution(context.execution)
    try:
        value = unit.invoke("run", values, context)
        return of_value(await value if inspect.isawaitable(value) else value)
    except BaseException as exception:
        outcome = of_exception(exception, stopping=True)
        if isinstance(outcome, Interrupted):
            raise
        return outcome
    finally:
        leave_execution(outside)


def call_back(
    unit: StepUnit,
    action: ActionName,
    values: dict[str, object],
    argument: object,
    runtime: Runtime,
) -> Result[Any]:
    """Run a step's `undo` or `compensate` under its locks and semaphores; validates nothing.

    Raises `ContentionError` when one is not to be had within its `rollback_wait`.
    """
    context = _context(unit, runtime, None)
    protection = Protection(runtime, unit, values, context, backward=True)
    protection.enter()
    try:
        performed = _perform(unit, action, values, runtime.loop, context, argument)
        return _told(unit, values, performed)
    finally:
        protection.leave(None)


class _Inside:
    """Steps called from inside one that is called on its own: of the same execution."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def call(self, outer: DetachedContext, step: type[Step], inputs: dict[str, Any]) -> Result[Any]:
        return call(callable_unit(step), inputs, self._runtime, outer)

    async def acall(
        self, outer: DetachedContext, step: type[Step], inputs: dict[str, Any]
    ) -> Result[Any]:
        return await acall(callable_unit(step), inputs, self._runtime, outer)


def _context(unit: StepUnit, runtime: Runtime, outer: DetachedContext | None) -> DetachedContext:
    if outer is not None:
        return outer.inner(unit.name)
    return DetachedContext(unit.name, secrets.token_hex(16), _Inside(runtime))


def _told(unit: StepUnit, values: dict[str, object], outcome: StepOutcome) -> StepOutcome:
    """Say of a failure where it happened and on which inputs, and scrub it of secrets."""
    if not isinstance(outcome, Failure):
        return outcome
    redacted = unit.contract.redacted
    return dataclasses.replace(
        scrub_failure(outcome, secrets_in(values, redacted)),
        step=outcome.step or unit.name,
        inputs=outcome.inputs or shown(values, redacted),
        attempts=outcome.attempts or 1,
    )


def _validated(unit: StepUnit, values: dict[str, object]) -> dict[str, object] | Failure:
    try:
        return unit.contract.validate(values)
    except ValidationError as error:
        return Failure(
            str(error),
            retryable=False,
            exception=error,
            exception_class="ValidationError",
            step=unit.name,
            inputs=shown(values, unit.contract.redacted),
            validation_errors=error.errors,
        )


def _perform(
    unit: StepUnit,
    action: ActionName,
    values: dict[str, object],
    loop: BackgroundLoop,
    context: DetachedContext,
    *extra: object,
) -> StepOutcome:
    outside = enter_execution(context.execution)
    try:
        value = unit.invoke(action, values, context, *extra)
        if inspect.iscoroutine(value):
            value = loop.run(value)
        return of_value(value)
    except BaseException as exception:
        outcome = of_exception(exception, stopping=False)
        if isinstance(outcome, Interrupted):
            raise
        return outcome
    finally:
        leave_execution(outside)


def _checked(unit: StepUnit, outcome: StepOutcome) -> StepOutcome:
    if isinstance(outcome, Success) and unit.output is not None:
        try:
            return Success(unit.output.validate(outcome.value))
        except ValidationError as error:
            return Failure(
                str(error),
                retryable=False,
                exception=error,
                exception_class="ValidationError",
                step=unit.name,
                validation_errors=error.errors,
            )
    return outcome
