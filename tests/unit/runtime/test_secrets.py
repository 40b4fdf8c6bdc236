"""Redacted values: in the journal, where a resumed run needs them, and nowhere else."""

from __future__ import annotations

import logging
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from calandria import (
    Failure,
    Middleware,
    Reactor,
    Redacted,
    Run,
    RunInfo,
    Runtime,
    Step,
    StepInfo,
    compose,
    element,
    inputs,
    map_each,
    step,
)
from tests.unit.runtime.saga import only_run

SECRET = "tok-4711-secret"


class Charge(Step):
    token: str
    amount: int = 1

    def run(self) -> str:
        raise ValueError(f"refused {self.token}")

    def compensate(self, reason: object) -> None:
        raise LookupError(f"cannot void {self.token}")


class Issue(Step):
    def run(self) -> Redacted[str]:
        return SECRET


class Inner(Reactor):
    key: str
    charge = step(Charge, token=inputs.key)


def nested_call(token: str) -> type[Step]:
    class Caller(Step):
        card: Redacted[str]

        def run(self) -> Any:
            return self.context.call(SecretCharge, token=self.card)

    return Caller


class SecretCharge(Charge):
    token: Redacted[str]


def reactors() -> dict[str, type[Reactor]]:
    class Plain(Reactor):
        card: Redacted[str]
        charge = step(Charge, token=inputs.card)

    class Composed(Reactor):
        card: Redacted[str]
        inner = compose(Inner, key=inputs.card)

    class Mapped(Reactor):
        cards: Redacted[list[str]]
        each = map_each(Charge, over=inputs.cards, token=element)

    class MappedReactor(Reactor):
        cards: Redacted[list[str]]
        each = map_each(Inner, over=inputs.cards, key=element)

    class OfResult(Reactor):
        issue = step(Issue)
        charge = step(Charge, token=issue)

    class InPart(Reactor):
        data: Redacted[dict[str, str]]
        charge = step(Charge, token=inputs.data["card"])

    class Called(Reactor):
        card: Redacted[str]
        call = step(nested_call(SECRET))

    return {
        reactor.__name__: reactor
        for reactor in (Plain, Composed, Mapped, MappedReactor, OfResult, InPart, Called)
    }


VALUES: dict[str, dict[str, Any]] = {
    "Plain": {"card": SECRET},
    "Composed": {"card": SECRET},
    "Mapped": {"cards": [SECRET]},
    "MappedReactor": {"cards": [SECRET]},
    "OfResult": {},
    "InPart": {"data": {"card": SECRET}},
    "Called": {"card": SECRET},
}


class Spy(Middleware):
    heard: list[str] = []

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith(("run_", "step_", "undo_", "compensation_")):
            return super().__getattribute__(name)

        def hear(*arguments: object) -> None:
            # what a step returns is the one thing that middleware gets as it is
            told = [a for a in arguments if isinstance(a, (RunInfo, StepInfo, Failure))]
            Spy.heard.append(f"{name} {[_visible(a) for a in told]}")

        return hear


def _visible(found: Any) -> str:
    if isinstance(found, Failure):
        return repr((found.error, found.inputs, found.traceback, found.validation_errors))
    return repr(found)


def shown_of(run: Run, result: object) -> str:
    """Return everything that the library shows of a run, as text."""
    lines = [repr(run.inputs), repr(run.draw("text")), repr(run.draw("mermaid"))]
    lines += [repr(entry) for entry in run.trace]
    waiting = [""]
    while waiting:
        for view in run.steps(waiting.pop()):
            lines.append(repr((view.inputs, view.result, view.rollback_failures)))
            if view.error is not None:
                lines.append(_visible(view.error))
            waiting.append(view.path)
    for failure in (result, run.result):
        assert isinstance(failure, Failure)
        lines.append(_visible(failure))
        lines.append(repr(failure.rollback_failures))
    return "\n".join(lines)


@pytest.mark.parametrize("name", VALUES)
def test_a_secret_is_shown_nowhere_on_its_wires(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    Spy.heard = []
    reactor = reactors()[name]
    url = f"sqlite:///{tmp_path}/runs.db"

    with caplog.at_level(logging.DEBUG), Runtime(url, middleware=[Spy]):
        result = reactor.run(**VALUES[name])
        everything = shown_of(only_run(), result)

    assert isinstance(result, Failure)
    assert result.error == "refused [REDACTED]"
    assert SECRET not in everything
    assert "[REDACTED]" in everything
    assert SECRET not in "\n".join(Spy.heard)
    assert Spy.heard
    assert SECRET not in caplog.text
    assert [f.message for f in result.rollback_failures] == ["LookupError: cannot void [REDACTED]"]


@pytest.mark.parametrize("name", VALUES)
def test_the_journal_keeps_it_in_the_inputs_and_results_only(name: str, tmp_path: Path) -> None:
    reactor = reactors()[name]
    with Runtime(f"sqlite:///{tmp_path}/runs.db"):
        reactor.run(**VALUES[name])

    found = set()
    with sqlite3.connect(tmp_path / "runs.db") as connection:
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        for (table,) in tables.fetchall():
            cursor = connection.execute(f"SELECT * FROM {table}")
            names = [column[0] for column in cursor.description]
            for row in cursor.fetchall():
                found |= {
                    (table, column)
                    for column, value in zip(names, row, strict=True)
                    if SECRET in str(value)
                }
    connection.close()

    assert found
    assert {column for _, column in found} <= {"inputs", "result"}


def test_validation_errors_do_not_show_it() -> None:
    class Strict(Step):
        pin: Redacted[int]

        def run(self) -> None: ...

    class Saga(Reactor):
        pin: Redacted[str]
        strict = step(Strict, pin=inputs.pin)

    class Direct(Reactor):
        pin: Redacted[int]
        strict = step(Strict, pin=inputs.pin)

    with Runtime("memory://"):
        for result in (
            Saga.run(pin=SECRET),
            Direct.run(pin=SECRET),  # type: ignore[arg-type]
            Strict.call(pin=SECRET),  # type: ignore[arg-type]
        ):
            assert isinstance(result, Failure)
            assert "pin" in result.error
            assert SECRET not in _visible(result)


def test_a_secret_in_a_function_of_the_definition_is_scrubbed() -> None:
    def broken(value: str) -> None:
        raise ValueError(f"cannot use {value}")

    class Take(Step):
        value: Any = None

        def run(self) -> str:
            return "x"

    class InMap(Reactor):
        card: Redacted[str]
        take = step(Take, value=inputs.card.map(broken))

    class InOver(Reactor):
        card: Redacted[str]
        take = map_each(Take, over=inputs.card.map(broken))

    class InReturns(Reactor):
        card: Redacted[str]
        take = step(Take, value=inputs.card)
        returns = take.map(lambda value: broken(SECRET))

    with Runtime("memory://"):
        for reactor in (InMap, InOver, InReturns):
            result = reactor.run(card=SECRET)
            assert isinstance(result, Failure)
            assert "cannot use [REDACTED]" in result.error


def test_the_reason_of_an_abort_is_scrubbed() -> None:
    class Cut(Step):
        card: Redacted[str]

        def run(self) -> None:
            raise SystemExit(f"stopped with {self.card}")

    class Saga(Reactor):
        card: Redacted[str]
        cut = step(Cut)

    with Runtime("memory://"):
        with pytest.raises(SystemExit):
            Saga.run(card=SECRET)
        result = only_run().result

    assert isinstance(result, Failure)
    assert result.error == "SystemExit: stopped with [REDACTED]"


def test_bodies_get_the_value_itself() -> None:
    class Take(Step):
        card: Redacted[str]

        def run(self) -> bool:
            return self.card == SECRET

        def undo(self, result: bool) -> None:
            assert self.card == SECRET

    class Saga(Reactor):
        card: Redacted[str]
        take = step(Take)

    with Runtime("memory://"):
        assert Saga.run(card=SECRET).value is True  # type: ignore[union-attr]
        assert only_run().undo() is not None
        assert only_run().rollback == "complete"


def test_short_texts_are_not_scrubbed_from_messages() -> None:
    class Work(Step):
        pin: Redacted[str]

        def run(self) -> None:
            raise ValueError("a1b")

    class Saga(Reactor):
        pin: Redacted[str]
        work = step(Work)

    with Runtime("memory://"):
        result = Saga.run(pin="1")

    assert isinstance(result, Failure)
    assert result.error == "a1b"
    assert result.inputs == {"pin": "[REDACTED]"}
