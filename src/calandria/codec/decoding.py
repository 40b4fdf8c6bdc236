"""From forms to values, without importing and without running code from what was stored."""

from __future__ import annotations

from collections.abc import Callable

from calandria.codec.containers import CONTAINER_REBUILDERS, rebuild_items
from calandria.codec.fields import Unfit
from calandria.codec.format import MARK, Form, mapping_at, text_at, texts_at
from calandria.codec.records import Record
from calandria.codec.registry import TypeRegistry
from calandria.codec.scalars import SCALAR_REBUILDERS
from calandria.errors import DecodingError
from calandria.results import RecordedFailure

_REBUILDERS = {**SCALAR_REBUILDERS, **CONTAINER_REBUILDERS}


class Rebuilder:
    """Turns one form into its value; good for one use."""

    def __init__(self, registry: TypeRegistry) -> None:
        self._registry = registry
        self._made: dict[int, object] = {}

    def rebuild(self, form: Form) -> object:
        """Return the value of `form`; raises `DecodingError` if it is damaged."""
        if isinstance(form, list):
            return rebuild_items(form, self)
        if not isinstance(form, dict):
            return form
        if MARK not in form:
            return {key: self.rebuild(item) for key, item in form.items()}
        tag = text_at(form, MARK)
        rebuild = _REBUILDERS.get(tag)
        if rebuild is not None:
            return rebuild(form, self)
        if tag == "exception":
            return self._failure(form)
        if tag in _FIELDS_OF:
            return self._instance(form, tag)
        raise DecodingError(
            f"A recorded value has the unknown tag {tag!r}: it is damaged, or was recorded by a "
            "newer version of Calandria; upgrade."
        )

    def _instance(self, form: dict[str, Form], tag: str) -> object:
        # an instance that no longer fits is read twice; nested ones would double at each level
        if id(form) not in self._made:
            self._made[id(form)] = self._make(form, tag)
        return self._made[id(form)]

    def _make(self, form: dict[str, Form], tag: str) -> object:
        name = text_at(form, "c")
        known = self._registry.known_name(name)
        if known is not None and known.shape.tag == tag:
            try:
                return known.shape.rebuild(form, self)
            except Unfit:
                pass
        return Record(name, _FIELDS_OF[tag](form, self), form)

    def _failure(self, form: dict[str, Form]) -> RecordedFailure:
        message, original = self.rebuild(form.get("v")), form.get("c")
        if not isinstance(message, str) or not (original is None or isinstance(original, str)):
            raise DecodingError("A recorded exception is damaged: message and class are not text.")
        return RecordedFailure(message, original)


def _named_fields(form: dict[str, Form], inner: Rebuilder) -> dict[str, object]:
    fields: dict[str, object] = {}
    for key in ("p", "e", "x", "v"):
        if form.get(key) is not None:
            found = mapping_at(form, key)
            fields.update({name: inner.rebuild(item) for name, item in found.items()})
    return fields


def _member_name(form: dict[str, Form], inner: Rebuilder) -> dict[str, object]:
    return {"name": text_at(form, "v")}


def _member_names(form: dict[str, Form], inner: Rebuilder) -> dict[str, object]:
    return {"names": texts_at(form, "v"), "rest": inner.rebuild(form.get("r", 0))}


def _encoded_value(form: dict[str, Form], inner: Rebuilder) -> dict[str, object]:
    return {"value": inner.rebuild(form.get("v"))}


_FIELDS_OF: dict[str, Callable[[dict[str, Form], Rebuilder], dict[str, object]]] = {
    "dataclass": _named_fields,
    "model": _named_fields,
    "namedtuple": _named_fields,
    "enum": _member_name,
    "flag": _member_names,
    "custom": _encoded_value,
}
