"""Where annotations are evaluated: the names a class body could see, kept without its frame."""

from __future__ import annotations

import inspect
import re
import sys
import types
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

_IDENTIFIER = re.compile(r"[^\W\d]\w*")
# where classes are made: abc.ABCMeta.__new__, and overridden hooks that call super()
_CLASS_MACHINERY = ("__init_subclass__", "__new__")
_CLASS_VARIABLE = re.compile(r"(\w+\.)*ClassVar\b")


@dataclass(frozen=True)
class AnnotationScope:
    """The names an annotation may use: its module's, and those local to it."""

    globals: dict[str, object]
    locals: Mapping[str, object] = field(default_factory=dict)

    def with_locals(self, names: Mapping[str, object]) -> AnnotationScope:
        """Return a scope in which `names` are visible too, before those already local."""
        return AnnotationScope(self.globals, {**self.locals, **names})

    def within_class(self, cls: type) -> AnnotationScope:
        """Return a scope in which the types defined in the body of `cls` are visible too."""
        return self.with_locals({k: v for k, v in vars(cls).items() if _is_type_like(v)})


def enclosing_scope(frame: types.FrameType | None, mentioned: Iterable[object]) -> AnnotationScope:
    """Return what a class body or function around `frame` can see.

    Of the local names only those that `mentioned` annotations spell out and those that are types
    are kept: the scope must not prolong the life of a function's other values.
    """
    while frame is not None and frame.f_code.co_name in _CLASS_MACHINERY:
        frame = frame.f_back
    if frame is None:
        return AnnotationScope({})
    spelled = {name for text in mentioned for name in _IDENTIFIER.findall(str(text))}
    found: dict[str, object] = {}
    module_names = frame.f_globals
    while frame is not None and frame.f_locals is not frame.f_globals:
        for name, value in frame.f_locals.items():
            if name not in found and (name in spelled or _is_type_like(value)):
                found[name] = value
        if "__qualname__" not in frame.f_locals:
            break
        # a class body: what surrounds it is visible to annotations as well
        frame = frame.f_back
    return AnnotationScope(module_names, found)


def own_annotations(cls: type) -> Mapping[str, object]:
    """Return the annotations written in the body of `cls` itself, unevaluated where possible."""
    if sys.version_info >= (3, 14):
        import annotationlib

        return annotationlib.get_annotations(cls, format=annotationlib.Format.FORWARDREF)
    return inspect.get_annotations(cls)


def is_class_variable(annotation: object) -> bool:
    """Tell whether an annotation, a string or not, declares a `ClassVar`."""
    if isinstance(annotation, str):
        return _CLASS_VARIABLE.match(annotation.strip()) is not None
    return annotation is typing.ClassVar or typing.get_origin(annotation) is typing.ClassVar


def evaluate_annotation(annotation: object, scope: AnnotationScope) -> object:
    """Return the type that an annotation stands for, forward references resolved.

    Raises `NameError` for a name that is not (yet) there, `SyntaxError` or `TypeError` for text
    that is no type.
    """
    holder = types.SimpleNamespace(__annotations__={"value": annotation})
    hints = typing.get_type_hints(
        holder, globalns=scope.globals, localns=dict(scope.locals), include_extras=True
    )
    return hints["value"]


def _is_type_like(value: object) -> bool:
    # by its type alone: a local name may hold a proxy that raises at any question asked of it
    kind = type(value)
    return issubclass(
        kind, (type, types.GenericAlias, types.ModuleType, types.UnionType)
    ) or kind.__module__ in ("typing", "typing_extensions")
