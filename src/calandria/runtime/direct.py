"""Calling one step on its own: an execution without a run."""

from __future__ import annotations

import asyncio
import inspect
import secrets
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any

from calandria.definition.unit import ActionName, StepUnit
from calandria.errors import ValidationError
from calandria.results import Failure, Result, Skipped, Success
from calandria.runtime.context import DetachedContext
from calandria.runtime.detached_holds import Protection
from calandria.runtime.effects import Interrupted, StepOutcome
from calandria.runtime.gates import enter_execution, leave_execution
from calandria.runtime.outcomes import of_exception, of_value

if TYPE_CHECKING:
    from calandria.runtime.event_loop import BackgroundLoop
    from calandria.runtime.runtime import Runtime


def call(unit: StepUnit, values: dict[str, object], runtime: Runtime) -> Result[Any]:
    """Validate, take what is declared, run, validate what came out; no retries, nothing recorded.

    Raises `ContentionError` when a key is not to be had within its `wait`.
    """
    validated = _validated(unit, values)
    if isinstance(validated, Failure):
        return validated
    return _call_protected(unit, validated, runtime, _context(unit))


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
        outcome = protection.judge(_checked(unit, performed))
    finally:
        protection.leave(outcome)
    return outcome


async def acall(unit: StepUnit, values: dict[str, object], runtime: Runtime) -> Result[Any]:
    """Like `call`, from the running event loop: a sync body runs in a thread of the pool.

    A cancellation of the task is delivered once a sync body, which sees `context.cancelled`, has
    ended; a second one at once.
    """
    validated = _validated(unit, values)
    if isinstance(validated, Failure):
        return validated
    context = _context(unit)
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
        outcome = protection.judge(_checked(unit, performed))
    finally:
        await asyncio.shield(runtime.in_thread(protection.leave, outcome))
    return outcome


async def _aperform(
    unit: StepUnit, values: dict[str, object], context: DetachedContext
) -> StepOutcome | Interrupted:
    outside = enter_execution(context.idempotency_key)
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
    context = _context(unit)
    protection = Protection(runtime, unit, values, context, backward=True)
    protection.enter()
    try:
        return _perform(unit, action, values, runtime.loop, context, argument)
    finally:
        protection.leave(None)


def _context(unit: StepUnit) -> DetachedContext:
    return DetachedContext(unit.name, secrets.token_hex(16))


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
    outside = enter_execution(context.idempotency_key)
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
