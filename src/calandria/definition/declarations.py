"""Reading the inputs that a class body declares, for steps and reactors alike."""

from __future__ import annotations

from collections.abc import Mapping

from calandria.definition.contract import NO_DEFAULT, FieldDeclaration
from calandria.definition.functions import readable_name
from calandria.definition.namespaces import AnnotationScope, is_class_variable, own_annotations
from calandria.errors import DefinitionError

_DESCRIPTORS = (property, classmethod, staticmethod)


def collect_inputs(
    cls: type, scope: AnnotationScope, reserved: frozenset[str], *, base: type
) -> dict[str, FieldDeclaration]:
    """Return the inputs that the body of `cls` itself declares.

    `base` is the library's class they descend from. Raises `DefinitionError` for names that are
    reserved, taken by a method, or overridden without an annotation.
    """
    annotated = {
        name: annotation
        for name, annotation in own_annotations(cls).items()
        if not name.startswith("_") and not is_class_variable(annotation)
    }
    inherited = _inherited(cls)
    _refuse_unannotated(cls, annotated, inherited)
    within = scope.within_class(cls)
    found: dict[str, FieldDeclaration] = {}
    for name, annotation in annotated.items():
        if name in reserved:
            raise DefinitionError(
                f"{readable_name(cls)}: an input cannot be called {name!r}, which the library "
                "uses. Rename it; docs/reserved-names.md lists the reserved names.",
                step=readable_name(cls),
            )
        _refuse_method(cls, name, inherited, base)
        found[name] = FieldDeclaration(name, annotation, cls.__dict__.get(name, NO_DEFAULT), within)
    return found


def inherited_inputs(cls: type) -> dict[str, FieldDeclaration]:
    """Return all inputs of `cls`: those of its bases first, each overridden in its place."""
    found: dict[str, FieldDeclaration] = {}
    for base in reversed(cls.__mro__):
        found.update(base.__dict__.get("__calandria_inputs__", {}))
    return found


def refuse_init(cls: type) -> None:
    """Raise `DefinitionError` if the class has a constructor, which nothing would ever call."""
    for method in ("__init__", "__new__", "__post_init__"):
        if method in cls.__dict__:
            raise DefinitionError(
                f"{readable_name(cls)}.{method} would never be called: inputs are annotated class "
                "attributes, and anything derived from them is best made in run or a property.",
                step=readable_name(cls),
            )


def _inherited(cls: type) -> dict[str, FieldDeclaration]:
    found: dict[str, FieldDeclaration] = {}
    for base in reversed(cls.__mro__[1:]):
        found.update(base.__dict__.get("__calandria_inputs__", {}))
    return found


def _refuse_unannotated(
    cls: type, annotated: Mapping[str, object], inherited: Mapping[str, FieldDeclaration]
) -> None:
    for name in inherited:
        if name in cls.__dict__ and name not in annotated:
            raise DefinitionError(
                f"{readable_name(cls)}.{name} replaces an inherited input. To change the input or "
                "its default, annotate it again; else use another name.",
                step=readable_name(cls),
            )


def _refuse_method(
    cls: type, name: str, inherited: Mapping[str, FieldDeclaration], base: type
) -> None:
    if name in inherited:
        return
    for ancestor in cls.__mro__[1:]:
        value = ancestor.__dict__.get(name)
        if isinstance(value, _DESCRIPTORS) or (callable(value) and not isinstance(value, type)):
            raise DefinitionError(
                f"{readable_name(cls)}: the input {name!r} would hide "
                f"{readable_name(ancestor)}.{name}. Rename the input.",
                step=readable_name(cls),
            )
        if ancestor is base:
            return
