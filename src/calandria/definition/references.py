"""References: values that are known only when a run reaches the step that uses them."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeAlias

from calandria.errors import UnresolvedReference
from calandria.results import describe_exception

if TYPE_CHECKING:
    from calandria.definition.nodes import DeclaredNode


@dataclass(frozen=True)
class InputRoot:
    """An input of the reactor."""

    name: str

    def __str__(self) -> str:
        return f"inputs.{self.name}"


@dataclass(frozen=True, eq=False)
class StepRoot:
    """The result of a step: the node as declared, or, once the reactor exists, its name."""

    step: str | DeclaredNode

    @property
    def name(self) -> str:
        """The step's name; an unnamed node is called by what it stands for."""
        return self.step if isinstance(self.step, str) else self.step.label

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class ElementRoot:
    """The element a map is at."""

    def __str__(self) -> str:
        return "element"


@dataclass(frozen=True)
class IndexRoot:
    """The place of the element a map is at, from 0."""

    def __str__(self) -> str:
        return "index"


Root: TypeAlias = InputRoot | StepRoot | ElementRoot | IndexRoot


@dataclass(frozen=True)
class PathStep:
    """`[key]`: into a mapping, a sequence or an object's attributes."""

    key: Any

    def __str__(self) -> str:
        return f"[{_describe_slice(self.key) if isinstance(self.key, slice) else repr(self.key)}]"


@dataclass(frozen=True)
class Transform:
    """`.map(function)`."""

    function: Callable[[Any], object]

    def __str__(self) -> str:
        return f".map({getattr(self.function, '__qualname__', repr(self.function))})"


Operation: TypeAlias = PathStep | Transform


class Reference:
    """A value to come, with the path and the transformations that lead to what is meant of it."""

    __slots__ = ("operations", "root")
    root: Root
    operations: tuple[Operation, ...]

    def __init__(self, root: Root, operations: tuple[Operation, ...] = ()) -> None:
        object.__setattr__(self, "root", root)
        object.__setattr__(self, "operations", operations)

    def __getitem__(self, key: Any) -> Reference:
        return Reference(self.root, (*self.operations, PathStep(key)))

    def map(self, function: Callable[[Any], object]) -> Reference:
        """Return a reference to what `function` makes of the value when it is there."""
        if not callable(function) or inspect.iscoroutinefunction(function):
            raise TypeError(
                f"{describe(self)}.map({function!r}): give a plain function of the value; what is "
                "async or waits belongs into a step."
            )
        return Reference(self.root, (*self.operations, Transform(function)))

    def __repr__(self) -> str:
        return f"<Reference {describe(self)}>"

    if not TYPE_CHECKING:
        # out of the type checkers' sight, so that they refuse what is refused here

        def __setattr__(self, name: str, value: object) -> NoReturn:
            raise AttributeError(f"{describe(self)} is a reference, which cannot be changed.")

        def __getattr__(self, name: str) -> NoReturn:
            raise AttributeError(
                f"{describe(self)}.{name}: a reference has no attributes of the value to come. "
                f"Write {describe(self)}[{name!r}] for a part of it, or use .map(...)."
            )


def _misuse(how: str) -> Callable[..., NoReturn]:
    def refuse(self: object, *_: object) -> NoReturn:
        raise TypeError(
            f"{describe(self)} is {how}, but its value is known only when the step that uses it "
            "runs. Pass it to a step, or compute with it in .map(lambda value: ...)."
        )

    return refuse


_MISUSES: Mapping[str, Sequence[str]] = {
    "used as a condition": ("bool",),
    "iterated over": ("iter", "reversed"),
    "measured": ("len",),
    "searched": ("contains",),
    "compared": ("eq", "ne", "lt", "le", "gt", "ge"),
    "turned into text": ("str", "format"),
    "turned into a number": ("int", "float", "index", "complex", "round", "bytes"),
    "computed with": (
        *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor"),
        *("radd", "rsub", "rmul", "rtruediv", "rfloordiv", "rmod", "rpow", "rmatmul", "rand"),
        *("ror", "rxor", "neg", "pos", "abs", "invert", "lshift", "rshift", "divmod"),
    ),
}


def refuse_use_as_value(cls: type) -> None:
    """Make every use of an object of `cls` as if it were its value raise, naming `.map`."""
    for how, operators in _MISUSES.items():
        for operator in operators:
            setattr(cls, f"__{operator}__", _misuse(how))
    cls.__hash__ = object.__hash__  # type: ignore[assignment]


refuse_use_as_value(Reference)


@dataclass(frozen=True)
class Literal:
    """A value written in the definition."""

    value: Any


@dataclass(frozen=True, eq=False)
class Computed:
    """A function of other sources, called each time it is resolved."""

    function: Callable[..., object]
    arguments: Mapping[str, Reference]


Source: TypeAlias = Reference | Literal | Computed


class Scope(Protocol):
    """Where references are looked up while a run goes on."""

    def input(self, name: str) -> object:
        """Return a validated input of the reactor."""
        ...

    def result(self, step: str) -> object:
        """Return the result of a step that is done."""
        ...

    def element(self) -> object:
        """Return the element the map is at."""
        ...

    def index(self) -> int:
        """Return the place of that element."""
        ...


def resolve(source: Source, scope: Scope, where: str = "") -> object:
    """Return the value that `source` stands for.

    `where` names reactor, step and input for messages. Raises `UnresolvedReference` when a part of
    the path is missing, or when a function of a `.map` raises.
    """
    if isinstance(source, Literal):
        return source.value
    if isinstance(source, Computed):
        return _compute(source, scope, where)
    value = _root_value(source.root, scope)
    for position, operation in enumerate(source.operations):
        try:
            if isinstance(operation, PathStep):
                value = _follow(value, operation.key)
            else:
                value = operation.function(own_copy(value))
        except Exception as error:
            taken = Reference(source.root, source.operations[: position + 1])
            raise UnresolvedReference(
                f"{where + ': ' if where else ''}{describe(taken)} cannot be resolved: "
                f"{_reason(error, operation)}"
            ) from error
    return value


def own_copy(value: object) -> object:
    """Return a value for a user's function to keep or change: nobody else holds the object."""
    from calandria.codec import is_immutable  # with the codec: declaring needs none of it

    if is_immutable(value):
        return value
    try:
        return copy.deepcopy(value)
    except Exception:
        # an element of a dynamic source may be anything, a database row for one, and is not shared
        return value


def describe(source: object) -> str:
    """Return how `source` is written, such as `validate['total']`."""
    root = getattr(source, "root", None)
    if isinstance(source, Reference):
        return str(root) + "".join(str(operation) for operation in source.operations)
    label = getattr(source, "label", None)
    return label if isinstance(label, str) else repr(source)


def _root_value(root: Root, scope: Scope) -> object:
    if isinstance(root, InputRoot):
        return scope.input(root.name)
    if isinstance(root, StepRoot):
        return scope.result(root.name)
    return scope.element() if isinstance(root, ElementRoot) else scope.index()


def _compute(source: Computed, scope: Scope, where: str) -> object:
    arguments = {name: own_copy(resolve(of, scope, where)) for name, of in source.arguments.items()}
    try:
        return source.function(**arguments)
    except Exception as error:
        name = getattr(source.function, "__qualname__", repr(source.function))
        raise UnresolvedReference(
            f"{where + ': ' if where else ''}{name} raised "
            f"{type(error).__name__}: {describe_exception(error)}"
        ) from error


def _follow(value: Any, key: Any) -> object:
    if isinstance(value, Mapping):
        return value[key]
    if isinstance(key, (int, slice)):
        return value[key]
    if not isinstance(value, Sequence) and hasattr(type(value), "__getitem__"):
        # rows of database drivers answer to names without being mappings
        try:
            return value[key]
        except (KeyError, IndexError, TypeError):
            pass
    if not isinstance(key, str):
        raise TypeError(f"a {type(value).__name__} has no part {key!r}")
    return getattr(value, key)


def _reason(error: Exception, operation: Operation) -> str:
    if isinstance(operation, Transform):
        return f"the function raised {type(error).__name__}: {describe_exception(error)}"
    if isinstance(error, KeyError):
        return "there is no such key."
    if isinstance(error, IndexError):
        return "there is no such index."
    return f"{describe_exception(error)}."


def _describe_slice(key: slice) -> str:
    bounds = ["" if bound is None else repr(bound) for bound in (key.start, key.stop)]
    return ":".join(bounds) + ("" if key.step is None else f":{key.step!r}")


class Inputs:
    """`inputs.name`: a reference to an input of the reactor that is being declared."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Reference:
        if name.startswith("_"):
            raise AttributeError(name)
        return Reference(InputRoot(name))

    def __repr__(self) -> str:
        return "inputs"


inputs = Inputs()
element = Reference(ElementRoot())
index = Reference(IndexRoot())
