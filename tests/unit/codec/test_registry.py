"""Which classes are known, by annotation or by registration, and under which names."""

from __future__ import annotations

import sys
import threading
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import (
    Annotated,
    Any,
    ClassVar,
    ForwardRef,
    Generic,
    Literal,
    NamedTuple,
    NewType,
    NotRequired,
    Optional,
    TypedDict,
    TypeVar,
)

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypeAliasType

from calandria.codec import JsonCodec, Record, TypeRegistry
from calandria.errors import DecodingError, DefinitionError, EncodingError


class Leaf(Enum):
    A = 1


@dataclass
class Node:
    leaf: Leaf
    children: list[Node]


class Tree(BaseModel):
    root: Node
    other: Optional[Tree] = None  # noqa: UP045


class Row(NamedTuple):
    tree: Tree


class Document(TypedDict):
    row: NotRequired[Row]


T = TypeVar("T")
Bounded = TypeVar("Bounded", bound=Tree)
Chosen = TypeVar("Chosen", Node, Row)
NodeId = NewType("NodeId", Node)
Alias = TypeAliasType("Alias", "list[Tree]")


@dataclass
class Crate(Generic[T]):
    inside: T


class Envelope(BaseModel, Generic[T]):
    letter: T


class Money:
    def __init__(self, amount: Decimal, currency: str) -> None:
        self.amount, self.currency = amount, currency

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Money) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(self.currency)


def to_pair(money: Money) -> object:
    return money.amount, money.currency


def to_money(pair: tuple[Decimal, str]) -> Money:
    return Money(*pair)


@pytest.fixture
def registry() -> TypeRegistry:
    return TypeRegistry()


REACHES_ALL = [
    Tree,
    list[Tree],
    typing.List[Tree],  # noqa: UP006
    dict[str, tuple[Tree, ...]],
    Tree | None,
    Optional["Tree"],
    Annotated[Tree, Field(description="Leaf"), "raise SystemExit"],
    Annotated[list["Tree"], 1],
    Callable[[Tree], int],
    Mapping[str, Annotated[int | Row, 5]],
    Document,
    NodeId,
    Bounded,
    Chosen,
    Alias,
    Crate[Tree],
    Envelope[Tree],
    "Tree",
    ForwardRef("list[Tree]"),
    type[Tree],
    ClassVar[Tree],
]


@pytest.mark.parametrize("annotation", REACHES_ALL, ids=map(str, range(len(REACHES_ALL))))
def test_an_annotation_teaches_every_class_it_reaches(
    registry: TypeRegistry, annotation: object
) -> None:
    registry.learn(annotation, namespace={"Tree": Tree})

    assert registry.name_of(Leaf) == f"{__name__}:Leaf"
    assert registry.name_of(Node) == f"{__name__}:Node"
    assert registry.lookup(f"{__name__}:Node") is Node


def test_generic_classes_are_learnt_with_and_without_their_arguments(
    registry: TypeRegistry,
) -> None:
    registry.learn(dict[str, Crate[Envelope[Leaf]]])

    assert registry.name_of(Crate)
    assert registry.lookup(f"{__name__}:Envelope[Leaf]") is Envelope[Leaf]
    assert registry.name_of(Leaf)


def test_a_literal_teaches_the_enumeration_of_its_members(registry: TypeRegistry) -> None:
    registry.learn(Literal[Leaf.A, "text", 1])

    assert registry.name_of(Leaf)


@pytest.mark.parametrize(
    "annotation",
    [
        None,
        int,
        "no such name",
        "1 +",
        Any,
        ...,
        "",
        [],
        {},
        pytest.param(object(), id="an object"),
        Callable,
        T,
        Literal["Leaf"],
    ],
    ids=str,
)
def test_an_annotation_without_classes_teaches_nothing(
    registry: TypeRegistry, annotation: object
) -> None:
    registry.learn(annotation)

    assert registry.name_of(Leaf) is None
    assert registry.name_of(int) is None


def test_a_reference_means_what_it_means_where_it_stands(registry: TypeRegistry) -> None:
    def owner_of(own: type, module: str) -> type:
        # both bodies say `list["Item"]`, each of another module
        annotations = {"items": list["Item"]}  # type: ignore[name-defined]  # noqa: F821
        cls: type = dataclass(type("Owner", (), {"__annotations__": annotations}))
        cls.__module__ = module
        sys.modules[module] = types.ModuleType(module)
        vars(sys.modules[module])["Item"] = own
        return cls

    try:
        first, second = owner_of(Leaf, "codec_shop_a"), owner_of(Crate, "codec_shop_b")
        registry.learn(tuple[first, second])  # type: ignore[valid-type]
    finally:
        del sys.modules["codec_shop_a"], sys.modules["codec_shop_b"]

    assert registry.name_of(Leaf) and registry.name_of(Crate)


def test_a_reference_that_means_itself_ends(registry: TypeRegistry) -> None:
    registry.learn("round", namespace={"round": "trip", "trip": "round"})

    assert registry.name_of(Leaf) is None


def test_text_beside_an_annotation_is_no_annotation(registry: TypeRegistry) -> None:
    registry.learn(Annotated[int, "Leaf"], namespace={"Leaf": Leaf})

    assert registry.name_of(Leaf) is None


def test_classes_of_a_function_are_found_by_the_names_given(registry: TypeRegistry) -> None:
    @dataclass
    class Inner:
        self_reference: Inner | None

    @dataclass
    class Outer:
        inner: Inner
        unresolvable: NoSuchName  # type: ignore[name-defined]  # noqa: F821

    registry.learn(Outer, namespace={"Inner": Inner})

    assert registry.name_of(Outer)
    assert registry.name_of(Inner)


def test_learning_does_not_take_a_registered_name_away(registry: TypeRegistry) -> None:
    registry.register(Node, name="node")

    registry.learn(Tree)

    assert registry.name_of(Node) == "node"


def test_a_class_met_in_a_value_is_known_from_then_on(registry: TypeRegistry) -> None:
    codec = JsonCodec(registry)

    assert codec.decode(codec.encode(Crate(1))) == Crate(1)
    assert registry.lookup(f"{__name__}:Crate") is Crate


def test_a_name_of_its_own_survives_a_move() -> None:
    old, new = TypeRegistry(), TypeRegistry()
    old.register(Node, name="node")

    @new.register(name="node")
    @dataclass
    class Vertex:
        leaf: Leaf
        children: list[Vertex]

    new.learn(Leaf)
    text = JsonCodec(old).encode(Node(Leaf.A, []))

    assert JsonCodec(new).decode(text) == Vertex(Leaf.A, [])


def test_a_renamed_class_reads_the_old_name_and_writes_the_new(registry: TypeRegistry) -> None:
    registry.learn(Crate)
    under_its_module = JsonCodec(registry).encode(Crate(1))
    registry.register(Crate, name="shop.old:Box")
    registry.register(Crate, name="crate")
    codec = JsonCodec(registry)

    assert '"c":"crate"' in codec.encode(Crate(1))
    assert codec.decode(under_its_module) == Crate(1)
    assert codec.decode(under_its_module.replace(f"{__name__}:Crate", "shop.old:Box")) == Crate(1)


def local_class(default: int) -> type:
    @dataclass
    class Local:
        value: int = default

    return Local


def test_of_two_classes_with_one_name_the_latest_has_it(registry: TypeRegistry) -> None:
    first, second = local_class(1), local_class(2)
    codec = JsonCodec(registry)

    text = codec.encode(first())
    assert type(codec.decode(text)) is first
    codec.encode(second())
    assert type(codec.decode(text)) is second
    assert registry.name_of(first) is None
    codec.encode(first())
    assert type(codec.decode(text)) is first


def test_a_type_of_ones_own_is_recorded_by_its_functions(registry: TypeRegistry) -> None:
    assert registry.register(Money, encode=to_pair, decode=to_money) is Money
    codec = JsonCodec(registry)
    value = [Money(Decimal("1.10"), "EUR"), {Money(Decimal(2), "CHF"): 1}]

    assert codec.decode(codec.encode(value)) == value


def test_registering_works_as_a_decorator(registry: TypeRegistry) -> None:
    @registry.register
    @dataclass
    class Bare:
        a: int

    @registry.register(encode=lambda own: own.a, decode=lambda a: WithFunctions(a))
    class WithFunctions:
        def __init__(self, a: int) -> None:
            self.a = a

    codec = JsonCodec(registry)

    assert registry.name_of(Bare)
    assert type(codec.decode(codec.encode(WithFunctions(1)))) is WithFunctions


def test_functions_go_before_fields_and_also_serve_exceptions(registry: TypeRegistry) -> None:
    registry.register(Crate, encode=lambda crate: crate.inside, decode=lambda inside: Crate(inside))
    registry.register(OSError, encode=lambda error: error.args, decode=lambda args: OSError(*args))
    codec = JsonCodec(registry)

    assert codec.encode(Crate(1)) == f'{{"$":"custom","c":"{__name__}:Crate","v":1}}'
    back = codec.decode(codec.encode(OSError(5, "io")))
    assert type(back) is OSError and back.args == (5, "io")


def test_a_subclass_of_a_registered_type_is_not_included(registry: TypeRegistry) -> None:
    class Tip(Money):
        pass

    registry.register(Money, encode=to_pair, decode=to_money)

    with pytest.raises(EncodingError, match="Tip"):
        JsonCodec(registry).encode(Tip(Decimal(1), "EUR"))


def test_functions_that_raise_are_named(registry: TypeRegistry) -> None:
    def broken(value: object) -> Any:
        raise LookupError("lost")

    registry.register(Money, encode=broken, decode=broken)
    codec = JsonCodec(registry)

    with pytest.raises(EncodingError, match=r"the encode registered for .*Money raised LookupErr"):
        codec.encode([Money(Decimal(1), "EUR")])
    with pytest.raises(DecodingError, match=r"The decode registered for .*Money raised LookupErr"):
        codec.decode(f'{{"$":"custom","c":"{__name__}:Money","v":1}}')


def test_an_encode_that_gives_the_value_itself_is_refused(registry: TypeRegistry) -> None:
    registry.register(Money, encode=lambda money: [money], decode=to_money)

    with pytest.raises(EncodingError, match="contains itself") as caught:
        JsonCodec(registry).encode([Money(Decimal(1), "EUR")])
    assert caught.value.path == "[0][0]"


@pytest.mark.parametrize(
    ("cls", "options", "fix"),
    [
        (Money, {}, "give encode=... and decode=..."),
        (Money, {"encode": to_pair}, "give both"),
        (Money, {"decode": to_money}, "give both"),
        (int, {"encode": str, "decode": int}, "nothing to register"),
        (dict, {}, "nothing to register"),
        (ValueError, {}, "give encode=... and decode=..."),
        (Node, {"name": ""}, "ASCII"),
        (Node, {"name": "né"}, "ASCII"),
    ],
)
def test_a_wrong_registration_is_an_error(
    registry: TypeRegistry, cls: type, options: dict[str, Any], fix: str
) -> None:
    with pytest.raises(DefinitionError, match=fix):
        registry.register(cls, **options)


def test_registries_do_not_share_what_they_know(registry: TypeRegistry) -> None:
    text = JsonCodec(registry).encode(Crate(1))

    assert isinstance(JsonCodec(TypeRegistry()).decode(text), Record)


def test_many_threads_may_encode_new_classes_at_once(registry: TypeRegistry) -> None:
    codec, problems = JsonCodec(registry), list[object]()
    ready = threading.Barrier(8)

    def record_many(number: int) -> None:
        ready.wait()
        for turn in range(50):
            cls = local_class(number)
            cls.__qualname__ = f"Local{number}x{turn}"
            back = codec.decode(codec.encode([cls(), Crate(number)]))
            if back != [cls(), Crate(number)]:
                problems.append(back)

    threads = [threading.Thread(target=record_many, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert problems == []
    assert len([n for n in range(8) if registry.lookup(f"{__name__}:Local{n}x49")]) == 8
