"""Getting a step ready to start: its condition, its arguments, its contract, its record."""

from __future__ import annotations

import dataclasses
from enum import Enum

from calandria.definition.node_definition import NodeDefinition
from calandria.definition.references import Reference, resolve
from calandria.errors import EncodingError, UnresolvedReference, ValidationError
from calandria.plan.model import NodeKind
from calandria.results import Failure
from calandria.runtime.environment import Environment
from calandria.runtime.levels import Level, ReactorLevel
from calandria.runtime.map_result import MapResult
from calandria.runtime.outcomes import failure_of, failure_of_function
from calandria.runtime.slots import Slot
from calandria.runtime.values import record_inputs


class Ready(Enum):
    """What came of getting a step ready."""

    READY = "ready"
    UNWANTED = "unwanted"
    """Its condition is false."""


def prepare(environment: Environment, level: Level, name: str, slot: Slot) -> Ready | Failure:
    """Resolve and validate a step's inputs and put them in its slot, recorded and to be seen.

    Nothing of the step has started when this returns a `Failure`.
    """
    definition = level.definition_of(name)
    arguments: dict[str, object] | None = None
    try:
        if isinstance(level, ReactorLevel) and definition.condition is not None:
            if isinstance(definition.condition, Reference):
                where = f"{level.reactor_name}.{name}, condition"
                wanted = resolve(definition.condition, level, where)
            else:
                arguments = {} if definition.kind is NodeKind.MAP else level.arguments(name)
                wanted = definition.condition(arguments)
            if not wanted:
                return Ready.UNWANTED
        if level.kind_of(name) is NodeKind.MAP:
            return Ready.READY
        if arguments is None:
            arguments = level.arguments(name)
        values = definition.contract.validate(_plain_collections(definition, arguments))
        slot.inputs_text, slot.values = record_inputs(values, environment.codec)
    except ValidationError as error:
        return Failure(
            str(error),
            retryable=False,
            exception=error,
            exception_class="ValidationError",
            validation_errors=error.errors,
        )
    except EncodingError as error:
        return _unrecordable(level, name, error)
    except UnresolvedReference as error:
        return failure_of(error, retryable=False)
    except BaseException as error:
        failure = failure_of_function(error)
        what = f"{failure.exception_class}: {failure.error}" if failure.exception else failure.error
        message = f"{level.reactor_name}.{name}: its condition or inputs raised {what}"
        return dataclasses.replace(failure, error=message, retryable=False)
    return Ready.READY


def _plain_collections(
    definition: NodeDefinition, arguments: dict[str, object]
) -> dict[str, object]:
    """Turn lazy map results into lists where the step's contract asks for something else."""
    if MapResult not in map(type, arguments.values()):
        return arguments
    fields = definition.contract.fields
    return {
        name: list(value)
        if isinstance(value, MapResult) and not _takes_map_result(fields[name].annotation)
        else value
        for name, value in arguments.items()
    }


def _takes_map_result(annotation: object) -> bool:
    origin = getattr(annotation, "__origin__", annotation)
    return getattr(origin, "__name__", "") in ("Any", "object", "MapResult") or origin is object


def _unrecordable(level: Level, name: str, error: EncodingError) -> Failure:
    return Failure(
        f"{level.reactor_name}.{name}: its inputs cannot be recorded. {error}",
        retryable=False,
        exception=error,
        exception_class="EncodingError",
    )
