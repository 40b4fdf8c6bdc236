"""Redaction follows values along their wires, through nested reactors and back."""

from __future__ import annotations

from calandria.definition.nodes import compose, map_each
from calandria.definition.reactors import Reactor
from calandria.definition.redaction import Redacted
from calandria.definition.references import element, index, inputs
from calandria.definition.step_function import step
from calandria.definition.steps import Step

NONE: frozenset[str] = frozenset()


class Pay(Step):
    card: Redacted[str]
    note: str = ""
    other: str = ""

    def run(self) -> str:
        return "receipt"


class MakeToken(Step):
    seed: str

    def run(self) -> Redacted[str]:
        return self.seed


class Show(Step):
    text: object
    note: object = None

    def run(self) -> str:
        return str(self.text)


class Vault(Reactor):
    secret: Redacted[str]
    name: str

    token = step(MakeToken, seed=inputs.name)
    shown = step(Show, text=token["part"], note=inputs.name)
    paid = step(Pay, card="c", note=inputs.secret.map(str), other=shown)

    returns = paid


class Giving(Reactor):
    name: str

    token = step(MakeToken, seed=inputs.name)

    returns = token["part"]


class Outer(Reactor):
    password: Redacted[str]
    names: Redacted[list[str]]
    plain: list[str]

    vault = compose(Vault, secret="s", name=inputs.password)
    open_vault = compose(Vault, secret="s", name="n")
    giving = compose(Giving, name="n")
    after_giving = step(Show, text=giving, note=vault)
    secret_elements = map_each(Show, over=inputs.names, text=element, note=index)
    plain_elements = map_each(Show, over=inputs.plain, text=element, note=inputs.password)
    computed = map_each(Show, over=lambda password: [password], text=element["x"])
    tokens = map_each(MakeToken, over=inputs.plain, seed=element)
    last = step(Show, text=tokens[0])


def redacted(reactor: type[Reactor], name: str) -> frozenset[str]:
    return reactor.definition().nodes[name].redacted


def test_declared_and_fed_inputs_are_redacted() -> None:
    assert redacted(Vault, "token") == NONE
    assert redacted(Vault, "shown") == {"text"}
    assert redacted(Vault, "paid") == {"card", "note"}


def test_a_redacted_return_makes_the_result_redacted() -> None:
    nodes = Vault.definition().nodes

    assert nodes["token"].result_redacted
    assert not nodes["shown"].result_redacted


def test_what_is_fed_redacted_values_is_redacted_inside() -> None:
    inner = Outer.definition().redaction(NONE).nested["vault"]
    untouched = Outer.definition().redaction(NONE).nested["open_vault"]

    assert inner.inputs["token"] == {"seed"}
    assert inner.inputs["shown"] == {"text", "note"}
    assert untouched.inputs["token"] == NONE
    assert redacted(Outer, "vault") == {"secret", "name"}


def test_a_nested_reactor_hands_on_its_redacted_value() -> None:
    nodes = Outer.definition().nodes

    assert nodes["giving"].result_redacted
    assert not nodes["vault"].result_redacted
    assert redacted(Outer, "after_giving") == {"text"}


def test_elements_of_a_redacted_collection_are_redacted() -> None:
    assert redacted(Outer, "secret_elements") == {"text"}
    assert redacted(Outer, "plain_elements") == {"note"}
    assert redacted(Outer, "computed") == {"text"}


def test_results_of_a_map_are_redacted_as_those_of_its_target() -> None:
    assert Outer.definition().nodes["tokens"].result_redacted
    assert redacted(Outer, "last") == {"text"}


def test_an_answer_is_remembered() -> None:
    definition = Vault.definition()

    assert definition.redaction(frozenset({"name"})) is definition.redaction(frozenset({"name"}))
    assert definition.redaction(frozenset({"name"})).inputs["token"] == {"seed"}
    assert not definition.redaction(NONE).returns
    assert Giving.definition().redaction(NONE).returns
