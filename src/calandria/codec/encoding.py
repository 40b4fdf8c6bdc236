"""From values to forms."""

from __future__ import annotations

from calandria.codec.containers import CONTAINER_REDUCERS
from calandria.codec.format import MARK, MAX_DEPTH, Form, depth_of
from calandria.codec.records import Record, form_of
from calandria.codec.refusal import Refusal, class_name
from calandria.codec.registry import TypeRegistry
from calandria.codec.scalars import SCALAR_REDUCERS
from calandria.results import RecordedFailure, describe_exception


class Reducer:
    """Turns one value into its form; good for one use."""

    def __init__(self, registry: TypeRegistry) -> None:
        self._registry = registry
        self._open: set[int] = set()

    def reduce(self, value: object) -> Form:
        """Return the form of `value`; raises `Refusal`."""
        cls = type(value)
        reduce_scalar = SCALAR_REDUCERS.get(cls)
        if reduce_scalar is not None:
            return reduce_scalar(value, self)
        identity = id(value)
        if identity in self._open:
            raise Refusal(f"this {class_name(cls)} contains itself: leave out the way back.")
        if len(self._open) >= MAX_DEPTH:
            raise _too_deep()
        self._open.add(identity)
        reduce_container = CONTAINER_REDUCERS.get(cls)
        form = reduce_container(value, self) if reduce_container else self._instance(value, cls)
        self._open.discard(identity)
        return form

    def _instance(self, value: object, cls: type) -> Form:
        if isinstance(value, Record):
            return self._record(value)
        known = self._registry.known_class(cls)
        if known is None:
            if isinstance(value, BaseException):
                return self._exception(value)
            known = self._registry.adopt(cls)
        return {MARK: known.shape.tag, "c": known.name, **known.shape.reduce(value, self)}

    def _record(self, value: Record) -> Form:
        form = form_of(value)
        # it may stand deeper now than where it was read; in its old place it always fits
        if 3 * (len(self._open) - 1) + depth_of(form) > 3 * MAX_DEPTH:
            raise _too_deep()
        return form

    def _exception(self, value: BaseException) -> Form:
        if isinstance(value, RecordedFailure):
            return {MARK: "exception", "c": value.original_class, "v": self.reduce(str(value))}
        message = self.reduce(str(describe_exception(value)))
        return {MARK: "exception", "c": type(value).__qualname__, "v": message}


def _too_deep() -> Refusal:
    return Refusal(f"it is nested more than {MAX_DEPTH} levels deep: make it flatter.")
