"""What a reactor's body declares: nodes, wired to their sources, with options by chaining."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self, TypedDict, overload

from typing_extensions import Unpack

from calandria.coordination.primitives import Primitive
from calandria.definition.functions import FunctionActions, readable_name
from calandria.definition.references import (
    PathStep,
    Reference,
    StepRoot,
    refuse_use_as_value,
)
from calandria.definition.unit import ActionName, StepUnit
from calandria.errors import DefinitionError
from calandria.plan.model import NodeKind
from calandria.plan.policies import Backoff, Retry

if TYPE_CHECKING:
    from datetime import timedelta


class RetryOptions(TypedDict, total=False):
    """The arguments of `Retry`, for `.retry(...)`."""

    max_attempts: int
    backoff: Backoff
    base_delay: float | timedelta
    max_delay: float | timedelta
    jitter: float
    retry_on: tuple[type[Exception], ...] | type[Exception] | None


class DeclaredNode:
    """One step of a reactor, as declared; itself a reference to its whole result.

    Options may be chained until the class is created; afterwards they raise `DefinitionError`.
    """

    kind: ClassVar[NodeKind]
    function: str = "step"

    def __init__(self, target: object, wiring: Mapping[str, Any]) -> None:
        self.target = target
        self.wiring = dict(wiring)
        self.name: str | None = None
        self.owner: type | None = None
        self.dependencies: list[object] = []
        self.condition: object | None = None
        self.retry_policy: Retry | None = None
        self.coordination: list[object] = []
        self.functions = (
            FunctionActions(target) if callable(target) and not isinstance(target, type) else None
        )
        self.action_names: set[str] = set()
        self.unit: StepUnit | None = None
        self.problems: list[str] = []
        """What is wrong already; raised once the names of reactor and step are known."""

    @property
    def label(self) -> str:
        """The node's name, or what it stands for while it has none."""
        return self.name or f"{self.function}({readable_name(self.target)})"

    def after(self, *nodes: DeclaredNode) -> Self:
        """Wait for these steps too, without using their results."""
        self._change("after")
        self.dependencies.extend(nodes)
        return self

    def when(self, condition: Reference | DeclaredNode | Callable[..., object]) -> Self:
        """Run only if `condition` is true, else be skipped with the result `None`.

        A reference is read when the step is reached. A function is called with the step's inputs
        before they are validated: those its parameters name, or, if its only parameter is no
        input, all of them as attributes of one object.
        """
        self._change("when")
        if self.condition is not None:
            self.problems.append(".when is given twice. Combine the conditions in one function.")
        self.condition = condition
        return self

    @overload
    def retry(self, policy: Retry, /) -> Self: ...
    @overload
    def retry(self, **options: Unpack[RetryOptions]) -> Self: ...
    def retry(self, *policy: Retry, **options: Any) -> Self:
        """Try a failed attempt again, as this policy (or a `Retry` of these arguments) says."""
        self._change("retry")
        self.retry_policy = policy[0] if policy else Retry(**options)
        return self

    def coordinate(self, *primitives: Primitive) -> Self:
        """Hold or await these around this step, besides what the step itself declares."""
        self._change("coordinate")
        self.coordination.extend(primitives)
        return self

    def undo(self, function: Callable[..., object]) -> Self:
        """Decorate the function that reverses this function step; it may take `result`."""
        return self._attach("undo", function)

    def compensate(self, function: Callable[..., object]) -> Self:
        """Decorate the function that cleans up after a failure; it may take `reason`."""
        return self._attach("compensate", function)

    def reconcile(self, function: Callable[..., object]) -> Self:
        """Decorate the function that tells whether an attempt cut off by a crash landed."""
        return self._attach("reconcile", function)

    def map(self, function: Callable[[Any], object]) -> Any:
        """Return a reference to what `function` makes of this step's result."""
        return self.reference().map(function)

    def reference(self) -> Reference:
        """Return the reference to this step's whole result."""
        return Reference(StepRoot(self))

    def freeze(self, owner: type, name: str) -> None:
        """Give the node its name; from now on it cannot be changed."""
        self.owner, self.name = owner, name

    # `Any` lets a subclass replace `returns = step` by `returns = step["part"]` for mypy as well
    def __getitem__(self, key: Any) -> Any:
        return Reference(StepRoot(self), (PathStep(key),))

    def __repr__(self) -> str:
        return f"<{self.function} {self.label}>"

    if not TYPE_CHECKING:
        # out of the type checkers' sight, so that they refuse what is refused here

        def __getattr__(self, name: str) -> NoReturn:
            raise AttributeError(
                f"{type(self).__name__} has no {name!r}. Write [{name!r}] for a part of its "
                "result, or use .map(...)."
            )

    def _change(self, option: str) -> None:
        if self.owner is not None:
            owner = readable_name(self.owner)
            raise DefinitionError(
                f"{owner}.{self.name}: .{option}(...) comes too late, the reactor is complete. "
                "Give options in the class body, or replace the step in a subclass.",
                reactor=owner,
                step=self.name,
            )

    def _attach(self, action: ActionName, function: Callable[..., object]) -> Self:
        self._change(action)
        if self.functions is None:
            self.problems.append(
                f".{action} is for function steps. Define {action} in "
                f"{readable_name(self.target)} instead."
            )
        elif not callable(function):
            self.problems.append(f".{action}({function!r}) needs a function.")
        elif action in self.functions.others:
            self.problems.append(f".{action} is given twice. Keep one of them.")
        else:
            self.functions.others[action] = function
        self.action_names.add(getattr(function, "__name__", ""))
        return self


refuse_use_as_value(DeclaredNode)


class StepNode(DeclaredNode):
    """A step class or a function as a step."""

    kind = NodeKind.STEP

    def __init__(
        self,
        target: object,
        wiring: Mapping[str, Any],
        *,
        retry: Retry | None = None,
        rollback_retry: Retry | None = None,
        coordination: tuple[object, ...] = (),
    ) -> None:
        super().__init__(target, wiring)
        self.retry_policy = retry
        self.rollback_retry = rollback_retry
        self.coordination.extend(coordination)


class ComposeNode(DeclaredNode):
    """A reactor as a step."""

    kind = NodeKind.COMPOSE
    function = "compose"


class MapNode(DeclaredNode):
    """A step, function or reactor applied to each element of a collection."""

    kind = NodeKind.MAP
    function = "map_each"

    def __init__(self, target: object, over: object, wiring: Mapping[str, Any]) -> None:
        super().__init__(target, wiring)
        self.over = over
        self.keeps_going = False
        self.collector: Callable[..., object] | None = None
        self.bulk_undo: Callable[..., object] | None = None

    def keep_going(self) -> Self:
        """Run every element even after failures: the result has `successes` and `failures`."""
        self._change("keep_going")
        self.keeps_going = True
        return self

    def collect(self, function: Callable[[Any], object]) -> Self:
        """Reduce the results: the map's value is what `function` makes of them."""
        return self._set_once("collect", "collector", function)

    def undo_all(self, function: Callable[[Any], object]) -> Self:
        """Undo all elements by one call with the completed ones' results, in index order."""
        return self._set_once("undo_all", "bulk_undo", function)

    def _set_once(self, option: str, attribute: str, function: Callable[[Any], object]) -> Self:
        self._change(option)
        if not callable(function):
            self.problems.append(f".{option}({function!r}) needs a function of the results.")
        if getattr(self, attribute) is not None:
            self.problems.append(f".{option} is given twice. Keep one of them.")
        setattr(self, attribute, function)
        self.action_names.add(getattr(function, "__name__", ""))
        return self


class SpawnNode(DeclaredNode):
    """A step or a reactor dispatched on its own."""

    kind = NodeKind.SPAWN
    function = "spawn"


_UNSPECIFIED = object()


def compose(reactor: type, /, **wiring: Any) -> DeclaredNode:
    """Declare a nested reactor: its failure is the step's, its undo replays the child's undos.

    Args:
        reactor: the nested reactor's class.
        wiring: its inputs: references or literals. Those not wired take the input of the same
            name of the reactor that declares it.
    """
    return ComposeNode(reactor, wiring)


def spawn(target: Any, /, **wiring: Any) -> SpawnNode:
    """Declare an independent unit, dispatched to a worker when the run reaches it.

    It is no part of the run's rollback, and its failure is its own. A step that uses its result
    waits for it and receives the value, or the `Failure` itself; nothing else waits.

    Args:
        target: a step class, a function or a reactor.
        wiring: its inputs: references or literals. Those not wired take the input of the same
            name of the reactor that declares it.
    """
    return SpawnNode(target, wiring)


def map_each(target: Any, /, *, over: Any = _UNSPECIFIED, **wiring: Any) -> MapNode:
    """Declare a map: `target` is run for each element of `over`, in order.

    Args:
        target: a step class, a function or a reactor.
        over: a reference to a collection, a collection, or a function that returns one; the
            function's parameters are wired by name from inputs and steps.
        wiring: the target's inputs: `element`, `index`, parts of them, other references, literals.
            Those not wired take the reactor input of the same name.

    The result is a lazy sequence of the elements' results, in order.
    """
    return MapNode(target, None if over is _UNSPECIFIED else over, wiring)
