"""What a step may declare, from which values its key comes, and when it is taken."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import pytest
from pydantic import Field

from calandria import (
    DefinitionError,
    Failure,
    Halt,
    Lock,
    OrderedLock,
    Period,
    RateLimit,
    Reactor,
    Redacted,
    Retry,
    Run,
    Runtime,
    Semaphore,
    Step,
    Success,
    compose,
    element,
    fail,
    inputs,
    map_each,
    runs,
    step,
)
from tests.unit.coordination.helping import (
    failure,
    held_keys,
    holds_told,
    kinds,
    locked,
    store_of,
    stranger,
)


def done() -> str:
    return "done"


def nothing() -> None: ...


class Charge(Step):
    account: str
    currency: str = "EUR"
    coordination = [Lock("acct:{account}:{currency}")]

    def run(self) -> Any:
        return [hold.key for hold in self.context.holds]


def only_run() -> Run:
    (run,) = runs()
    return run


def test_fr_001_the_key_comes_from_the_steps_own_validated_values(runtime: Runtime) -> None:
    """FR-001: defaults applied, values converted, and not the reactor's inputs."""

    class Padded(Step):
        account: Annotated[str, Field(min_length=1), Field(strict=False)]
        number: int = 7
        coordination = [Lock("acct:{account}:{number}")]

        def run(self) -> Any:
            return [hold.key for hold in self.context.holds]

    class Wired(Reactor):
        account: str
        charge = step(Charge, account=inputs.account.map(lambda text: text.upper()))
        padded = step(Padded, account="x", number="8").after(charge)
        returns = charge

    assert Wired.run(account="a") == Success(["acct:A:EUR"])
    assert only_run().results["padded"] == ["acct:x:8"]
    assert held_keys(runtime) == []


def test_fr_001_a_key_may_be_a_function_of_the_values(runtime: Runtime) -> None:
    class Called(Charge):
        coordination = [Lock(lambda i: f"acct:{i.account}/{i.currency}")]

    class Wired(Reactor):
        account: str
        charge = step(Called)

    assert Wired.run(account="a") == Success(["acct:a/EUR"])


@pytest.mark.parametrize(
    "primitive",
    [
        Lock("k"),
        Semaphore("k", limit=2),
        RateLimit("k", limit=5, per="day"),
        Period("k", every="year"),
        OrderedLock("k"),
    ],
    ids=lambda primitive: type(primitive).__name__,
)
def test_fr_002_and_fr_005_each_primitive_on_a_class_and_on_a_function(
    runtime: Runtime, primitive: Any
) -> None:
    """FR-002: the whole family; FR-005: with the same words on a function."""

    class Classy(Step):
        coordination = [primitive]

        def run(self) -> str:
            return "done"

    class Class(Reactor):
        only = step(Classy)

    class Decorated(Reactor):
        @step(coordination=[primitive])
        def only() -> str:
            return "done"

    class Chained(Reactor):
        only = step(done).coordinate(primitive)

    told = []
    for reactor in (Class, Decorated, Chained):
        result = reactor.run()
        assert result.run_id is not None
        told.append(holds_told(runtime.find(result.run_id)))
        reactor.undo(result.run_id)
    assert told[0] == told[1] == told[2]
    assert told[0][0].startswith("hold.acquired only ") and told[0][0].endswith(" k")
    assert held_keys(runtime) == [] and store_of(runtime).sequence("k") == []


def test_fr_006_declarations_are_introspectable() -> None:
    class Checkout(Reactor):
        account: str
        coordination = [Semaphore("checkout", limit=3)]
        charge = step(Charge)

        inline = step(nothing).coordinate(Lock("inline"))

    assert Charge.coordination == [Lock("acct:{account}:{currency}")]
    assert Checkout.coordination == [Semaphore("checkout", limit=3)]
    nodes = Checkout.definition().nodes
    assert nodes["charge"].coordination == (Lock("acct:{account}:{currency}"),)
    assert nodes["inline"].coordination == (Lock("inline"),)


def test_coordination_is_inherited_overridden_and_extended(runtime: Runtime) -> None:
    class Inherited(Charge):
        pass

    class Extended(Charge):
        coordination = [*Charge.coordination, Lock("more")]

    class Replaced(Charge):
        coordination = [Lock("other")]

    class All(Reactor):
        account: str
        inherited = step(Inherited)
        extended = step(Extended).after(inherited)
        replaced = step(Replaced).coordinate(Lock("chained")).after(extended)

    All.run(account="a")
    results = only_run().results
    assert results["inherited"] == ["acct:a:EUR"]
    assert results["extended"] == ["acct:a:EUR", "more"]
    assert results["replaced"] == ["chained", "other"]


def unusable(i: Any) -> Any:
    return {"raises": 1 / 0 if i.how == "raises" else 0, "empty": " ", "none": None}.get(i.how, 7)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("raises", "ZeroDivisionError"),
        ("empty", "empty"),
        ("none", "None, not text"),
        ("seven", "7, not text"),
    ],
)
def test_fr_007_and_sc_011_a_key_that_cannot_be_computed_fails_before_the_work(
    runtime: Runtime, diary: list[str], how: str, said: str
) -> None:
    """FR-007, SC-011: naming step and cause; the work never runs, and is not compensated."""

    class Charged(Step):
        how: str
        coordination = [Lock(unusable)]
        retry = Retry(max_attempts=3, base_delay=0)

        def run(self) -> None:
            diary.append("ran")

        def compensate(self, reason: object) -> None:
            diary.append("compensated")

    class Wired(Reactor):
        how: str
        before = step(locked(diary, "a"))
        charge = step(Charged).after(before)

    found = failure(Wired.run(how=how))
    assert found.step == "charge" and found.exception_class == "KeyUnusable"
    assert "Wired.charge" in found.error and said in found.error
    assert diary == ["+a", "-a"]


def test_a_key_of_a_template_is_checked_too(runtime: Runtime, diary: list[str]) -> None:
    class Charged(Step):
        account: str | None
        coordination = [Lock("{account}")]

        def run(self) -> None:
            diary.append("ran")

    class Wired(Reactor):
        account: str | None
        charge = step(Charged)

    for account, said in ((None, "None"), ("", "empty"), ("x" * 600, "600 characters")):
        found = failure(Wired.run(account=account))
        assert said in found.error and found.exception_class == "KeyUnusable"
    assert diary == []


def test_redacted_inputs_are_refused_in_keys(runtime: Runtime) -> None:
    with pytest.raises(DefinitionError, match="redacted"):

        class Template(Reactor):
            card: Redacted[str]
            coordination = [Lock("{card}")]
            only = step(nothing)

    class Function(Step):
        card: Redacted[str]
        coordination = [Lock(lambda i: i.card)]

        def run(self) -> None: ...

    class Wired(Reactor):
        card: Redacted[str]
        only = step(Function)

    found = failure(Wired.run(card="4111"))
    assert "redacted" in found.error and "4111" not in found.error


@pytest.mark.parametrize(
    ("declare", "said"),
    [
        (lambda: Lock("{nobody}"), "no input 'nobody'"),
        (lambda: Lock("{}"), "without a name"),
        (lambda: Lock("{x"), "no template"),
        (lambda: Lock(""), "empty"),
        (lambda: Lock("k", ttl=0.01), "ttl"),
        (lambda: Lock("k", ttl=-1), "ttl"),
        (lambda: Lock("k", wait=-1), "wait"),
        (lambda: Semaphore("k", limit=0), "limit"),
        (lambda: Semaphore("k", limit=-1), "limit"),
        (lambda: RateLimit("k", limit=0), "limit"),
        (lambda: RateLimit("k", limits={}), "at least one window"),
        (lambda: RateLimit("k", limits={"fortnight": 1}), "fortnight"),
        (lambda: Period("k", every="fortnight"), "fortnight"),
        (lambda: Period("k", every=0), "every"),
        (lambda: OrderedLock("k", poison_timeout=0), "poison_timeout"),
        (lambda: "k", "give Lock"),
    ],
    ids=range(16),
)
def test_wrong_declarations_are_refused_at_definition(
    declare: Callable[[], Any], said: str
) -> None:
    with pytest.raises(DefinitionError, match=said):

        class Wrong(Reactor):
            only = step(nothing).coordinate(declare())


def test_one_key_as_lock_and_as_semaphore_is_refused(runtime: Runtime) -> None:
    with pytest.raises(DefinitionError, match="both a lock's and a semaphore's"):

        class AtDefinition(Reactor):
            only = step(nothing).coordinate(Lock("k"), Semaphore("k", limit=2))

    with pytest.raises(DefinitionError, match="declared twice"):

        class Twice(Reactor):
            only = step(nothing).coordinate(Semaphore("k", limit=3), Semaphore("k", limit=2))

    class Mixed(Step):
        a: str
        b: str
        coordination = [Lock("{a}"), Semaphore("{b}", limit=2)]

        def run(self) -> None: ...

    class AtRunTime(Reactor):
        a: str
        b: str
        only = step(Mixed)

    found = failure(AtRunTime.run(a="k", b="k"))
    assert "different keys for locks and semaphores" in found.error
    assert AtRunTime.run(a="k", b="l").ok

    class Outer(Reactor):
        coordination = [Lock("k")]
        only = step(nothing).coordinate(Semaphore("k", limit=2))

    found = failure(Outer.run())
    assert "different keys for locks and semaphores" in found.error and found.step == "only"


def test_two_templates_that_come_out_equal_count_once(runtime: Runtime) -> None:
    class Transfer(Step):
        source: str
        target: str
        coordination = [Lock("acct:{source}"), Lock("acct:{target}")]

        def run(self) -> Any:
            return [hold.key for hold in self.context.holds]

    class Wired(Reactor):
        source: str
        target: str
        only = step(Transfer)

    assert Wired.run(source="a", target="a") == Success(["acct:a"])
    assert Wired.run(source="b", target="a") == Success(["acct:a", "acct:b"])


def test_fr_008_the_order_of_taking_is_fixed_and_let_go_in_reverse(runtime: Runtime) -> None:
    class All(Step):
        coordination = [
            Semaphore("s2", limit=2),
            Lock("l2"),
            RateLimit("r", limit=9, per="day"),
            Semaphore("s1", limit=2),
            Period("p", every="year"),
            Lock("l1"),
            OrderedLock("o"),
        ]

        def run(self) -> None: ...

    class Wired(Reactor):
        only = step(All)

    Wired.run()
    told = [line.removeprefix("hold.").replace(" only", "") for line in holds_told(only_run())]
    assert told == [
        "acquired ordered_lock o",
        "acquired period p",
        "acquired rate_limit r",
        "acquired lock l1",
        "acquired lock l2",
        "acquired semaphore s1",
        "acquired semaphore s2",
        "released semaphore s2",
        "released semaphore s1",
        "released lock l2",
        "released lock l1",
        "released ordered_lock o",
    ]


OUTCOMES: dict[str, Callable[[], Any]] = {
    "success": lambda: "done",
    "failure": lambda: Failure("no", retryable=False),
    "raised": lambda: 1 / 0,
    "fail": lambda: fail("no"),
    "halt": lambda: Halt("stop"),
}


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_fr_009_and_sc_003_released_with_the_end_of_the_step(
    runtime: Runtime, diary: list[str], outcome: str
) -> None:
    """FR-009, SC-003: whatever the outcome, before anything of the run happens after it."""
    seen: list[list[str]] = []

    class Wired(Reactor):
        only = step(locked(diary, "k", OUTCOMES[outcome]))

        @step
        def after(*, only: Any) -> None:
            seen.append(held_keys(runtime))

    Wired.run()
    lines = kinds(only_run())
    ends = {f"step.{how} only" for how in ("completed", "failed", "halted")}
    (ended,) = (place for place, line in enumerate(lines) if line in ends)
    released = lines.index("hold.released only lock k")
    assert abs(ended - released) == 1
    assert seen == ([[]] if outcome == "success" else [])
    assert held_keys(runtime) == []


def test_an_interrupted_step_holds_nothing_afterwards(runtime: Runtime, diary: list[str]) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    class Wired(Reactor):
        coordination = [Lock("outer"), OrderedLock("o")]
        only = step(locked(diary, "k", interrupt))

    with pytest.raises(KeyboardInterrupt):
        Wired.run()
    assert only_run().status.value == "aborted"
    assert held_keys(runtime) == [] and store_of(runtime).sequence("o") == []


def test_a_hold_is_let_go_of_while_the_step_waits_for_its_retry(runtime: Runtime) -> None:
    class Wired(Reactor):
        coordination = [RateLimit("quota", limit=1, per="day")]

        @step(retry=Retry(max_attempts=2, base_delay=0.02), coordination=[Lock("k")])
        def only(*, context: Any) -> int:
            if context.attempt == 1:
                raise ValueError("once more")
            return context.attempt  # type: ignore[no-any-return]

    assert Wired.run() == Success(2)
    assert [line.partition(" ")[0] for line in holds_told(only_run())][1:] == [
        "hold.acquired",
        "hold.released",
    ] * 2


def test_fr_012_nothing_is_taken_for_what_does_not_run(runtime: Runtime, diary: list[str]) -> None:
    class Wired(Reactor):
        wanted: bool
        only = step(locked(diary, "k")).when(inputs.wanted)

    with stranger(runtime, "k"):
        assert Wired.run(wanted=False) == Success(None)
    assert holds_told(only_run()) == [] and diary == []


def test_fr_014_declaring_changes_neither_which_steps_run_nor_their_order(
    runtime: Runtime, diary: list[str]
) -> None:
    def plain(name: str) -> type[Step]:
        class Plain(Step):
            def run(self) -> Any:
                diary.append(f"+{name}")

        return Plain

    def reactor(make: Callable[[str], type[Step]]) -> type[Reactor]:
        class Wired(Reactor):
            a = step(make("a"))
            b = step(make("b")).when(lambda i: False)
            c = step(make("c"))
            d = step(make("d")).after(a)

        return Wired

    reactor(plain).run()
    plainly, diary[:] = list(diary), []
    reactor(lambda name: locked(diary, name)).run()
    assert diary == plainly


def test_a_map_declares_for_each_element_and_a_compose_for_the_whole(runtime: Runtime) -> None:
    class Inner(Reactor):
        account: str
        coordination = [Lock("inner:{account}")]

        @step
        def only(*, account: str) -> Any:
            return held_keys(runtime)

    class Wired(Reactor):
        accounts: list[str]
        each = map_each(Charge, over=inputs.accounts, account=element).coordinate(
            Lock("also:{account}")
        )
        whole = compose(Inner, account="w").coordinate(Lock("outside:{account}")).after(each)

    assert Wired.run(accounts=["a", "b"]) == Success(["inner:w", "outside:w"])
    assert list(only_run().results["each"]) == [
        ["acct:a:EUR", "also:a"],
        ["acct:b:EUR", "also:b"],
    ]
    assert held_keys(runtime) == []
