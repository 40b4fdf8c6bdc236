"""The documentation lists exactly the names that the code reserves."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from calandria.definition.names import FUNCTION_SPECIAL, REACTOR_RESERVED, STEP_RESERVED
from calandria.definition.reactors import Reactor
from calandria.definition.step_function import step
from calandria.definition.steps import Step
from calandria.errors import DefinitionError

PAGE = Path(__file__).parents[3] / "docs" / "reserved-names.md"


def listed(heading: str) -> set[str]:
    section = PAGE.read_text(encoding="utf-8").partition(f"## {heading}\n")[2].partition("\n## ")[0]
    return set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE))


@pytest.mark.parametrize(
    ("heading", "names"),
    [
        ("Steps", STEP_RESERVED),
        ("Reactors", REACTOR_RESERVED),
        ("Functions", FUNCTION_SPECIAL),
    ],
)
def test_the_page_lists_what_the_code_reserves(heading: str, names: frozenset[str]) -> None:
    assert listed(heading) == names


def test_every_public_attribute_of_step_and_reactor_is_reserved() -> None:
    assert {name for name in vars(Step) if not name.startswith("_")} <= STEP_RESERVED
    assert {name for name in vars(Reactor) if not name.startswith("_")} <= REACTOR_RESERVED


@pytest.mark.parametrize("name", sorted(STEP_RESERVED))
def test_no_reserved_name_is_an_input_of_a_step(name: str) -> None:
    with pytest.raises(DefinitionError, match=f"an input cannot be called '{name}'"):
        type("Bad", (Step,), {"__annotations__": {name: "int"}})


@pytest.mark.parametrize("name", sorted(REACTOR_RESERVED))
def test_no_reserved_name_is_an_input_of_a_reactor(name: str) -> None:
    with pytest.raises(DefinitionError, match=f"an input cannot be called '{name}'"):
        type("Bad", (Reactor,), {"__annotations__": {name: "int"}})


@pytest.mark.parametrize("name", sorted(REACTOR_RESERVED - {"returns"}))
def test_no_reserved_name_is_a_step(name: str) -> None:
    with pytest.raises(DefinitionError, match=rf"Bad\.{name}: the library uses this name"):
        type("Bad", (Reactor,), {name: step(print)})
