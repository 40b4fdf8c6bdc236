"""The classes that an annotation reaches, through generics, unions and the fields of classes."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Annotated, Any, ForwardRef, Literal, get_args, get_origin

from pydantic import BaseModel
from typing_extensions import is_typeddict


def classes_in(annotation: object, namespace: Mapping[str, object]) -> Iterator[type]:
    """Yield every class `annotation` reaches that may have values to record, each once.

    `namespace` holds names that forward references may mean besides those of their module; a
    reference that cannot be resolved is passed over.
    """
    seen: set[object] = set()
    waiting = [_Place(annotation, namespace, None)]
    while waiting:
        place = waiting.pop()
        current = place.annotation
        if not _is_new(place, seen):
            continue
        if isinstance(current, (str, ForwardRef)):
            waiting.append(place.at(_resolve(current, place.names)))
        elif isinstance(current, type) and _has_fields(current):
            if not is_typeddict(current):
                yield current
            names = _names_around(current, namespace)
            waiting.extend(_Place(part, names, current) for part in _field_annotations(current))
        else:
            waiting.extend(map(place.at, _parts(current)))


@dataclasses.dataclass(frozen=True)
class _Place:
    """An annotation, what names mean in it, and the class in whose body it stands."""

    annotation: object
    names: Mapping[str, object]
    owner: type | None

    def at(self, annotation: object) -> _Place:
        return dataclasses.replace(self, annotation=annotation)


def _is_new(place: _Place, seen: set[object]) -> bool:
    current = place.annotation
    # the same reference may mean another class in another class's body
    key = current if isinstance(current, type) else (current, place.owner)
    try:
        if key in seen:
            return False
        seen.add(key)
    except TypeError:  # unhashable: a list of parameter types, or metadata; never recursive
        return isinstance(current, list)
    return True


def _resolve(reference: str | ForwardRef, names: Mapping[str, object]) -> object:
    text = reference if isinstance(reference, str) else reference.__forward_arg__
    try:
        return eval(text, dict(names))
    except Exception:
        return None


def _names_around(cls: type, namespace: Mapping[str, object]) -> dict[str, object]:
    names: dict[str, object] = {}
    for base in reversed(cls.__mro__):
        if base.__module__ in sys.modules:
            names.update(vars(sys.modules[base.__module__]))
    # a function's own names hide its module's, but only from the classes made in a function
    is_local = "<locals>" in cls.__qualname__
    names = {**names, **namespace} if is_local else {**namespace, **names}
    return {**names, cls.__name__: cls}


def _has_fields(cls: type) -> bool:
    return (
        issubclass(cls, (Enum, BaseModel))
        or dataclasses.is_dataclass(cls)
        or is_typeddict(cls)
        or (issubclass(cls, tuple) and hasattr(cls, "_fields"))
    )


def _field_annotations(cls: type) -> Iterator[object]:
    if issubclass(cls, BaseModel):
        # of a generic model these have its arguments in place; the annotations below do not
        yield from (field.annotation for field in cls.model_fields.values())
    for base in cls.__mro__:
        if base is BaseModel:
            continue
        try:
            yield from getattr(base, "__annotations__", {}).values()
        except NameError:  # evaluated late, and a name is not there yet
            continue


def _parts(annotation: Any) -> list[object]:
    origin = get_origin(annotation)
    if origin is Literal:
        return [type(value) for value in get_args(annotation)]
    if origin is Annotated:
        return [get_args(annotation)[0]]
    parts: list[object] = list(get_args(annotation))
    if origin is not None:
        parts.append(origin)
    # of a NewType, a `type X = ...` alias, and a type variable
    for name in ("__supertype__", "__value__", "__bound__", "__default__"):
        try:
            parts.append(getattr(annotation, name, None))
        except NameError:
            continue
    parts.extend(getattr(annotation, "__constraints__", ()))
    if isinstance(annotation, list):
        parts.extend(annotation)
    return parts
