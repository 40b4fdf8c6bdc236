"""`Step`: a unit of work as a class."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, ParamSpec

from typing_extensions import dataclass_transform

from calandria.coordination.checks import check_declarations
from calandria.coordination.primitives import Primitive
from calandria.definition.context import StepContext
from calandria.definition.contract import (
    Contract,
    FieldDeclaration,
    OutputContract,
    UnresolvedAnnotation,
)
from calandria.definition.declarations import collect_inputs, inherited_inputs, refuse_init
from calandria.definition.execution import CallOptions, executor
from calandria.definition.functions import readable_name, returns_coroutine
from calandria.definition.names import STEP_RESERVED
from calandria.definition.namespaces import AnnotationScope, enclosing_scope, own_annotations
from calandria.definition.unit import ACTIONS, Action, ActionName, StepUnit
from calandria.errors import DefinitionError
from calandria.plan.policies import ONCE, Retry
from calandria.results import Result

if TYPE_CHECKING:
    from pydantic import Field
else:
    # only type checkers need it here, and importing pydantic takes its time
    def Field() -> None: ...  # noqa: D103


P = ParamSpec("P")


@dataclass_transform(kw_only_default=True, field_specifiers=(Field,))
class Step:
    """One unit of work: annotated inputs, `run`, and optionally the ways back.

    Subclass it, annotate the inputs as class attributes, and define `run`; `compensate(reason)`
    cleans up after its failure, `undo(result)` reverses its success, `reconcile()` tells whether
    an attempt that a crash cut off has landed. All may be `async`. A step is never constructed:
    a reactor runs it, or `call` does. Raises `DefinitionError` when the class is created wrongly.

    Example:
        class Charge(Step):
            amount: int

            def run(self) -> str:
                return bank.charge(self.amount, key=self.context.idempotency_key)

            def undo(self, result: str) -> None:
                bank.refund(result)
    """

    retry: ClassVar[Retry] = ONCE
    """How often a failed `run` is tried again; by default not at all."""
    rollback_retry: ClassVar[Retry] = ONCE
    """The same for this step's own `undo` and `compensate`."""
    coordination: ClassVar[Sequence[Primitive]] = ()
    """What is held or awaited around the work."""

    __calandria_scope__: ClassVar[AnnotationScope]
    __calandria_inputs__: ClassVar[Mapping[str, FieldDeclaration]]
    __calandria_unit__: ClassVar[StepUnit]

    if TYPE_CHECKING:
        context: ClassVar[StepContext]
        """The execution around the action: ids, attempt, results of other steps, and so on."""

        def run(self) -> Any:
            """Do the work; what it returns is the step's result."""

        def compensate(self, reason: Any) -> Any:
            """Clean up after this step failed with `reason`."""

        def undo(self, result: Any) -> Any:
            """Reverse this step, which succeeded with `result`."""

        def reconcile(self) -> Any:
            """Return the result if an attempt cut off by a crash landed, else `None`."""

    else:

        def __new__(cls, *_: object, **__: object) -> NoReturn:  # noqa: D102
            raise TypeError(
                f"{readable_name(cls)} is a step and is never constructed: use it in a reactor, "
                f"or run it alone with {readable_name(cls)}.call(...)."
            )

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        annotations = own_annotations(cls)
        scope = enclosing_scope(sys._getframe(1), annotations.values())
        refuse_init(cls)
        cls.__calandria_scope__ = scope
        cls.__calandria_inputs__ = collect_inputs(cls, scope, STEP_RESERVED, base=Step)
        cls.__calandria_unit__ = _build_unit(cls)
        _check_coordination(cls.__calandria_unit__)

    @classmethod
    def call(cls: Callable[P, Any], /, *args: P.args, **inputs: P.kwargs) -> Result[Any]:
        """Run this step as an execution of its own, without retries, and return its result.

        Invalid inputs give a `Failure`. Raises `DefinitionError` if the step is declared wrongly.
        """
        unit, values = _callable_unit(cls, args, inputs)
        return executor().call(unit, values, CallOptions())

    @classmethod
    async def acall(cls: Callable[P, Any], /, *args: P.args, **inputs: P.kwargs) -> Result[Any]:
        """Run this step like `call`, from async code."""
        unit, values = _callable_unit(cls, args, inputs)
        return await executor().acall(unit, values, CallOptions())

    @classmethod
    def call_undo(cls, result: Any, /, **inputs: Any) -> Result[Any]:
        """Run this step's `undo` of `result` as an execution of its own; validates nothing."""
        unit = _unit_with(cls, "undo")
        return executor().call_undo(unit, result, unit.contract.fill_defaults(inputs))

    @classmethod
    def call_compensate(cls, reason: Any, /, **inputs: Any) -> Result[Any]:
        """Run this step's `compensate` as an execution of its own; validates nothing."""
        unit = _unit_with(cls, "compensate")
        return executor().call_compensate(unit, reason, unit.contract.fill_defaults(inputs))


def unit_of(step: type[Step]) -> StepUnit:
    """Return the unit that runs this step class."""
    unit: StepUnit = step.__dict__["__calandria_unit__"]
    return unit


def _callable_unit(
    step: object, positional: Sequence[object], inputs: Mapping[str, object]
) -> tuple[StepUnit, dict[str, object]]:
    assert isinstance(step, type) and issubclass(step, Step)
    if positional:
        raise TypeError(f"{readable_name(step)}.call takes its inputs by name.")
    return callable_unit(step), dict(inputs)


def callable_unit(step: type[Step]) -> StepUnit:
    """Return the unit that runs this step class; raises `DefinitionError` if it has no `run`."""
    return _unit_with(step, "run")


def _unit_with(step: type[Step], action: ActionName) -> StepUnit:
    unit = step.__dict__.get("__calandria_unit__")
    if unit is None or not unit.has(action):
        name = readable_name(step)
        raise DefinitionError(f"{name} has no {action}: define it in the class.", step=name)
    found: StepUnit = unit
    return found


def _build_unit(cls: type[Step]) -> StepUnit:
    name = readable_name(cls)
    declarations: Mapping[str, FieldDeclaration] = inherited_inputs(cls)
    for option in ("retry", "rollback_retry"):
        if not isinstance(getattr(cls, option), Retry):
            raise DefinitionError(
                f"{name}.{option} is {getattr(cls, option)!r}: give a Retry(...).", step=name
            )
    coordination: object = cls.coordination
    if not isinstance(coordination, (list, tuple)):
        raise DefinitionError(
            f"{name}.coordination is {coordination!r}: give a list, even of one.", step=name
        )
    actions: dict[ActionName, Action] = {}
    for action in ACTIONS:
        function = getattr(cls, action, None)
        if function is not None:
            _check_signature(cls, action, function)
            actions[action] = Action(returns_coroutine(function), _invoker(cls, action))
    return StepUnit(
        name,
        Contract(name, declarations),
        _output(cls) if "run" in actions else None,
        actions,
        retry=cls.retry,
        rollback_retry=cls.rollback_retry,
        coordination=tuple(cls.coordination),
    )


def _check_coordination(unit: StepUnit) -> None:
    # what has no `run` yet may get the inputs of its keys in a subclass
    if not unit.coordination or not unit.has("run"):
        return
    try:
        check_declarations(unit.coordination, unit.contract.fields, unit.contract.redacted)
    except UnresolvedAnnotation:
        # what it refers to may be defined below it: checked again in a reactor, and when called
        return
    except DefinitionError as error:
        place = f"{unit.name}: "
        message = str(error).removeprefix(place)
        raise DefinitionError(place + message, step=unit.name) from error


def _invoker(cls: type[Step], action: ActionName) -> Callable[..., object]:
    create = object.__new__

    def invoke(values: Mapping[str, object], context: StepContext, *extra: object) -> object:
        step = create(cls)
        attributes = step.__dict__
        attributes.update(values)
        attributes["context"] = context
        return getattr(step, action)(*extra)

    return invoke


_EXPECTED: Mapping[ActionName, tuple[str, ...]] = {
    "run": ("self",),
    "compensate": ("self", "reason"),
    "undo": ("self", "result"),
    "reconcile": ("self",),
}


def _check_signature(cls: type[Step], action: ActionName, function: object) -> None:
    name = f"{readable_name(cls)}.{action}"
    expected = _EXPECTED[action]
    if not callable(function) or isinstance(
        inspect.getattr_static(cls, action), (staticmethod, classmethod, property)
    ):
        raise DefinitionError(
            f"{name} must be a method: def {action}({', '.join(expected)}).", step=name
        )
    try:
        inspect.signature(function).bind(*expected)
    except TypeError as error:
        raise DefinitionError(
            f"{name} must be callable as def {action}({', '.join(expected)}): {error}. Inputs are "
            "annotated class attributes, read as self.<name>.",
            step=name,
        ) from error


def _output(cls: type[Step]) -> OutputContract | None:
    base = next(base for base in cls.__mro__ if "run" in base.__dict__)
    function = inspect.unwrap(base.__dict__["run"])
    annotation = getattr(function, "__annotations__", {}).get("return", inspect.Signature.empty)
    if annotation is inspect.Signature.empty:
        return None
    scope = base.__dict__.get("__calandria_scope__", AnnotationScope({}))
    module = getattr(function, "__globals__", scope.globals)
    visible = AnnotationScope(module, scope.locals).within_class(base)
    return OutputContract(readable_name(cls), annotation, visible)
