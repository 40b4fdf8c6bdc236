"""Values that hold values: lists, dicts, tuples, sets and their kin in `collections`."""

from __future__ import annotations

import json
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from calandria.codec.format import MARK, Form, Rebuilds, Reduces, list_at
from calandria.codec.refusal import Refusal, class_name, describe, item_segment
from calandria.codec.scalars import is_plain_text
from calandria.errors import DecodingError

_FACTORIES: dict[str, type] = {
    cls.__name__: cls for cls in (list, dict, set, tuple, frozenset, int, float, complex, str, bool)
}


def reduce_items(values: Iterable[object], inner: Reduces) -> list[Form]:
    """Return the forms of `values`; a refusal is marked with the index."""
    forms: list[Form] = []
    try:
        for value in values:
            forms.append(inner.reduce(value))
    except Refusal as refusal:
        refusal.segments.append(f"[{len(forms)}]")
        raise
    return forms


def reduce_attributes(attributes: Mapping[str, object], inner: Reduces) -> dict[str, Form]:
    """Return the forms of named values, by name; a refusal is marked with the name."""
    forms: dict[str, Form] = {}
    for name, value in attributes.items():
        try:
            if type(name) is not str or not is_plain_text(name):
                raise Refusal(
                    f"an attribute cannot be recorded under the name {name!r}: use a dict."
                )
            forms[name] = inner.reduce(value)
        except Refusal as refusal:
            refusal.segments.append(f".{name}")
            raise
    return forms


def _reduce_list(value: list[object], inner: Reduces) -> Form:
    return reduce_items(value, inner)


def _reduce_tuple(value: tuple[object, ...], inner: Reduces) -> Form:
    return {MARK: "tuple", "v": reduce_items(value, inner)}


def _reduce_set(value: set[object] | frozenset[object], inner: Reduces) -> Form:
    forms: list[Form] = []
    for element in list(value):
        try:
            forms.append(inner.reduce(element))
        except Refusal as refusal:
            refusal.segments.append(f"<element {describe(element)}>")
            raise
    # by text: the order of a set differs from process to process, the record should not
    return {MARK: type(value).__name__, "v": sorted(forms, key=json.dumps)}


def _reduce_deque(value: deque[object], inner: Reduces) -> Form:
    form: dict[str, Form] = {MARK: "deque", "v": reduce_items(list(value), inner)}
    if value.maxlen is not None:
        form["maxlen"] = value.maxlen
    return form


def _is_plain_key(key: object) -> bool:
    return type(key) is str and key != MARK and is_plain_text(key)


def _reduce_dict(value: dict[object, object], inner: Reduces) -> Form:
    # a copy, so that another thread's write cannot break the loop
    value = value.copy()
    if not all(map(_is_plain_key, value)):
        return {MARK: "dict", "v": _reduce_pairs(value, inner)}
    forms: dict[str, Form] = {}
    for key, item in value.items():
        try:
            forms[str(key)] = inner.reduce(item)
        except Refusal as refusal:
            refusal.segments.append(item_segment(key))
            raise
    return forms


def _reduce_pairs(value: Mapping[Any, object], inner: Reduces) -> list[Form]:
    pairs: list[Form] = []
    for key, item in list(value.items()):
        try:
            reduced_key = inner.reduce(key)
        except Refusal as refusal:
            refusal.segments.append(f"<key {describe(key)}>")
            raise
        try:
            pairs.append([reduced_key, inner.reduce(item)])
        except Refusal as refusal:
            refusal.segments.append(item_segment(key))
            raise
    return pairs


def _reduce_special_dict(value: OrderedDict[Any, Any] | Counter[Any], inner: Reduces) -> Form:
    if vars(value):
        raise Refusal(f"a {class_name(type(value))} with attributes of its own: use a dataclass.")
    return {MARK: type(value).__name__.lower(), "v": _reduce_pairs(value, inner)}


def _reduce_defaultdict(value: defaultdict[object, object], inner: Reduces) -> Form:
    form: dict[str, Form] = {MARK: "defaultdict", "v": _reduce_pairs(value, inner), "factory": None}
    factory = value.default_factory
    if factory is not None:
        name = getattr(factory, "__name__", "")
        if _FACTORIES.get(name) is not factory:
            raise Refusal(
                f"a defaultdict that calls {describe(factory)} for missing keys holds code: "
                "return dict(value)."
            )
        form["factory"] = name
    return form


def rebuild_items(forms: list[Form], inner: Rebuilds) -> list[object]:
    """Return the values of `forms`."""
    return [inner.rebuild(form) for form in forms]


def _rebuild_tuple(form: dict[str, Form], inner: Rebuilds) -> tuple[object, ...]:
    return tuple(rebuild_items(list_at(form, "v"), inner))


def _distinct(form: dict[str, Form], inner: Rebuilds) -> frozenset[object]:
    elements = rebuild_items(list_at(form, "v"), inner)
    distinct = frozenset(elements)
    if len(distinct) != len(elements):
        raise DecodingError(f"Two elements of a recorded {form[MARK]} are equal now.")
    return distinct


def _rebuild_set(form: dict[str, Form], inner: Rebuilds) -> set[object]:
    return set(_distinct(form, inner))


def _rebuild_deque(form: dict[str, Form], inner: Rebuilds) -> deque[object]:
    maxlen = form.get("maxlen")
    if maxlen is not None and not isinstance(maxlen, int):
        raise DecodingError("A recorded deque is damaged: its maxlen is not a whole number.")
    return deque(rebuild_items(list_at(form, "v"), inner), maxlen)


def _rebuild_pairs(form: dict[str, Form], inner: Rebuilds) -> dict[object, Any]:
    pairs = list_at(form, "v")
    values: dict[object, Any] = {}
    for pair in pairs:
        if not isinstance(pair, list) or len(pair) != 2:
            raise DecodingError(f"A recorded {form[MARK]} is damaged: {pair!r} is not a pair.")
        values[inner.rebuild(pair[0])] = inner.rebuild(pair[1])
    if len(values) != len(pairs):
        raise DecodingError(f"Two keys of a recorded {form[MARK]} are equal now.")
    return values


def _rebuild_ordered(form: dict[str, Form], inner: Rebuilds) -> OrderedDict[object, object]:
    return OrderedDict(_rebuild_pairs(form, inner))


def _rebuild_counter(form: dict[str, Form], inner: Rebuilds) -> Counter[object]:
    return Counter(_rebuild_pairs(form, inner))


def _rebuild_defaultdict(form: dict[str, Form], inner: Rebuilds) -> defaultdict[object, object]:
    name = form.get("factory")
    if name is not None and name not in _FACTORIES:
        raise DecodingError(f"A recorded defaultdict is damaged: no factory is called {name!r}.")
    factory = None if name is None else _FACTORIES[str(name)]
    return defaultdict(factory, _rebuild_pairs(form, inner))


CONTAINER_REDUCERS: dict[type, Callable[[Any, Reduces], Form]] = {
    list: _reduce_list,
    dict: _reduce_dict,
    tuple: _reduce_tuple,
    set: _reduce_set,
    frozenset: _reduce_set,
    deque: _reduce_deque,
    OrderedDict: _reduce_special_dict,
    Counter: _reduce_special_dict,
    defaultdict: _reduce_defaultdict,
}

CONTAINER_REBUILDERS: dict[str, Callable[[dict[str, Form], Rebuilds], object]] = {
    "dict": _rebuild_pairs,
    "tuple": _rebuild_tuple,
    "set": _rebuild_set,
    "frozenset": _distinct,
    "deque": _rebuild_deque,
    "ordereddict": _rebuild_ordered,
    "counter": _rebuild_counter,
    "defaultdict": _rebuild_defaultdict,
}
