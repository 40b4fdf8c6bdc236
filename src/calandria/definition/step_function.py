"""`step`: declares a step class or a function as a step of a reactor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, overload

from calandria.coordination.primitives import Primitive
from calandria.definition.nodes import DeclaredNode, StepNode
from calandria.definition.steps import Step
from calandria.plan.policies import Retry


@overload
def step(target: type[Step], /, **wiring: Any) -> DeclaredNode: ...
@overload
def step(target: Callable[..., Any], /, **wiring: Any) -> DeclaredNode: ...
@overload
def step(
    *,
    retry: Retry | None = None,
    rollback_retry: Retry | None = None,
    coordination: Sequence[Primitive] = (),
) -> Callable[[Callable[..., Any]], DeclaredNode]: ...
def step(*target: Any, **keywords: Any) -> Any:
    """Declare a step of a reactor.

    `step(Class, **wiring)` and `step(function, **wiring)` wire the target's inputs to references
    or literals; those not wired take the reactor input of the same name (and, for a function's
    parameters, the step of that name). `@step` and `@step(retry=..., rollback_retry=...,
    coordination=...)` decorate a function in the class body.

    Example:
        charge = step(Charge, amount=validate["total"], currency="EUR")

        @step(retry=Retry(max_attempts=2))
        def receipt(*, charge: Charged, order_id: str) -> str:
            return f"receipt for {order_id}: {charge.id}"
    """
    if target:
        (only,) = target
        return StepNode(only, keywords)
    return _decorator(**keywords)


def _decorator(
    *,
    retry: Retry | None = None,
    rollback_retry: Retry | None = None,
    coordination: Sequence[Primitive] = (),
) -> Callable[[Callable[..., Any]], DeclaredNode]:
    def decorate(function: Callable[..., Any]) -> DeclaredNode:
        return StepNode(
            function,
            {},
            retry=retry,
            rollback_retry=rollback_retry,
            coordination=tuple(coordination),
        )

    return decorate
