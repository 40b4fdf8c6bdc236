"""Which classes may be rebuilt from the journal, and under which names."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar, overload

from calandria import results
from calandria.codec.annotations import classes_in
from calandria.codec.containers import CONTAINER_REDUCERS
from calandria.codec.refusal import Refusal, class_name, explain
from calandria.codec.scalars import SCALAR_REDUCERS
from calandria.codec.shapes import HookShape, Shape, shape_of
from calandria.errors import DefinitionError

C = TypeVar("C")

_RESULTS = (
    results.Success,
    results.Skipped,
    results.Halt,
    results.Failure,
    results.Paused,
    results.Dispatched,
    results.RollbackFailure,
)


@dataclass(frozen=True)
class KnownClass:
    """A class that may be rebuilt, the name it is recorded under, and how it is done."""

    cls: type
    name: str
    shape: Shape


class TypeRegistry:
    """The classes that recorded values may become again; safe to use from many threads.

    A class is known under `module:qualname`, or under a name of its own that survives a move. Two
    classes may claim one name (a class local to a function, defined at each call): the one that
    came last has it, and a value recorded from the other comes back as an instance of that one.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_class: dict[type, KnownClass] = {}
        self._by_name: dict[str, KnownClass] = {}
        for cls in _RESULTS:
            self.register(cls, name=f"calandria:{cls.__name__}")

    @overload
    def register(
        self,
        cls: type[C],
        *,
        name: str | None = None,
        encode: Callable[[C], object] | None = None,
        decode: Callable[[Any], C] | None = None,
    ) -> type[C]: ...

    @overload
    def register(
        self,
        cls: None = None,
        *,
        name: str | None = None,
        encode: Callable[[Any], object] | None = None,
        decode: Callable[[Any], object] | None = None,
    ) -> Callable[[type[C]], type[C]]: ...

    def register(
        self,
        cls: type[C] | None = None,
        *,
        name: str | None = None,
        encode: Callable[[Any], object] | None = None,
        decode: Callable[[Any], Any] | None = None,
    ) -> type[C] | Callable[[type[C]], type[C]]:
        """Let values of `cls` be recorded and rebuilt; also usable as a decorator.

        Args:
            cls: a dataclass, pydantic model, enumeration or named tuple; with `encode` and
                `decode`, any class of yours. Its subclasses are not included.
            name: what it is recorded under instead of `module:qualname`. Registered under several
                names in turn, a class is recorded under the last and read under all of them.
            encode: turns an instance into a value that can be recorded.
            decode: turns such a value into an instance again.

        Returns `cls`. Raises `DefinitionError` for a class that cannot be recorded this way, for
        one of `encode` and `decode` without the other, and for a name that is not ASCII text.
        """
        if cls is None:
            return lambda decorated: self.register(
                decorated, name=name, encode=encode, decode=decode
            )
        shape = self._shape_for(cls, encode, decode)
        if name is not None and (not name or not name.isascii()):
            raise DefinitionError(
                f"register({cls.__name__}, name={name!r}): give a name of ASCII characters."
            )
        self._add(cls, name or _default_name(cls), shape)
        return cls

    def learn(self, annotation: object, *, namespace: Mapping[str, object] | None = None) -> None:
        """Register every class that `annotation` reaches and that can be recorded.

        Goes through generics, unions, `Annotated`, the fields of what it finds, and forward
        references; one that cannot be resolved is passed over. Classes already known stay as they
        are.

        Args:
            annotation: a type, or any annotation.
            namespace: names that forward references may mean besides those of their module.
        """
        for cls in classes_in(annotation, namespace or {}):
            if cls not in self._by_class:
                # one that cannot be rebuilt may never be recorded; if it is, that is refused
                with suppress(Refusal):
                    self.adopt(cls)

    def name_of(self, cls: type) -> str | None:
        """Return the name `cls` is recorded under, or `None` if it is not known."""
        known = self._by_class.get(cls)
        return known.name if known else None

    def lookup(self, name: str) -> type | None:
        """Return the class recorded under `name`, or `None` if none is known. Never imports."""
        known = self._by_name.get(name)
        return known.cls if known else None

    def known_class(self, cls: type) -> KnownClass | None:
        """Return what is known of `cls`, or `None`."""
        return self._by_class.get(cls)

    def known_name(self, name: str) -> KnownClass | None:
        """Return what is known under `name`, or `None`."""
        return self._by_name.get(name)

    def adopt(self, cls: type) -> KnownClass:
        """Register a class met in a value under its usual name.

        Raises `Refusal` if it is no dataclass, model, enumeration or named tuple.
        """
        shape = shape_of(cls)
        if shape is None:
            raise Refusal(explain(cls))
        return self._add(cls, _default_name(cls), shape)

    def _shape_for(
        self,
        cls: type,
        encode: Callable[[Any], object] | None,
        decode: Callable[[Any], Any] | None,
    ) -> Shape:
        if cls in SCALAR_REDUCERS or cls in CONTAINER_REDUCERS:
            raise DefinitionError(
                f"register({cls.__name__}): values of {class_name(cls)} are recorded as they are; "
                "there is nothing to register."
            )
        if encode is not None and decode is not None:
            return HookShape(cls, encode, decode)
        if encode is not None or decode is not None:
            raise DefinitionError(
                f"register({cls.__name__}): give both encode and decode, or neither."
            )
        try:
            shape = shape_of(cls)
        except Refusal as refusal:
            raise DefinitionError(f"register({cls.__name__}): {refusal.reason}") from None
        if shape is None:
            raise DefinitionError(
                f"register({cls.__name__}): {class_name(cls)} is not a dataclass, pydantic model, "
                "enumeration or named tuple: give encode=... and decode=..."
            )
        return shape

    def _add(self, cls: type, name: str, shape: Shape) -> KnownClass:
        known = KnownClass(cls, name, shape)
        with self._lock:
            before = self._by_name.get(name)
            # one that is displaced is forgotten, so that its next value claims the name again
            if before is not None and self._by_class.get(before.cls) is before:
                del self._by_class[before.cls]
            self._by_class[cls] = known
            self._by_name[name] = known
        return known


def _default_name(cls: type) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"
