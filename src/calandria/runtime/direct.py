"""Calling one step on its own: an execution without a run."""

from __future__ import annotations

import inspect
import secrets
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
    context = _context(unit)
    protection = Protection(runtime, unit, validated, context)
    protection.enter()
    if protection.skipped:
        return Skipped(None)
    outcome: StepOutcome | None = None
    try:
        performed = _perform(unit, "run", validated, runtime.loop, context)
        outcome = protection.judge(_checked(unit, performed))
    finally:
        protection.leave(outcome)
    return outcome


async def acall(unit: StepUnit, values: dict[str, object], runtime: Runtime) -> Result[Any]:
    """Like `call`, on the running event loop; a sync body runs in this thread."""
    validated = _validated(unit, values)
    if isinstance(validated, Failure):
        return validated
    context = _context(unit)
    protection = Protection(runtime, unit, validated, context)
    await runtime.in_thread(protection.enter)
    if protection.skipped:
        return Skipped(None)
    outcome: StepOutcome | None = None
    try:
        performed = await _aperform(unit, validated, context)
        assert not isinstance(performed, Interrupted)
        outcome = protection.judge(_checked(unit, performed))
    finally:
        await runtime.in_thread(protection.leave, outcome)
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
