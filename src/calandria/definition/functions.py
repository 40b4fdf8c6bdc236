"""Function steps: plain functions as actions of a unit, their parameters as its inputs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import CellType

from calandria.definition.context import StepContext
from calandria.definition.contract import (
    NO_DEFAULT,
    Contract,
    FieldDeclaration,
    OutputContract,
)
from calandria.definition.names import FUNCTION_SPECIAL
from calandria.definition.namespaces import AnnotationScope
from calandria.definition.unit import Action, ActionName, StepUnit
from calandria.errors import DefinitionError
from calandria.plan.policies import ONCE, Retry

# what the library passes to each action besides the step's own inputs
_SPECIAL: Mapping[ActionName, tuple[str, ...]] = {
    "run": ("context",),
    "compensate": ("reason", "context"),
    "undo": ("result", "context"),
    "reconcile": ("context",),
}

_STARS: Mapping[object, str] = {
    inspect.Parameter.VAR_POSITIONAL: "*",
    inspect.Parameter.VAR_KEYWORD: "**",
}


@dataclass
class FunctionActions:
    """The functions of one function step, collected while its reactor is being declared."""

    run: Callable[..., object]
    others: dict[ActionName, Callable[..., object]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What messages call the step."""
        return readable_name(self.run)

    def build(
        self,
        scope: AnnotationScope,
        *,
        retry: Retry = ONCE,
        rollback_retry: Retry = ONCE,
        coordination: tuple[object, ...] = (),
    ) -> StepUnit:
        """Return the unit that these functions make up; raises `DefinitionError`."""
        inputs = _inputs_of(self.run)
        actions: dict[ActionName, Callable[..., object]] = {"run": self.run, **self.others}
        return StepUnit(
            self.name,
            Contract(self.name, _declarations(self.run, inputs, scope)),
            _output(self.run, scope),
            {
                name: action_of(name, function, frozenset(inputs))
                for name, function in actions.items()
            },
            retry=retry,
            rollback_retry=rollback_retry,
            coordination=coordination,
        )


def readable_name(target: object) -> str:
    """Return the qualified name of a class or function, without the function it is local to."""
    while isinstance(target, partial):
        target = target.func
    name = getattr(target, "__qualname__", None) or repr(target)
    return str(name).rpartition("<locals>.")[2]


def returns_coroutine(function: Callable[..., object]) -> bool:
    """Tell whether calling `function` gives a coroutine; raises `DefinitionError` for generators.

    A generator's body would run only when somebody iterates over it, outside of the step.
    """
    while isinstance(function, partial):
        function = function.func
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise DefinitionError(
            f"{readable_name(function)} is a generator. A step must return its value: build a "
            "list, or return what you would yield.",
            step=readable_name(function),
        )
    return inspect.iscoroutinefunction(function)


def parameters_of(function: Callable[..., object]) -> dict[str, inspect.Parameter]:
    """Return the parameters of a function that is called by keyword; raises `DefinitionError`."""
    name = readable_name(function)
    try:
        parameters = dict(inspect.signature(function).parameters)
    except (TypeError, ValueError) as error:
        raise DefinitionError(
            f"{name}: its parameters cannot be read ({error}). Wrap it in a function with named "
            "parameters.",
            step=name,
        ) from error
    for parameter in parameters.values():
        if parameter.kind in (
            inspect.Parameter.POSITIONAL_ONLY,
            inspect.Parameter.VAR_POSITIONAL,
            inspect.Parameter.VAR_KEYWORD,
        ):
            raise DefinitionError(
                f"{name}: its parameter {_STARS.get(parameter.kind, '')}{parameter.name} cannot be "
                "wired by name. Spell out the inputs as named parameters.",
                step=name,
            )
    return parameters


def action_of(
    action: ActionName, function: Callable[..., object], inputs: frozenset[str]
) -> Action:
    """Return how to perform one action by calling `function` with the inputs it names."""
    wanted = tuple(parameters_of(function))
    special = _SPECIAL[action]
    unknown = [name for name in wanted if name not in inputs and name not in special]
    if unknown:
        raise DefinitionError(
            f"{readable_name(function)}: {action} has no {unknown[0]!r} to give. Its parameters "
            f"may be {', '.join((*special, *sorted(inputs)))}.",
            step=readable_name(function),
        )
    is_async = returns_coroutine(function)
    if set(wanted) == inputs and not set(wanted) & set(special):
        return Action(is_async, _calling_with_values(function))
    return Action(is_async, _calling_with_selection(function, wanted, special))


def _calling_with_values(function: Callable[..., object]) -> Callable[..., object]:
    def call(values: Mapping[str, object], _: StepContext, *__: object) -> object:
        return function(**values)

    return call


def _calling_with_selection(
    function: Callable[..., object], wanted: tuple[str, ...], special: tuple[str, ...]
) -> Callable[..., object]:
    from_values = tuple(name for name in wanted if name not in special)
    has_context = "context" in wanted
    extra_name = special[0] if special[0] != "context" and special[0] in wanted else None

    def call(values: Mapping[str, object], context: StepContext, *extra: object) -> object:
        arguments = {name: values[name] for name in from_values}
        if has_context:
            arguments["context"] = context
        if extra_name is not None:
            arguments[extra_name] = extra[0]
        return function(**arguments)

    return call


def _inputs_of(function: Callable[..., object]) -> dict[str, inspect.Parameter]:
    parameters = parameters_of(function)
    for name in ("result", "reason"):
        if name in parameters:
            raise DefinitionError(
                f"{readable_name(function)}: {name!r} is what the library passes to an undo or "
                "compensate. Call this parameter something else.",
                step=readable_name(function),
            )
    return {name: found for name, found in parameters.items() if name not in FUNCTION_SPECIAL}


def _declarations(
    function: Callable[..., object],
    inputs: Mapping[str, inspect.Parameter],
    scope: AnnotationScope,
) -> dict[str, FieldDeclaration]:
    own = _own_scope(function, scope)
    return {
        name: FieldDeclaration(
            name=name,
            annotation=object if parameter.annotation is parameter.empty else parameter.annotation,
            default=NO_DEFAULT if parameter.default is parameter.empty else parameter.default,
            scope=own,
        )
        for name, parameter in inputs.items()
    }


def _output(function: Callable[..., object], scope: AnnotationScope) -> OutputContract | None:
    annotation = inspect.signature(function).return_annotation
    if annotation is inspect.Signature.empty:
        return None
    return OutputContract(readable_name(function), annotation, _own_scope(function, scope))


def _own_scope(function: Callable[..., object], scope: AnnotationScope) -> AnnotationScope:
    inner = inspect.unwrap(function)
    while isinstance(inner, partial):
        inner = inner.func
    module = getattr(inner, "__globals__", scope.globals)
    closure = getattr(inner, "__closure__", None)
    if not closure:
        return AnnotationScope(module, scope.locals)
    enclosed = {
        name: cell.cell_contents
        for name, cell in zip(inner.__code__.co_freevars, closure, strict=True)
        if _is_filled(cell)
    }
    return AnnotationScope(module, {**scope.locals, **enclosed})


def _is_filled(cell: CellType) -> bool:
    """Tell whether a variable of the enclosing function has a value yet.

    That of the reactor whose body is being read, for one, has none.
    """
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False
