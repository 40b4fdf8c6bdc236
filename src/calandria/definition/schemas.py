"""The bridge to pydantic: one validator per annotation, and what can be read off its schema."""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import EnumMeta
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, cast

from calandria.definition.redaction import METADATA_KEY

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

# parts of a core schema that hold values, classes or output rules, not further validation
_NOT_VALIDATION = frozenset(
    {"cls", "config", "default", "expected", "members", "metadata", "ref", "serialization"}
)
_FUNCTIONS = frozenset({"function-before", "function-after", "function-wrap", "function-plain"})
_ORDINARY_METACLASSES = (type, ABCMeta, EnumMeta)
_ORDINARY_MODULES = ("builtins", "pydantic", "pydantic_core", "typing", "collections")


@dataclass(frozen=True)
class ValueSchema:
    """How values of one annotation are validated.

    `validate` raises pydantic's error. `runs_user_code` tells whether it may call code that is
    neither Python's nor pydantic's; in doubt it is true.
    """

    validate: Callable[[object], object]
    redacted: bool
    runs_user_code: bool


def build_schema(field: FieldInfo, names: Mapping[str, object]) -> ValueSchema:
    """Return how the values of `field` are validated.

    `names` are the local names that forward references inside the annotated types may use.
    Raises `NameError` where one is not there yet, and pydantic's errors for what it cannot
    validate.
    """
    from pydantic import ConfigDict, Field, GetPydanticSchema, TypeAdapter

    annotation = field.annotation
    constraints = list(field.metadata)
    if field.discriminator is not None:
        constraints.append(Field(discriminator=field.discriminator))
    # a holder, because pydantic refuses a config directly on models, dataclasses and TypedDicts
    whole = GetPydanticSchema(lambda _, handler: handler.generate_schema(annotation))
    holder = Annotated[(Any, whole, *constraints)]
    adapter: TypeAdapter[object] = TypeAdapter(
        cast(Any, holder), config=ConfigDict(arbitrary_types_allowed=True, defer_build=True)
    )
    adapter.rebuild(force=True, _types_namespace=dict(names))
    nodes = list(_walk(adapter.core_schema))
    return ValueSchema(
        validate=adapter.validator.validate_python,
        redacted=any(node.get("metadata", {}).get(METADATA_KEY) for node in nodes),
        runs_user_code=any(_calls_user_code(node) for node in nodes),
    )


def _walk(schema: object) -> Iterator[Mapping[str, Any]]:
    if isinstance(schema, Mapping):
        if "type" in schema:
            yield schema
        for key, part in schema.items():
            if key not in _NOT_VALIDATION:
                yield from _walk(part)
    elif isinstance(schema, (list, tuple)):
        for part in schema:
            yield from _walk(part)


def _calls_user_code(node: Mapping[str, Any]) -> bool:
    kind = node["type"]
    if kind in _FUNCTIONS:
        function = node["function"]
        return _is_users(function["function"] if isinstance(function, Mapping) else function)
    if kind == "default":
        return "default_factory" in node and _is_users(node["default_factory"])
    if kind in ("model", "dataclass"):
        return bool(node.get("post_init") or node.get("custom_init"))
    if kind == "enum":
        return node.get("missing") is not None
    if kind in ("is-instance", "is-subclass"):
        return type(node["cls"]) not in _ORDINARY_METACLASSES
    if kind == "tagged-union":
        return callable(node["discriminator"])
    return kind in ("call", "custom-error", "arguments", "generator")


def _is_users(function: object) -> bool:
    while isinstance(function, partial):
        function = function.func
    module = getattr(function, "__module__", None) or ""
    return module.partition(".")[0] not in _ORDINARY_MODULES
