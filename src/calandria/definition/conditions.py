"""Conditions of `.when`: a function of the step's inputs, however it names them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import SimpleNamespace

from calandria.definition.contract import Contract
from calandria.definition.references import own_copy
from calandria.errors import DefinitionError, UnresolvedReference
from calandria.results import describe_exception


def condition_of(
    function: Callable[..., object], contract: Contract, where: str
) -> Callable[[Mapping[str, object]], object]:
    """Return `function` as a function of the step's resolved inputs, defaults filled in.

    A function whose parameters are all inputs gets those by name. One whose only parameter is no
    input gets all of them as attributes of one object. Raises `DefinitionError` for any other.
    The condition raises `UnresolvedReference`, naming `where`, if the function raises.
    """
    names = _parameter_names(function)
    if all(name in contract.fields for name in names):
        return _guarded(
            lambda given: function(**{name: given[name] for name in names}), contract, where
        )
    if len(names) != 1:
        unknown = next(name for name in names if name not in contract.fields)
        raise DefinitionError(
            f"the condition's parameter {unknown!r} is no input of the step. Name inputs "
            f"({', '.join(contract.fields) or 'it has none'}), or take them all as one object."
        )
    return _guarded(lambda given: function(SimpleNamespace(**given)), contract, where)


def _guarded(
    ask: Callable[[dict[str, object]], object], contract: Contract, where: str
) -> Callable[[Mapping[str, object]], object]:
    def condition(values: Mapping[str, object]) -> object:
        try:
            given = {name: own_copy(value) for name, value in values.items()}
            return ask(contract.fill_defaults(given))
        except Exception as error:
            raise UnresolvedReference(
                f"{where}: the condition raised {type(error).__name__}: {describe_exception(error)}"
            ) from error

    return condition


def _parameter_names(function: Callable[..., object]) -> tuple[str, ...]:
    if inspect.iscoroutinefunction(function):
        raise DefinitionError(
            "the condition is async, and would always be true. Make it a plain function."
        )
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError) as error:
        raise DefinitionError(
            f"the condition's parameters cannot be read ({error}). Wrap it in a lambda."
        ) from error
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return tuple(p.name for p in parameters if p.kind not in variable)
