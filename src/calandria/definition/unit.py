"""The unit that a leaf of a plan runs: one step class, or one function step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from calandria.definition.context import StepContext
from calandria.definition.contract import Contract, OutputContract
from calandria.plan.policies import ONCE, Retry

ActionName = Literal["run", "compensate", "undo", "reconcile"]
ACTIONS: tuple[ActionName, ...] = ("run", "compensate", "undo", "reconcile")


@dataclass(frozen=True)
class Action:
    """One thing a unit can do: `call(values, context, *extra)` returns a value or a coroutine."""

    is_async: bool
    call: Callable[..., object]


class StepUnit:
    """What a leaf runs, whether it was written as a class or as functions."""

    def __init__(
        self,
        name: str,
        contract: Contract,
        output: OutputContract | None,
        actions: Mapping[ActionName, Action],
        *,
        retry: Retry = ONCE,
        rollback_retry: Retry = ONCE,
        coordination: tuple[object, ...] = (),
    ) -> None:
        self.name = name
        self.contract = contract
        self.output = output
        self.retry = retry
        self.rollback_retry = rollback_retry
        self.coordination = coordination
        self._actions = dict(actions)
        self._calls = {action: found.call for action, found in actions.items()}

    def has(self, action: ActionName) -> bool:
        """Tell whether the unit defines this action."""
        return action in self._actions

    def is_async(self, action: ActionName) -> bool:
        """Tell whether invoking this action returns a coroutine."""
        return self._actions[action].is_async

    def invoke(
        self,
        action: ActionName,
        values: Mapping[str, object],
        context: StepContext,
        *extra: object,
    ) -> object:
        """Perform one action on validated `values`; return its value, or a coroutine.

        `extra` is the result for `undo`, the reason for `compensate`, nothing otherwise. Each
        call works on an object of its own: nothing it sets survives. Raises `KeyError` for an
        action that the unit does not have.
        """
        return self._calls[action](values, context, *extra)

    def __repr__(self) -> str:
        return f"<StepUnit {self.name}>"
