"""FR-006: what coordinates on which keys, before anything runs."""

from __future__ import annotations

from pathlib import Path

from tests.unit.cli.conftest import Invoke

HARBOUR = "tests.unit.cli.harbour"
PORT = """
import calandria
from calandria import Lock, OrderedLock, Period, RateLimit, Reactor, Semaphore, Settings, step

class Port(Reactor):
    name: str
    coordination = [OrderedLock("port:{name}", strict=False)]

    @step(coordination=[
        Semaphore("cranes", limit=3), RateLimit("lorries", limits={"minute": 2, "day": 50}),
        Period("inspection", every=90), RateLimit.named("fees"), Lock(lambda i: i.name),
    ])
    def unload(*, name: str) -> str:
        return name
"""
REGISTERED = "calandria.configure(settings=Settings(rate_limits={'fees': {'day': 9}}))"


def test_check_lists_what_is_declared(process: Invoke) -> None:
    Path("port.py").write_text(f"{PORT}\n{REGISTERED}\n", encoding="utf-8")

    checked = process("check", "port")

    assert checked.code == 0, checked.err
    assert checked.out.splitlines() == [
        "ok  port:Port",
        "      the reactor: OrderedLock 'port:{name}', lenient",
        "      unload: Semaphore 'cranes', 3 at a time",
        "      unload: RateLimit 'lorries', 2 a minute, 50 a day",
        "      unload: Period 'inspection', once every 90 s",
        "      unload: RateLimit named 'fees'",
        "      unload: Lock by a function of its inputs",
    ]
    (found,) = process("check", "port", "--json").data
    assert found["coordination"][0] == {
        "step": None, "primitive": "OrderedLock", "key": "port:{name}",
    }  # fmt: skip
    assert found["coordination"][-1] == {"step": "unload", "primitive": "Lock", "key": None}


def test_check_finds_rate_limits_that_nobody_registered(process: Invoke) -> None:
    Path("port.py").write_text(PORT, encoding="utf-8")

    checked = process("check", "port")

    assert checked.code == 2 and checked.out == ""
    assert "port:Port: step 'unload' uses the rate limit 'fees', which is not registered" in (
        checked.err
    )
    (found,) = process("check", "port", "--json").data
    assert "'fees'" in found["error"] and len(found["coordination"]) == 6


def test_what_a_nested_reactor_declares_is_its_own(calandria: Invoke) -> None:
    found = {one["subject"]: one for one in calandria("check", HARBOUR, "--json").data}

    assert found[f"{HARBOUR}:Departure"]["coordination"] == [
        {"step": None, "primitive": "Lock", "key": "ship:{ship}"}
    ]
    assert [one["primitive"] for one in found[f"{HARBOUR}:Clearance"]["coordination"]] == [
        "RateLimit", "Period", "Lock",
    ]  # fmt: skip
