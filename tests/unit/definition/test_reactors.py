"""Reactors that are right: wiring, order, conditions, maps, nesting, inheritance, shape."""

from __future__ import annotations

import gc
import weakref
from abc import ABC
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from calandria.coordination.primitives import Lock
from calandria.definition.node_definition import NodeDefinition
from calandria.definition.nodes import compose, map_each
from calandria.definition.reactors import Reactor
from calandria.definition.redaction import Redacted
from calandria.definition.references import Computed, Literal, element, index, inputs, resolve
from calandria.definition.step_function import step
from calandria.definition.steps import Step, unit_of
from calandria.errors import DefinitionError, UnresolvedReference, ValidationError
from calandria.plan.model import NodeKind
from calandria.plan.policies import ONCE, Retry
from calandria.ports.middleware import Middleware
from tests.unit.definition.contexts import FixedScope


@dataclass
class Quote:
    total: float
    parts: list[int]
    suspicious: bool = False

    @property
    def rounded(self) -> int:
        return round(self.total)


class Line(BaseModel):
    product_id: int
    quantity: int


class Validate(Step):
    order_id: str
    lines: list[Line]

    def run(self) -> Quote:
        return Quote(1.0, [])


class Reserve(Step):
    product_id: int
    quantity: int = 1

    retry = Retry(max_attempts=3)
    coordination = [Lock("step")]

    def run(self) -> int:
        return 1

    def undo(self, result: int) -> None: ...


class Charge(Step):
    amount: float
    card: str
    currency: str = "USD"

    def run(self) -> dict[str, str]:
        return {}


class Checkout(Reactor):
    order_id: str
    lines: list[Line]
    card: Redacted[str]

    validate = step(Validate)
    reserve = map_each(
        Reserve,
        over=inputs.lines,
        product_id=element["product_id"],
        quantity=index.map(lambda i: i + 1),
    )
    charge = step(Charge, amount=validate["total"], currency="EUR").after(reserve)
    audit = (
        step(Charge, amount=1, card="none").when(validate["suspicious"]).coordinate(Lock("node"))
    )

    returns = charge["id"]
    concurrency = 3
    coordination = [Lock("reactor")]
    middleware = [Middleware]


def node(reactor: type[Reactor], name: str) -> NodeDefinition:
    return reactor.definition().nodes[name]


def wiring(reactor: type[Reactor], name: str) -> dict[str, str]:
    return {field: repr(source) for field, source in node(reactor, name).wiring.items()}


def test_the_definition_has_everything_in_order_of_declaration() -> None:
    definition = Checkout.definition()

    assert definition.name == "Checkout"
    assert definition.reactor is Checkout
    assert list(definition.nodes) == ["validate", "reserve", "charge", "audit"]
    assert [n.kind for n in definition.nodes.values()] == [
        NodeKind.STEP,
        NodeKind.MAP,
        NodeKind.STEP,
        NodeKind.STEP,
    ]
    assert repr(definition.returns) == "<Reference charge['id']>"
    assert definition.concurrency == 3
    assert definition.coordination == (Lock("reactor"),)
    assert definition.middleware == (Middleware,)
    assert Checkout.definition() is definition


def test_inputs_are_wired_explicitly_by_name_or_left_to_their_default() -> None:
    assert wiring(Checkout, "validate") == {
        "order_id": "<Reference inputs.order_id>",
        "lines": "<Reference inputs.lines>",
    }
    assert wiring(Checkout, "charge") == {
        "amount": "<Reference validate['total']>",
        "card": "<Reference inputs.card>",
        "currency": "Literal(value='EUR')",
    }
    assert wiring(Checkout, "audit") == {
        "amount": "Literal(value=1)",
        "card": "Literal(value='none')",
    }


def test_an_optional_input_takes_the_reactor_input_of_its_name() -> None:
    class Foreign(Reactor):
        amount: float
        card: str
        currency: str

        charge = step(Charge)

    assert wiring(Foreign, "charge")["currency"] == "<Reference inputs.currency>"


def test_a_class_step_is_not_wired_to_a_step_by_name() -> None:
    class Priced(Reactor):
        card: str

        amount = step(Validate, order_id="1", lines=[])
        charge = step(Charge, amount=3)

    with pytest.raises(DefinitionError, match="nothing is wired to the required input 'amount'"):

        class Bad(Reactor):
            card: str

            amount = step(Validate, order_id="1", lines=[])
            charge = step(Charge)

    assert Priced.definition().plan.node("charge").dependencies == ()


def test_the_plan_has_dependencies_and_tells_which_only_order() -> None:
    plan = Checkout.definition().plan
    charge, reserve = plan.node("charge"), plan.node("reserve")

    assert charge.dependencies == ("validate", "reserve")
    assert charge.ordering == ("reserve",)
    assert plan.node("audit").dependencies == ("validate",)
    assert plan.node("audit").conditional
    assert (plan.returns, plan.concurrency, plan.reactor) == ("charge", 3, "Checkout")
    assert (reserve.retry.max_attempts, reserve.undoes, reserve.target) == (3, True, "Reserve")
    assert charge.retry == ONCE


def test_arguments_are_resolved_and_failures_name_the_input() -> None:
    charge = node(Checkout, "charge")

    assert charge.arguments(FixedScope({"card": "c"}, {"validate": Quote(2.5, [])})) == {
        "amount": 2.5,
        "card": "c",
        "currency": "EUR",
    }
    with pytest.raises(
        UnresolvedReference,
        match=r"^Checkout\.charge, input 'amount': validate\['total'\] cannot be resolved: ",
    ):
        charge.arguments(FixedScope({"card": "c"}, {"validate": None}))


def test_options_of_step_and_node_add_up() -> None:
    class Ordered(Reactor):
        product_id: int

        first = step(Reserve).coordinate(Lock("node"))
        second = step(Reserve).retry(max_attempts=7)
        third = step(Reserve).retry(Retry(max_attempts=8))

    assert node(Ordered, "first").coordination == (Lock("step"), Lock("node"))
    assert [node(Ordered, n).retry.max_attempts for n in ("first", "second", "third")] == [3, 7, 8]


def test_the_last_step_is_returned_by_default() -> None:
    class Two(Reactor):
        product_id: int

        first = step(Reserve)
        second = step(Reserve)

    assert repr(Two.definition().returns) == "<Reference second>"


def test_conditions_take_inputs_by_name_or_as_one_object() -> None:
    class Guarded(Reactor):
        amount: float
        card: str

        named = step(Charge).when(lambda amount, currency: (amount, currency))
        whole = step(Charge).when(lambda i: (i.amount, i.currency))
        one = step(Charge).when(lambda amount: amount)
        constant = step(Charge).when(lambda: True)

    values = {"amount": 3, "card": "c"}

    def outcome(name: str) -> object:
        condition: Any = node(Guarded, name).condition
        return condition(values)

    assert outcome("named") == (3, "USD")
    assert outcome("whole") == (3, "USD")
    assert outcome("one") == 3
    assert outcome("constant") is True


def test_a_condition_that_raises_is_named() -> None:
    class Guarded(Reactor):
        product_id: int

        reserve = step(Reserve).when(lambda i: i.product_id / 0)

    condition: Any = node(Guarded, "reserve").condition

    with pytest.raises(
        UnresolvedReference,
        match=r"^Guarded\.reserve: the condition raised ZeroDivisionError: division by zero",
    ):
        condition({"product_id": 1})


def test_maps_have_their_options() -> None:
    def source(lines: list[Line], validate: Quote, limit: int = 9) -> list[int]:
        return [len(lines), limit, validate.parts[0]]

    class Mapped(Reactor):
        order_id: str
        lines: list[Line]

        validate = step(Validate)
        computed = (
            map_each(Reserve, over=source, product_id=element)
            .keep_going()
            .collect(sum)
            .undo_all(print)
        )
        literal = map_each(Reserve, over=(1, 2), product_id=element)
        of_step = map_each(Reserve, over=validate["parts"], product_id=element)

    computed = node(Mapped, "computed").map
    literal = node(Mapped, "literal").map
    assert computed is not None and literal is not None
    scope = FixedScope({"lines": [1, 2]}, {"validate": Quote(1, [7])})

    assert isinstance(computed.over, Computed)
    assert resolve(computed.over, scope) == [2, 9, 7]
    assert (computed.keep_going, computed.collect, computed.undo_all) == (True, sum, print)
    assert literal.over == Literal((1, 2))
    assert (literal.keep_going, literal.collect, literal.undo_all) == (False, None, None)
    assert Mapped.definition().plan.node("computed").dependencies == ("validate",)
    assert Mapped.definition().plan.node("of_step").dependencies == ("validate",)
    assert node(Mapped, "validate").map is None


def test_bulk_undo_and_collect_can_decorate() -> None:
    class Mapped(Reactor):
        skus: list[int]

        reserve = map_each(Reserve, over=inputs.skus, product_id=element)

        @reserve.undo_all
        def release(results: Any) -> None: ...

        @reserve.collect
        def _(results: Any) -> int:
            return len(results)

    options = node(Mapped, "reserve").map
    assert options is not None and options.undo_all is not None and options.collect is not None
    assert list(Mapped.definition().nodes) == ["reserve"]
    assert options.collect([1, 2]) == 2


def test_composed_and_mapped_reactors_carry_their_plan() -> None:
    class Outer(Reactor):
        order_id: str
        orders: list[str]
        lines: list[Line]
        token: str

        one = compose(Checkout, card=inputs.token)
        many = map_each(Checkout, over=inputs.orders, order_id=element, card="c")

    plan = Outer.definition().plan

    assert node(Outer, "one").reactor is Checkout
    assert node(Outer, "one").unit is None
    assert node(Outer, "one").contract is Checkout.definition().contract
    assert wiring(Outer, "one")["lines"] == "<Reference inputs.lines>"
    assert plan.node("one").inner is Checkout.definition().plan
    assert plan.node("many").inner is Checkout.definition().plan
    assert (plan.node("one").kind, plan.node("many").kind) == (NodeKind.COMPOSE, NodeKind.MAP)
    assert plan.node("one").undoes


class TestInheritance:
    class Express(Checkout):
        courier: str = "bike"

        charge = step(Charge, amount=Checkout.validate["total"], currency="GBP")
        ship = step(Charge, amount=charge.map(len)).after(Checkout.audit)

        returns = Checkout.validate
        concurrency = 1

    def test_a_replaced_step_keeps_its_place_and_its_readers(self) -> None:
        definition = self.Express.definition()

        assert list(definition.nodes) == ["validate", "reserve", "charge", "audit", "ship"]
        assert wiring(self.Express, "charge")["currency"] == "Literal(value='GBP')"
        assert definition.plan.node("charge").dependencies == ("validate",)
        assert definition.plan.node("ship").dependencies == ("charge", "audit")
        assert repr(definition.returns) == "<Reference validate>"
        assert definition.concurrency == 1
        assert definition.coordination == (Lock("reactor"),)
        assert "courier" in definition.contract.fields

    def test_the_base_is_left_alone(self) -> None:
        assert list(Checkout.definition().nodes) == ["validate", "reserve", "charge", "audit"]
        assert wiring(Checkout, "charge")["currency"] == "Literal(value='EUR')"

    def test_an_inherited_returns_follows_the_name(self) -> None:
        class Other(Checkout):
            charge = step(Charge, amount=5)

        assert repr(Other.definition().returns) == "<Reference charge['id']>"
        assert wiring(Other, "charge")["amount"] == "Literal(value=5)"

    def test_bases_may_be_abstract(self) -> None:
        class Base(Reactor, ABC):
            order_id: str

        class Middle(Base):
            lines: list[Line] = Field(default_factory=list)

        class Leaf(Middle):
            validate = step(Validate)

        assert list(Leaf.definition().contract.fields) == ["order_id", "lines"]
        with pytest.raises(DefinitionError, match="Middle: there are no steps"):
            Middle.check()

    def test_several_bases_give_their_steps(self) -> None:
        class Paying(Reactor):
            card: str
            pay = step(Charge, amount=1)

        class Reserving(Reactor):
            product_id: int
            reserve = step(Reserve)

        class Both(Reserving, Paying):
            after_both = step(Charge, amount=2).after(Paying.pay, Reserving.reserve)

        assert list(Both.definition().nodes) == ["pay", "reserve", "after_both"]

    def test_an_inherited_step_may_be_named_again(self) -> None:
        class Same(Checkout):
            charge = Checkout.charge

        assert list(Same.definition().nodes) == list(Checkout.definition().nodes)
        assert Checkout.charge.owner is Checkout


def shape(**options: Any) -> str:
    amount = options.pop("amount", 3)
    name = options.pop("name", "charge")
    card = options.pop("card", str)
    body = {"__annotations__": {"card": card, "n": int}, name: step(Charge, amount=amount)}
    reactor: type[Reactor] = type("Shaped", (Reactor,), body)
    return reactor.definition().shape


def test_the_shape_changes_with_names_wiring_and_contracts_only() -> None:
    base = shape()

    assert shape() == base
    assert shape(amount=4) == base
    assert shape(amount=inputs.n) != base
    assert shape(name="pay") != base
    assert shape(card=bytes) != base


def untyped():  # type: ignore[no-untyped-def]  # noqa: ANN201
    return None


class Pathed(Reactor):
    lines: list[Line]
    amount: float
    card: str

    validate = step(Validate, order_id="1")
    plain = step(untyped)
    known = step(Charge, amount=validate["total"])
    property_ = step(Charge, amount=validate["rounded"])
    mapped = step(Charge, amount=validate.map(lambda v: v.total))
    item = step(Reserve, product_id=inputs.lines[0]["product_id"])
    keyed = step(Charge, amount=known["id"])
    unknown = step(Charge, amount=plain["total"]).after(keyed)
    guarded = step(Charge).when(lambda i: True)
    over = map_each(Reserve, over=lambda: [1], product_id=element)
    plain_map = map_each(Reserve, over=inputs.lines, product_id=element["product_id"])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("known", False),
        ("property_", True),
        ("mapped", True),
        ("item", False),
        ("keyed", False),
        ("unknown", True),
        ("guarded", True),
        ("over", True),
        ("plain_map", False),
    ],
)
def test_it_is_known_whether_resolving_calls_user_code(name: str, expected: bool) -> None:
    assert node(Pathed, name).runs_user_code is expected


def test_annotations_may_refer_to_what_a_function_defines() -> None:
    limit = 3

    @dataclass
    class Part:
        number: int

    @dataclass
    class Whole:
        parts: list[Part]

    class Build(Step):
        whole: Whole
        count: Annotated[int, Field(le=limit)] = 1

        def run(self) -> Part:
            return self.whole.parts[0]

    class Factory(Reactor):
        whole: Whole

        build = step(Build)

        @step
        def inspect(*, build: Part) -> Whole:
            return Whole([build])

    assert Factory.definition().contract.validate({"whole": {"parts": [{"number": "4"}]}}) == {
        "whole": Whole([Part(4)])
    }
    output = node(Factory, "inspect").unit.output  # type: ignore[union-attr]
    assert output is not None and output.annotation is Whole
    with pytest.raises(ValidationError) as caught:
        unit_of(Build).contract.validate({"whole": {"parts": []}, "count": 4})
    assert list(caught.value.errors) == ["count"]


def test_a_reactor_is_drawn_from_its_plan() -> None:
    svg = Checkout.draw()

    assert svg.startswith("<svg") and "reserve" in svg
    assert svg._repr_svg_() == svg == Checkout._repr_svg_()
    assert "reserve" in Checkout.draw("text")
    assert Checkout.draw("mermaid")._repr_svg_() is None
    with pytest.raises(ValueError, match="use one of"):
        Checkout.draw("png")  # type: ignore[arg-type]


def test_types_of_the_class_body_come_first() -> None:
    class Mode(BaseModel):
        outer: int

    class Run(Step):
        class Mode(BaseModel):
            inner: int

        mode: Mode

        def run(self) -> Mode:
            return self.mode

    unit = unit_of(Run)

    assert unit.contract.fields["mode"].annotation is Run.Mode
    assert unit.output is not None and unit.output.annotation is Run.Mode


def test_a_class_inside_a_class_sees_the_function_around_both() -> None:
    class Part(BaseModel):
        number: int

    class Outer:
        class Build(Step):
            part: Part

            def run(self) -> Part:
                return self.part

    assert unit_of(Outer.Build).contract.validate({"part": {"number": "1"}}) == {
        "part": Part(number=1)
    }


def test_local_proxies_are_not_touched() -> None:
    class Proxy:
        @property  # type: ignore[misc]
        def __class__(self) -> type:
            raise RuntimeError("outside of a request")

        def __getattr__(self, name: str) -> object:
            raise RuntimeError("outside of a request")

    request = Proxy()

    class Light(Step):
        amount: int

        def run(self) -> None: ...

    assert unit_of(Light).contract.validate({"amount": 1}) == {"amount": 1}
    assert type(request) is Proxy


def test_what_a_function_holds_is_not_kept_alive() -> None:
    class Heavy:
        pass

    def declare() -> tuple[type[Step], weakref.ref[Heavy]]:
        heavy = Heavy()

        class Light(Step):
            amount: int

            def run(self) -> None: ...

        return Light, weakref.ref(heavy)

    light, heavy = declare()
    gc.collect()

    assert heavy() is None
    assert unit_of(light).contract.validate({"amount": "3"}) == {"amount": 3}


def test_forward_references_are_resolved_at_first_use() -> None:
    assert Later.definition().contract.fields["item"].annotation is Defined
    assert node(Later, "use").wiring.keys() == {"item"}


class UseLater(Step):
    item: Defined

    def run(self) -> Defined:
        return self.item


class Later(Reactor):
    item: Defined

    use = step(UseLater)


class Defined(BaseModel):
    x: int


class Never(Reactor):
    item: Undefined  # type: ignore[name-defined]  # noqa: F821

    use = step(UseLater)


def test_a_forward_reference_that_never_resolves_is_refused_at_check_and_run() -> None:
    for use in (Never.check, lambda: Never.run(item=3)):
        with pytest.raises(
            DefinitionError, match="Never: the annotation of 'item' cannot be resolved: name 'Unde"
        ):
            use()


def test_what_waits_for_a_forward_reference_waits_with_it() -> None:
    class Outer(Reactor):
        child = compose(Never, item=3)

    with pytest.raises(DefinitionError, match=r"^Never: the annotation of 'item' cannot"):
        Outer.check()
