"""References: how they are written, resolved, and kept from being used as values."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calandria.definition.references import (
    Computed,
    Literal,
    Reference,
    StepRoot,
    element,
    index,
    inputs,
    resolve,
)
from calandria.definition.step_function import step
from calandria.errors import UnresolvedReference
from tests.unit.definition.contexts import FixedScope


@dataclass
class Money:
    amount: int

    @property
    def doubled(self) -> int:
        return 2 * self.amount


Pair = namedtuple("Pair", "left right")


class Row:
    """Answers to names without being a mapping, like the rows of a database driver."""

    keys = ("id",)

    def __getitem__(self, key: str) -> int:
        if key != "id":
            raise IndexError("no such column")
        return 7


ORDER: dict[Any, Any] = {
    "id": "o1",
    "lines": [{"sku": "a"}, {"sku": "b"}],
    "money": Money(3),
    "pair": Pair(1, 2),
    "row": Row(),
    "items": "shadowed by no method",
    3: "three",
}
SCOPE = FixedScope({"order": ORDER}, {"charge": Money(9)}, element={"sku": "e"}, index=4)
CHARGE = Reference(StepRoot("charge"))


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (inputs.order["id"], "o1"),
        (inputs.order[3], "three"),
        (inputs.order["items"], "shadowed by no method"),
        (inputs.order["lines"][0]["sku"], "a"),
        (inputs.order["lines"][-1]["sku"], "b"),
        (inputs.order["lines"][1:], [{"sku": "b"}]),
        (inputs.order["lines"][::2][0]["sku"], "a"),
        (inputs.order["money"]["amount"], 3),
        (inputs.order["money"]["doubled"], 6),
        (inputs.order["pair"][1], 2),
        (inputs.order["pair"]["left"], 1),
        (inputs.order["row"]["id"], 7),
        (inputs.order["row"]["keys"], ("id",)),
        (inputs.order["id"][0], "o"),
        (inputs.order["money"].map(lambda m: m.amount + 1), 4),
        (inputs.order.map(lambda o: o["lines"])[0]["sku"], "a"),
        (CHARGE, Money(9)),
        (CHARGE["amount"], 9),
        (element["sku"], "e"),
        (index, 4),
        (index.map(str), "4"),
        (Literal([1]), [1]),
        (Computed(lambda a, b: a + b, {"a": CHARGE["amount"], "b": index}), 13),
    ],
    ids=count(),
)
def test_a_source_resolves_to_its_value(source: Any, expected: object) -> None:
    assert resolve(source, SCOPE) == expected


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (inputs.order["nope"], r"inputs\.order\['nope'\] cannot be resolved: there is no such key"),
        (inputs.order["lines"][9]["sku"], r"inputs\.order\['lines'\]\[9\] cannot .* such index"),
        (inputs.order["money"]["cents"], r"'Money' object has no attribute 'cents'"),
        (inputs.order["money"][0], r"\['money'\]\[0\] cannot be resolved: 'Money' object is not"),
        (inputs.order["money"][None], r"a Money has no part None"),
        (CHARGE.map(lambda m: m.amount / 0), r"charge\.map\(.*ZeroDivisionError: division by"),
        (Computed(lambda: 1 / 0, {}), r"raised ZeroDivisionError"),
    ],
    ids=count(),
)
def test_what_cannot_be_resolved_is_named(source: Any, message: str) -> None:
    with pytest.raises(UnresolvedReference, match=message) as caught:
        resolve(source, SCOPE, "Checkout.ship, input 'sku'")

    assert str(caught.value).startswith("Checkout.ship, input 'sku': ")
    assert caught.value.__cause__ is not None


USES: dict[str, Callable[[Any], object]] = {
    "if": lambda r: 1 if r else 2,
    "not": lambda r: not r,
    "and": lambda r: r and 1,
    "for": lambda r: list(r),
    "unpacking": lambda r: [*r],
    "len": lambda r: len(r),
    "in": lambda r: 1 in r,
    "==": lambda r: r == 1,
    "!=": lambda r: r != 1,
    "<": lambda r: r < 1,
    ">=": lambda r: r >= 1,
    "str": lambda r: str(r),
    "f-string": lambda r: f"{r}",
    "f-string with a format": lambda r: f"{r:>10}",
    "format": lambda r: "{}".format(r),  # noqa: UP032
    "percent": lambda r: "%s" % r,  # noqa: UP031
    "+": lambda r: r + 1,
    "1 +": lambda r: 1 + r,
    "*": lambda r: r * 2,
    "-": lambda r: -r,
    "|": lambda r: r | 1,
    "int": lambda r: int(r),
    "float": lambda r: float(r),
    "index": lambda r: [1, 2][r],
    "round": lambda r: round(r),
    "join": lambda r: ",".join(r),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize(
    "make",
    [lambda: inputs.total, lambda: element["x"], lambda: step(print)],
    ids=["input", "element", "node"],
)
def test_use_as_a_value_is_refused(make: Callable[[], object], use: str) -> None:
    with pytest.raises(TypeError, match=r"\.map\(lambda|can only join an iterable"):
        USES[use](make())


def test_references_can_be_hashed_and_shown() -> None:
    reference = inputs.order["lines"][0]

    assert reference in {reference}
    assert repr(reference) == "<Reference inputs.order['lines'][0]>"
    assert repr(inputs.order[1:2]) == "<Reference inputs.order[1:2]>"


def test_references_cannot_be_changed() -> None:
    with pytest.raises(AttributeError, match="cannot be changed"):
        inputs.order.root = None  # type: ignore[assignment]


def test_an_attribute_of_a_reference_says_how_to_write_it() -> None:
    with pytest.raises(AttributeError, match=r"Write inputs\.order\['total'\]"):
        _ = inputs.order.total  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=r"Write \['total'\]"):
        _ = step(print).total  # type: ignore[attr-defined]


def test_map_needs_a_function() -> None:
    with pytest.raises(TypeError, match="give a plain function"):
        inputs.order.map(3)  # type: ignore[arg-type]


def test_map_refuses_a_coroutine_function() -> None:
    async def fetch(value: object) -> object:
        return value

    with pytest.raises(TypeError, match="async or waits belongs into a step"):
        inputs.order.map(fetch)


VALUES = st.recursive(
    st.integers(),
    lambda inner: st.lists(inner, min_size=1) | st.dictionaries(st.text(), inner, min_size=1),
    max_leaves=20,
)


@given(VALUES, st.data())
def test_any_path_into_plain_data_leads_to_what_python_finds(value: Any, data: Any) -> None:
    reference, expected = inputs.value, value
    while isinstance(expected, (list, dict)):
        keys = range(-len(expected), len(expected)) if isinstance(expected, list) else expected
        key = data.draw(st.sampled_from(list(keys)))
        reference, expected = reference[key], expected[key]

    assert resolve(reference, FixedScope({"value": value})) == expected


def test_a_namespace_is_read_by_attribute() -> None:
    scope = FixedScope({"order": SimpleNamespace(total=5)})

    assert resolve(inputs.order["total"], scope) == 5
