"""Every wrong definition is refused when the class is created, naming reactor, step and fix."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from calandria.definition.nodes import compose, map_each
from calandria.definition.reactors import Reactor
from calandria.definition.references import element, index, inputs
from calandria.definition.step_function import step
from calandria.definition.steps import Step
from calandria.errors import DefinitionError
from calandria.plan.policies import Retry


@dataclass
class Receipt:
    total: int


class Price(Step):
    amount: int
    currency: str = "EUR"

    def run(self) -> Receipt:
        return Receipt(self.amount)


class Note(Step):
    text: str

    def run(self) -> None: ...


class Unfinished(Step):
    amount: int


class Child(Reactor):
    amount: int

    price = step(Price)


class Other(Reactor):
    amount: int

    price = step(Price)


def total(*, amount: int) -> int:
    return amount


def needs_unknown(*, nothing: int) -> int:
    return nothing


def unnamed() -> dict[str, Any]:
    hidden = step(Price)
    return {"note": step(Note, text=hidden.map(str))}


def two_names() -> dict[str, Any]:
    price = step(Price)
    return {"price": price, "again": price}


def circle() -> dict[str, Any]:
    first, second, third = step(Price), step(Price), step(Price)
    second.after(first)
    third.after(second)
    first.after(third)
    return {"first": first, "second": second, "third": third}


def itself() -> dict[str, Any]:
    price = step(Price)
    return {"price": price.after(price)}


def own_result() -> dict[str, Any]:
    def price(*, price: int) -> int:
        return price

    return {"price": step(price)}


async def always(**_: object) -> bool:
    return True


def unreadable() -> bool:
    return True


unreadable.__signature__ = "none"  # type: ignore[attr-defined]


async def fetched() -> list[int]:
    return []


def reserved_alias() -> dict[str, Any]:
    price = step(total)

    def undo(*, result: int) -> None: ...

    return {"price": price, "undo": price.undo(undo)}


def by_name_circle() -> dict[str, Any]:
    def a(*, b: int) -> int:
        return b

    def b(*, a: int) -> int:
        return a

    return {"a": step(a), "b": step(b)}


WRONG: dict[str, tuple[Callable[[], dict[str, Any]], str]] = {
    "unknown input": (
        lambda: {"price": step(Price, amount=inputs.amout)},
        r"Bad\.price: inputs\.amout: the reactor has no input 'amout' \(did you mean 'amount'\?\)",
    ),
    "unknown wired field": (
        lambda: {"price": step(Price, amont=3)},
        r"Bad\.price: Price has no input 'amont' \(did you mean 'amount'\?\)\. Its inputs: amount,",
    ),
    "unwired required input": (
        lambda: {"note": step(Note)},
        r"Bad\.note: nothing is wired to the required input 'text' of Note\. Wire it: step\(Note",
    ),
    "unwired parameter": (
        lambda: {"price": step(needs_unknown)},
        r"Bad\.price: .*'nothing' of needs_unknown\. Call the parameter like an input or a step",
    ),
    "unwired element": (
        lambda: {"notes": map_each(Note, over=inputs.lines)},
        r"Bad\.notes: .*'text' of Note\. Wire the element to it: map_each\(Note, over=\.\.\., text",
    ),
    "unwired input of a nested reactor": (
        lambda: {"child": compose(Child, amount=3), "deep": compose(Deep)},
        r"Bad\.deep: nothing is wired to the required input 'depth' of Deep\. Wire it: compose\(",
    ),
    "step of another reactor": (
        lambda: {"note": step(Note, text=Other.price["x"])},
        r"Bad\.note: Other\.price is a step of another reactor\. Use compose\(Other",
    ),
    "after a step of another reactor": (
        lambda: {"price": step(Price).after(Other.price)},
        r"Bad\.price: Other\.price is a step of another reactor",
    ),
    "after something else": (
        lambda: {"price": step(Price).after("note")},  # type: ignore[arg-type]
        r"Bad\.price: 'note' is no step of this reactor: give the step itself",
    ),
    "after a part of a result": (
        lambda: {"a": (a := step(Price)), "b": step(Price).after(a["total"])},
        r"Bad\.b: .*is no step of this reactor: give the step itself",
    ),
    "used but unnamed": (unnamed, r"Bad\.note: step\(Price\) is used but has no name\. Assign it"),
    "two names": (two_names, r"Bad\.again: this step is Bad\.price already"),
    "two names, one inherited": (
        lambda: {"again": Other.price},
        r"Bad\.again: this step is Other\.price already",
    ),
    "circle": (circle, r"in a circle: first -> third -> second -> first\. Remove one"),
    "circle by name": (by_name_circle, r"in a circle: a -> b -> a"),
    "after itself": (itself, r"Bad\.price: the step uses its own result"),
    "own result": (own_result, r"Bad\.price: the step uses its own result"),
    "input and step of one name": (
        lambda: {"amount": step(Note, text="x")},
        r"Bad\.amount: a step is declared without an annotation|Bad\.amount: an input and a step",
    ),
    "reserved step name": (
        lambda: {"undo": step(Price)},
        r"Bad\.undo: the library uses this name\. Rename the step",
    ),
    "types that never match": (
        lambda: {"price": step(Price, currency=inputs.lines)},
        r"Bad\.price: inputs\.lines is list\[str\], and the input 'currency' takes str: they can n",
    ),
    "types that never match by name": (
        lambda: {"amounts": step(Amounts)},
        r"Bad\.amounts: inputs\.amount is int, and the input 'amount' takes list\[int\]",
    ),
    "types that never match along a path": (
        lambda: {"a": (a := step(Price)), "b": step(Note, text=a["total"])},
        r"Bad\.b: a\['total'\] is int, and the input 'text' takes str",
    ),
    "types of elements that never match": (
        lambda: {"m": map_each(Note, over=inputs.numbers, text=element)},
        r"Bad\.m: element is int, and the input 'text' takes str",
    ),
    "index that never matches": (
        lambda: {"m": map_each(Note, over=inputs.lines, text=index)},
        r"Bad\.m: index is int, and the input 'text' takes str",
    ),
    "result of a nested reactor that never matches": (
        lambda: {"c": (c := compose(Child)), "n": step(Note, text=c)},
        r"Bad\.n: c is Receipt, and the input 'text' takes str",
    ),
    "returns something else": (
        lambda: {"price": step(Price), "returns": "price"},
        r"Bad\.returns: 'price' is no step of this reactor\. Give a step",
    ),
    "returns an input": (
        lambda: {"price": step(Price), "returns": inputs.amount},
        r"Bad\.returns: inputs\.amount is no step of this reactor",
    ),
    "returns a foreign step": (
        lambda: {"price": step(Price), "returns": Other.price},
        r"Bad\.returns: Other\.price is a step of another reactor",
    ),
    "returns an unnamed step": (
        lambda: {"price": step(Price), "returns": step(Price)},
        r"Bad\.step\(Price\): the step has no name",
    ),
    "element outside of a map": (
        lambda: {"price": step(Price, amount=element)},
        r"Bad\.price: element exists only in the wiring of map_each",
    ),
    "index outside of a map": (
        lambda: {"price": step(Price, amount=index.map(abs))},
        r"Bad\.price: index\.map\(abs\) exists only in the wiring of map_each",
    ),
    "element as a condition": (
        lambda: {"m": map_each(Price, over=inputs.numbers, amount=element).when(element["ok"])},
        r"Bad\.m: element\['ok'\] exists only in the wiring",
    ),
    "element as the collection": (
        lambda: {"m": map_each(Price, over=element["lines"], amount=element)},
        r"Bad\.m: element\['lines'\] exists only in the wiring",
    ),
    "function condition of a map": (
        lambda: {"m": map_each(Price, over=inputs.numbers, amount=element).when(lambda i: i)},
        r"Bad\.m: the inputs of a map_each exist per element only\. Give \.when a reference",
    ),
    "map over nothing": (
        lambda: {"m": map_each(Price, amount=element)},
        r"Bad\.m: map_each needs over=",
    ),
    "map over a number": (
        lambda: {"m": map_each(Price, over=5, amount=element)},
        r"Bad\.m: over=5 cannot be iterated over",
    ),
    "map over what is no collection": (
        lambda: {"m": map_each(Price, over=inputs.amount, amount=element)},
        r"Bad\.m: over=inputs\.amount is int, which cannot be iterated over",
    ),
    "map over a result that is no collection": (
        lambda: {"a": (a := step(Price)), "m": map_each(Price, over=a, amount=element)},
        r"Bad\.m: over=a is Receipt, which cannot be iterated over",
    ),
    "map over a function of unknown things": (
        lambda: {"m": map_each(Price, over=needs_unknown, amount=element)},
        r"Bad\.m: over=needs_unknown: its parameter 'nothing' is neither an input nor a step",
    ),
    "bulk undo twice": (
        lambda: {
            "m": map_each(Price, over=inputs.numbers, amount=element)
            .undo_all(print)
            .undo_all(print)
        },
        r"Bad\.m: \.undo_all is given twice",
    ),
    "collect without a function": (
        lambda: {"m": map_each(Price, over=inputs.numbers, amount=element).collect(3)},  # type: ignore[arg-type]
        r"Bad\.m: \.collect\(3\) needs a function",
    ),
    "retry of a nested reactor": (
        lambda: {"c": compose(Child).retry(max_attempts=3)},
        r"Bad\.c: a nested reactor is never retried as a whole\. Give the retry to the steps of",
    ),
    "retry of a mapped reactor": (
        lambda: {"m": map_each(Child, over=inputs.numbers, amount=element).retry(Retry())},
        r"Bad\.m: a nested reactor is never retried as a whole",
    ),
    "retry that is none": (
        lambda: {"price": step(Price).retry(3)},  # type: ignore[call-overload]
        r"Bad\.price: retry is 3: give a Retry",
    ),
    "condition that is none": (
        lambda: {"price": step(Price).when(True)},  # type: ignore[arg-type]
        r"Bad\.price: \.when\(True\) needs a reference or a function",
    ),
    "condition of unknown inputs": (
        lambda: {"price": step(Price).when(lambda amount, colour: True)},
        r"Bad\.price: the condition's parameter 'colour' is no input of the step\. Name inputs",
    ),
    "condition twice": (
        lambda: {"price": step(Price).when(inputs.amount).when(inputs.amount)},
        r"Bad\.price: \.when is given twice",
    ),
    "condition that is async": (
        lambda: {"price": step(Price).when(always)},
        r"Bad\.price: the condition is async, and would always be true",
    ),
    "condition without readable parameters": (
        lambda: {"price": step(Price).when(unreadable)},
        r"Bad\.price: the condition's parameters cannot be read",
    ),
    "async collection": (
        lambda: {"m": map_each(Price, over=fetched, amount=element)},
        r"Bad\.m: over=fetched is async\. Fetch the collection in a step",
    ),
    "action that hides a method of the reactor": (
        reserved_alias,
        r"Bad\.undo: the library uses this name\. Rename the step or function",
    ),
    "coordination that is no list": (
        lambda: {"price": step(Price), "coordination": "lock"},
        r"Bad: coordination is 'lock': give a list, even of one",
    ),
    "middleware that is no list": (
        lambda: {"price": step(Price), "middleware": print},
        r"Bad: middleware is .*: give a list, even of one",
    ),
    "undo of a class step": (
        lambda: {"price": step(Price).undo(total)},
        r"Bad\.price: \.undo is for function steps\. Define undo in Price instead",
    ),
    "reference inside a list": (
        lambda: {"n": step(Note, text=[{"a": inputs.amount}])},
        r"Bad\.n: inputs\.amount is inside a list, where it would not be resolved",
    ),
    "reactor as a step": (
        lambda: {"c": step(Child)},
        r"Bad\.c: Child is a reactor: use compose\(Child, \.\.\.\)",
    ),
    "step as a nested reactor": (
        lambda: {"c": compose(Price)},
        r"Bad\.c: compose\(Price\) needs a reactor: use step\(\.\.\.\)",
    ),
    "class that is no step": (
        lambda: {"r": step(Receipt)},
        r"Bad\.r: step\(Receipt\) cannot be run: give a subclass of Step",
    ),
    "something that cannot be called": (
        lambda: {"r": step(3)},  # type: ignore[call-overload]
        r"Bad\.r: step\(3\) cannot be run",
    ),
    "step without run": (
        lambda: {"u": step(Unfinished)},
        r"Bad\.u: Unfinished has no run: define it",
    ),
    "step class not declared": (
        lambda: {"price": Price},
        r"Bad\.price: Price is not declared as a step: use step\(\.\.\.\)",
    ),
    "no concurrency": (
        lambda: {"price": step(Price), "concurrency": 0},
        r"Bad: concurrency = 0: give a whole number of at least 1",
    ),
    "concurrency that is no number": (
        lambda: {"price": step(Price), "concurrency": True},
        r"Bad: concurrency = True",
    ),
    "constructor": (
        lambda: {"price": step(Price), "__init__": lambda self: None},
        r"Bad\.__init__ would never be called",
    ),
}


class Deep(Reactor):
    depth: int

    price = step(Price, amount=inputs.depth)


class Amounts(Step):
    amount: list[int]

    def run(self) -> None: ...


@pytest.mark.parametrize("case", WRONG)
def test_wrong_definitions_are_refused(case: str) -> None:
    body, message = WRONG[case]
    annotations = {"amount": int, "lines": list[str], "numbers": list[int]}

    with pytest.raises(DefinitionError, match=message) as caught:
        type("Bad", (Reactor,), {"__annotations__": annotations, **body()})

    if "Bad." in message and "__init__" not in message:
        assert caught.value.reactor == "Bad"
        assert caught.value.step


def test_a_reactor_without_steps_is_refused_when_used() -> None:
    class Empty(Reactor):
        order_id: str

    with pytest.raises(DefinitionError, match=r"Empty: there are no steps\. Declare one"):
        Empty.check()
    with pytest.raises(DefinitionError, match="Empty: there are no steps"):
        Empty.run(order_id="1")
    with pytest.raises(DefinitionError, match=r"^Bad\.e: Empty: there|^Empty: there are no steps"):

        class Bad(Reactor):
            e = compose(Empty, order_id="1")


def test_options_after_the_class_exists_are_refused() -> None:
    with pytest.raises(DefinitionError, match=r"Other\.price: \.after\(\.\.\.\) comes too late"):
        Other.price.after(Child.price)
    with pytest.raises(DefinitionError, match="comes too late"):
        Other.price.retry(max_attempts=3)
    with pytest.raises(DefinitionError, match="comes too late"):
        Other.price.undo(print)


def test_constructing_a_reactor_is_refused() -> None:
    with pytest.raises(TypeError, match=r"use Child\.run\(\.\.\.\)"):
        Child(amount=3)


def test_positional_inputs_are_refused() -> None:
    with pytest.raises(TypeError, match=r"Child\.run takes its inputs by name"):
        Child.run(3)  # type: ignore[call-arg]


def test_an_annotated_step_is_refused() -> None:
    with pytest.raises(DefinitionError, match=r"Bad\.price: a step is declared without an annot"):

        class Bad(Reactor):
            amount: int
            price: Any = step(Price)


@pytest.mark.parametrize(
    "options",
    [
        {"max_attempts": 0},
        {"backoff": "quadratic"},
        {"base_delay": -1},
        {"jitter": 2},
    ],
    ids=str,
)
def test_a_wrong_retry_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(DefinitionError, match=rf"Retry\({next(iter(options))}="):
        step(Price).retry(**options)
