"""How pydantic models are taken apart and put together."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from calandria.codec.containers import reduce_attributes
from calandria.codec.fields import (
    Default,
    InstanceState,
    field_defaults,
    fill,
    from_field,
    optional_mapping,
    rebuild_attributes,
)
from calandria.codec.format import Form, Rebuilds, Reduces, mapping_at, texts_at


class ModelShape:
    """A pydantic model: fields, which of them were set, extra and private attributes."""

    tag = "model"

    def __init__(self, cls: type[BaseModel]) -> None:
        self._cls = cls
        self._state = InstanceState(cls, hidden=BaseModel.__slots__)
        self._names = tuple(cls.model_fields)
        self._defaults = field_defaults(cls.model_fields)

    def reduce(self, value: Any, inner: Reduces) -> dict[str, Form]:
        """Return the fields and everything pydantic keeps beside them."""
        state = self._state.read(value)
        fields = {name: state.pop(name) for name in self._names if name in state}
        form: dict[str, Form] = {"v": reduce_attributes(fields, inner)}
        if len(fields) < len(self._names):
            form["u"] = [name for name in self._names if name not in fields]
        set_names: set[str] = value.__pydantic_fields_set__
        if set_names != fields.keys():
            form["s"] = [*sorted(set_names)]
        if (extra := getattr(value, "__pydantic_extra__", None)) is not None:
            form["e"] = reduce_attributes(extra, inner)
        if self._cls.__private_attributes__:
            private = getattr(value, "__pydantic_private__", None)
            form["p"] = None if private is None else reduce_attributes(private, inner)
        if state:
            form["x"] = reduce_attributes(state, inner)
        return form

    def rebuild(self, form: dict[str, Form], inner: Rebuilds) -> object:
        """Return a model, not validated; new fields get their defaults and count as not set."""
        recorded = rebuild_attributes(mapping_at(form, "v"), inner)
        set_names = set(texts_at(form, "s") if "s" in form else recorded)
        others = rebuild_attributes(optional_mapping(form, "x"), inner)
        model = object.__new__(self._cls)
        unset = texts_at(form, "u") if "u" in form else []
        names = tuple(name for name in self._names if name in recorded or name not in unset)
        fields = fill(recorded, names, self._defaults)
        object.__setattr__(model, "__dict__", fields)
        self._state.write(model, others)
        extra = self._extra(form, inner)
        known = set_names & {*self._names, *(extra or {})}
        object.__setattr__(model, "__pydantic_fields_set__", known)
        # a root model has neither, and would take them for attributes of its own
        if not self._cls.__pydantic_root_model__:
            object.__setattr__(model, "__pydantic_extra__", extra)
            object.__setattr__(model, "__pydantic_private__", self._private(form, inner))
        return model

    def _extra(self, form: dict[str, Form], inner: Rebuilds) -> dict[str, object] | None:
        if self._cls.model_config.get("extra") != "allow":
            return None
        return rebuild_attributes(optional_mapping(form, "e"), inner)

    def _private(self, form: dict[str, Form], inner: Rebuilds) -> dict[str, object] | None:
        declared = self._cls.__private_attributes__
        if not declared or ("p" in form and form["p"] is None):
            return None
        recorded = rebuild_attributes(optional_mapping(form, "p"), inner)
        defaults: dict[str, Default] = {
            name: from_field(attribute)
            for name, attribute in declared.items()
            if attribute.default is not PydanticUndefined or attribute.default_factory
        }
        known = tuple(name for name in declared if name in recorded or name in defaults)
        return fill(recorded, known, defaults)
