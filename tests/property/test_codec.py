"""Whatever can be recorded comes back the same; whatever text is read, nothing else happens."""

from __future__ import annotations

import contextlib
import json
import sys
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta, timezone
from decimal import Decimal
from enum import Enum, Flag, IntEnum
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict

from calandria.codec import JsonCodec, Record, TypeRegistry, is_immutable
from calandria.codec.decoding import _REBUILDERS as REBUILDERS
from calandria.errors import DecodingError, EncodingError
from tests.unit.codec.sameness import same


@dataclass
class Line:
    first: Any
    second: Any = None


@dataclass(frozen=True, slots=True)
class Point:
    x: Any
    y: Any


class Model(BaseModel):
    model_config = ConfigDict(extra="allow")

    held: Any
    other: Any = None


class Pair(NamedTuple):
    left: Any
    right: Any


class Colour(Enum):
    RED = 1
    BLUE = "1"


class Level(IntEnum):
    ONE = 1


class Access(Flag):
    READ = 1
    WRITE = 2
    EXECUTE = 4


class Str(str):
    pass


class Opaque:
    pass


characters = st.characters(exclude_categories=())
texts = st.text(characters, max_size=20) | st.sampled_from(["$", "v", "\ud800\udc00", "c"])
zones = st.none() | st.sampled_from([ZoneInfo("Europe/Paris"), ZoneInfo("UTC")]) | st.builds(
    timezone,
    st.timedeltas(timedelta(hours=-23), timedelta(hours=23)),
    st.text(characters, min_size=1, max_size=5),
) | st.builds(timezone, st.timedeltas(timedelta(hours=-23), timedelta(hours=23)))  # fmt: skip
# a few, like `//://`, mean something else once written, and are refused
windows_paths = (
    st.text('ab:\\/. "', max_size=8)
    .map(PureWindowsPath)
    .filter(lambda path: PureWindowsPath(str(path)).parts == path.parts)
)
posix_paths = st.text("ab/. \udcff", max_size=8).map(PurePosixPath)

_scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(2**2040, 2**2056),
    st.floats(),
    texts,
    st.binary(max_size=20),
    st.complex_numbers(),
    # a signalling one has no hash
    st.decimals().map(lambda number: Decimal("NaN") if number.is_snan() else number),
    st.builds(lambda d: Decimal((d[0], d[1], d[2])), st.tuples(
        st.sampled_from([0, 1]), st.lists(st.integers(0, 9), max_size=50).map(tuple),
        st.integers(-9999, 9999),
    )),
    st.uuids(),
    st.dates(),
    st.datetimes(timezones=zones, allow_imaginary=True),
    st.builds(lambda at, fold, zone: at.replace(fold=fold, tzinfo=zone),
              st.times(), st.sampled_from([0, 1]), zones),
    st.builds(lambda at, fold, zone: at.replace(fold=fold, tzinfo=zone),
              st.datetimes(), st.sampled_from([0, 1]), zones),
    st.timedeltas(),
    posix_paths,
    windows_paths,
    st.builds(range, st.integers(), st.integers(), st.integers(1, 5)),
    st.sampled_from([*Colour, *Level, *(Access(bits) for bits in range(8))]),
)  # fmt: skip


@st.composite
def scalars(draw: st.DrawFn) -> object:
    return draw(_scalars)


_hashables = st.recursive(
    scalars(),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(tuple),
        st.frozensets(inner, max_size=3),
        st.builds(Point, inner, inner),
        st.builds(Pair, inner, inner),
    ),
    max_leaves=6,
)


@st.composite
def hashables(draw: st.DrawFn) -> object:
    return draw(_hashables)


def containers_of(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    dicts = st.dictionaries(hashables(), inner, max_size=4)
    return st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(texts, inner, max_size=4),
        dicts,
        dicts.map(OrderedDict),
        st.dictionaries(hashables(), st.integers(), max_size=3).map(Counter),
        st.sets(hashables(), max_size=4),
        st.builds(deque, st.lists(inner, max_size=3), st.none() | st.integers(3, 5)),
        st.binary(max_size=5).map(bytearray),
        st.builds(Line, inner, inner),
        st.builds(Pair, inner, inner),
        st.builds(lambda held, extra: Model.model_construct(held=held, extra=extra), inner, inner),
        st.builds(lambda held: Model.model_construct(held=held), inner),
    )


_values = st.recursive(hashables(), containers_of, max_leaves=10)


@st.composite
def values(draw: st.DrawFn) -> object:
    return draw(_values)


@given(values())
def test_a_value_comes_back_the_same(value: object) -> None:
    codec = JsonCodec(TypeRegistry())

    text = codec.encode(value)
    back = codec.decode(text)

    assert text.isascii()
    json.loads(text, parse_constant=pytest.fail)
    assert same(back, value)
    assert codec.encode(back) == text


@given(values())
def test_a_stranger_reads_it_and_writes_the_same_text(value: object) -> None:
    text = JsonCodec(TypeRegistry()).encode(value)
    stranger = JsonCodec(TypeRegistry())

    assert stranger.encode(stranger.decode(text)) == text


@given(values(), st.sampled_from([Opaque(), Str("a"), lambda: 1]))
def test_one_bad_part_is_refused_wherever_it_hides(value: object, bad: object) -> None:
    hiding: list[Callable[[], object]] = [
        lambda: [value, bad],
        lambda: {"a": value, "b": (bad,)},
        lambda: {"$": Line(value, bad)},
        lambda: Model.model_construct(held=value, extra=bad),
    ]
    for hide in hiding:
        with pytest.raises(EncodingError) as caught:
            JsonCodec(TypeRegistry()).encode(hide())
        assert caught.value.path


@given(values())
def test_what_counts_as_immutable_is_hashable_and_holds_nothing_mutable(value: object) -> None:
    if is_immutable(value):
        hash(value)
        assert not isinstance(value, (list, dict, set, bytearray, deque, Line, Model))


tags = [*REBUILDERS, "dataclass", "model", "namedtuple", "enum", "flag", "exception", "custom"]
keys = st.sampled_from(
    ["v", "c", "x", "u", "s", "e", "p", "r", "tz", "fold", "safe", "name", "maxlen", "factory"]
)
names = st.sampled_from(["calandria:Failure", "calandria:Halt", "wave:Wave_read", "os:system"])


def forms_of(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    tagged = st.builds(
        lambda tag, name, rest: {"$": tag, "c": name, **rest},
        st.sampled_from(tags),
        names,
        st.dictionaries(keys, inner, max_size=4),
    )
    return tagged | st.lists(inner, max_size=3) | st.dictionaries(texts | keys, inner, max_size=3)


forms = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts | names, forms_of, max_leaves=12
)


def read_and_compare_modules(text: str) -> None:
    before = set(sys.modules)
    with contextlib.suppress(DecodingError):
        JsonCodec(TypeRegistry()).decode(text)
    assert set(sys.modules) == before


@given(st.text(characters))
def test_any_text_is_read_or_is_a_decoding_error(text: str) -> None:
    read_and_compare_modules(text)


@given(forms)
@example({"$": "set", "v": [{"$": "dataclass", "c": "calandria:Failure", "v": {"error": 1}}]})
def test_any_form_is_read_or_is_a_decoding_error(form: object) -> None:
    read_and_compare_modules(json.dumps(form))


@given(values(), st.data())
def test_a_damaged_record_is_read_or_is_a_decoding_error(value: object, data: Any) -> None:
    text = JsonCodec(TypeRegistry()).encode(value)
    place = data.draw(st.integers(0, len(text) - 1))
    length = data.draw(st.integers(0, 3))
    put = data.draw(st.text('[]{}",:$vc01.e-ntu\\', max_size=3))

    read_and_compare_modules(text[:place] + put + text[place + length :])


@given(st.text(min_size=1), st.dictionaries(texts, values(), max_size=4))
def test_the_fields_of_an_unknown_class_can_be_read(name: str, fields: dict[str, object]) -> None:
    codec = JsonCodec(TypeRegistry())
    stored = {key: json.loads(codec.encode(item)) for key, item in fields.items()}
    # a name in which surrogates touch would be read as one character, and is never recorded
    stored = json.loads(json.dumps(stored))

    record = codec.decode(json.dumps({"$": "dataclass", "c": name, "v": stored}))

    assert isinstance(record, Record)
    assert record.type_name == name
    assert list(record) == list(stored)
