"""Input and output contracts: what a step or reactor takes, and what a step returns."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from calandria.definition.complaints import messages_of, unknown_input
from calandria.definition.namespaces import AnnotationScope, evaluate_annotation
from calandria.definition.schemas import ValueSchema, build_schema
from calandria.errors import DefinitionError, ValidationError

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

_resolving = threading.RLock()
# defaults of these types are shared as they are: nobody can change them
_IMMUTABLE = (type(None), bool, int, float, str, bytes)


class _NoDefault:
    def __repr__(self) -> str:
        return "NO_DEFAULT"


NO_DEFAULT = _NoDefault()
"""The default of an input that has none, or whose default is made by a factory."""


class UnresolvedAnnotation(DefinitionError):
    """An annotation uses a name that is not defined (yet)."""


@dataclass(frozen=True)
class FieldDeclaration:
    """An input as written: its annotation unevaluated, its default possibly a pydantic `Field`."""

    name: str
    annotation: object
    default: object
    scope: AnnotationScope


@dataclass(frozen=True)
class InputField:
    """One input of a contract.

    `default` is `NO_DEFAULT` if there is none or a factory makes it; `required` tells which.
    """

    name: str
    annotation: object
    required: bool
    default: object
    redacted: bool
    runs_user_code: bool = False


@dataclass(frozen=True)
class _Check:
    field: InputField
    validate: Callable[[object], object]
    fill: Callable[[dict[str, object]], object] | None


class Contract:
    """The inputs of a step or reactor.

    Annotations are evaluated at first use, once, so that they may refer to what is defined later.
    Every attribute and method raises `DefinitionError` while they cannot be.
    """

    def __init__(self, owner: str, declarations: Mapping[str, FieldDeclaration]) -> None:
        self.owner = owner
        self.names = tuple(declarations)
        self._declarations = declarations
        self._checks: tuple[_Check, ...] | None = None
        self._fields: Mapping[str, InputField] = {}
        self._redacted: frozenset[str] = frozenset()
        self._runs_user_code = False

    @property
    def fields(self) -> Mapping[str, InputField]:
        """The inputs by name, in order of declaration."""
        self._resolved()
        return self._fields

    @property
    def runs_user_code(self) -> bool:
        """Whether validating may call code that is neither Python's nor pydantic's."""
        self._resolved()
        return self._runs_user_code

    @property
    def redacted(self) -> frozenset[str]:
        """The inputs that are declared `Redacted`, at any depth."""
        self._resolved()
        return self._redacted

    def resolve(self) -> None:
        """Evaluate the annotations now; raises `DefinitionError` where that is not possible."""
        self._resolved()

    def validate(self, values: Mapping[str, object]) -> dict[str, object]:
        """Return `values` validated, in order of declaration, with defaults applied.

        Raises `ValidationError` listing every offending input, unknown ones included.
        """
        checks = self._checks or self._resolved()
        validated: dict[str, object] = {}
        errors: dict[str, list[str]] = {}
        given = 0
        for check in checks:
            name = check.field.name
            try:
                if name in values:
                    given += 1
                    validated[name] = check.validate(values[name])
                elif check.fill is not None:
                    validated[name] = check.fill(validated)
                else:
                    errors[name] = ["is required"]
            except Exception as error:
                errors[name] = messages_of(error, redacted=check.field.redacted)
        if given != len(values):
            for name in values:
                if name not in self._fields:
                    errors[name] = [unknown_input(name, self._fields)]
        if errors:
            raise _invalid_inputs(self.owner, errors)
        return validated

    def fill_defaults(self, values: Mapping[str, object]) -> dict[str, object]:
        """Return `values` unvalidated, with the defaults of inputs that are not among them."""
        filled = dict(values)
        for check in self._resolved():
            if check.field.name not in filled and check.fill is not None:
                filled[check.field.name] = check.fill(filled)
        return filled

    def _resolved(self) -> tuple[_Check, ...]:
        if self._checks is not None:
            return self._checks
        with _resolving:
            if self._checks is None:
                checks = tuple(_check(self.owner, d) for d in self._declarations.values())
                self._fields = MappingProxyType({c.field.name: c.field for c in checks})
                self._redacted = frozenset(c.field.name for c in checks if c.field.redacted)
                self._runs_user_code = any(c.field.runs_user_code for c in checks)
                self._checks = checks
            return self._checks


class OutputContract:
    """What a step's `run` is annotated to return; evaluated at first use like a `Contract`."""

    def __init__(self, owner: str, annotation: object, scope: AnnotationScope) -> None:
        self.owner = owner
        self._declaration = FieldDeclaration("return", annotation, NO_DEFAULT, scope)
        self._check: _Check | None = None

    @property
    def annotation(self) -> object:
        """The type of the value, without the result types around it."""
        return self._resolved().field.annotation

    @property
    def redacted(self) -> bool:
        """Whether the value, or a part of it, is `Redacted`."""
        return self._resolved().field.redacted

    @property
    def runs_user_code(self) -> bool:
        """Whether validating may call code that is neither Python's nor pydantic's."""
        return self._resolved().field.runs_user_code

    def validate(self, value: object) -> object:
        """Return the validated value; raises `ValidationError` with the messages at `return`."""
        check = self._check or self._resolved()
        try:
            return check.validate(value)
        except Exception as error:
            messages = messages_of(error, redacted=check.field.redacted)
        raise ValidationError(
            f"{self.owner}: its return value is invalid. {'; '.join(messages)}",
            errors={"return": messages},
        )

    def _resolved(self) -> _Check:
        with _resolving:
            if self._check is None:
                self._check = _check(self.owner, self._declaration)
            return self._check


def _invalid_inputs(owner: str, errors: Mapping[str, list[str]]) -> ValidationError:
    listed = "; ".join(f"{name}: {message}" for name, found in errors.items() for message in found)
    return ValidationError(f"{owner}: invalid inputs. {listed}", errors=errors)


def _check(owner: str, declaration: FieldDeclaration) -> _Check:
    info = _field_info(owner, declaration)
    schema = _schema(owner, declaration, info)
    fill = _default_filler(info, schema)
    plain = info.default_factory is None and not info.is_required()
    field = InputField(
        name=declaration.name,
        annotation=info.annotation,
        required=info.is_required(),
        default=info.default if plain else NO_DEFAULT,
        redacted=schema.redacted,
        runs_user_code=schema.runs_user_code or info.default_factory is not None,
    )
    return _Check(field, schema.validate, fill)


def _field_info(owner: str, declaration: FieldDeclaration) -> FieldInfo:
    from pydantic.fields import FieldInfo

    name = declaration.name
    try:
        annotation = evaluate_annotation(declaration.annotation, declaration.scope)
    except NameError as error:
        raise _unresolved(owner, name, error) from error
    except (SyntaxError, TypeError, AttributeError) as error:
        raise DefinitionError(
            f"{owner}: the annotation {declaration.annotation!r} of {name!r} is no type: {error}."
        ) from error
    if declaration.name == "return":
        from calandria.definition.outputs import value_annotation

        annotation = value_annotation(annotation)
    if declaration.default is NO_DEFAULT:
        info = FieldInfo.from_annotation(annotation)  # type: ignore[arg-type]
    else:
        info = FieldInfo.from_annotated_attribute(annotation, declaration.default)  # type: ignore[arg-type]
    if info.alias is not None or info.validation_alias is not None:
        raise DefinitionError(
            f"{owner}: {name!r} has an alias. An input is called what its attribute is called: "
            "rename the attribute instead."
        )
    return info


def _schema(owner: str, declaration: FieldDeclaration, info: FieldInfo) -> ValueSchema:
    from pydantic.errors import PydanticUserError

    try:
        return build_schema(info, declaration.scope.locals)
    except NameError as error:
        raise _unresolved(owner, declaration.name, error) from error
    except (PydanticUserError, TypeError) as error:
        raise DefinitionError(
            f"{owner}: pydantic cannot validate {declaration.name!r} as annotated: {error}"
        ) from error


def _unresolved(owner: str, name: str, error: NameError) -> UnresolvedAnnotation:
    return UnresolvedAnnotation(
        f"{owner}: the annotation of {name!r} cannot be resolved: {error}. Define or import the "
        "name (not only under TYPE_CHECKING); for a class local to a function, define it before."
    )


def _default_filler(
    info: FieldInfo, schema: ValueSchema
) -> Callable[[dict[str, object]], object] | None:
    if info.is_required():
        return None
    if info.validate_default:
        return lambda earlier: schema.validate(
            info.get_default(call_default_factory=True, validated_data=earlier)
        )
    if info.default_factory is None and isinstance(info.default, _IMMUTABLE):
        default = info.default
        return lambda _: default
    return lambda earlier: info.get_default(call_default_factory=True, validated_data=earlier)
