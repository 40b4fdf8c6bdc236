from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from calandria.cli.app import app

ROOT = Path(__file__).parents[3]
SHOP = "tests.unit.cli.shop"


@dataclass(frozen=True)
class Outcome:
    """What a command wrote and returned."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        return json.loads(self.out)


Invoke = Callable[..., Outcome]


@pytest.fixture(autouse=True)
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CALANDRIA_STORAGE", "sqlite:///runs.db")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return tmp_path


@pytest.fixture
def calandria() -> Invoke:
    """Run a command in this process, on the SQLite file in the test's own directory."""

    def invoke(*arguments: str, text: str | None = None) -> Outcome:
        named = "--storage" in arguments
        storage = () if named else ("--storage", "sqlite:///runs.db")
        result = CliRunner().invoke(app, [*storage, *arguments], input=text)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Outcome(result.exit_code, result.stdout, result.stderr)

    return invoke


@pytest.fixture(scope="session")
def nursery() -> Iterator[subprocess.Popen[str]]:
    """A process that forks for each command, so that not each of them has to import everything."""
    serving = subprocess.Popen(
        [sys.executable, "-W", "error", str(Path(__file__).with_name("nursery.py"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with serving:
        yield serving
        assert serving.stdin is not None
        serving.stdin.close()


@pytest.fixture
def process(nursery: subprocess.Popen[str]) -> Invoke:
    """Run a command in a process that has imported nothing but the library."""
    assert nursery.stdin is not None and nursery.stdout is not None
    asking, answering = nursery.stdin, nursery.stdout

    def invoke(*arguments: str, **environment: str) -> Outcome:
        asked = {
            "arguments": arguments,
            "environment": {**os.environ, **environment},
            "directory": os.getcwd(),
        }
        asking.write(f"{json.dumps(asked)}\n")
        asking.flush()
        return Outcome(**json.loads(answering.readline()))

    return invoke


@pytest.fixture
def python() -> Invoke:
    """Run a command as users do, in an interpreter of its own."""

    def invoke(*arguments: str, **environment: str) -> Outcome:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-m", "calandria", *arguments],
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **environment},
        )
        return Outcome(done.returncode, done.stdout, done.stderr)

    return invoke


@pytest.fixture
def checkout(calandria: Invoke) -> Callable[..., Outcome]:
    """Run a checkout and return what the command wrote as JSON."""

    def invoke(mode: str = "ok", lines: str = '["tea", "salt"]') -> Outcome:
        return calandria(
            "run",
            f"{SHOP}:Checkout",
            "--input",
            "order_id=7",
            "--input",
            f"lines={lines}",
            "--input",
            f"mode={mode}",
            "--input",
            "card=4111-1111",
            "--json",
        )

    return invoke
