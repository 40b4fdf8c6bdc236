"""What `import calandria` loads, and that everything public is there all the same."""

import subprocess
import sys

import calandria

# what declaring a reactor does not take; a driver, a terminal or a peer is never loaded for it
HEAVY = {
    "asyncio",
    "calandria.codec",
    "calandria.plan.drawing",
    "calandria.runtime",
    "calandria.storage",
    "concurrent.futures",
    "dbos",
    "difflib",
    "fastapi",
    "json",
    "logging",
    "opentelemetry",
    "psycopg",
    "pydantic",
    "pydantic_core",
    "redis",
    "rich",
    "socket",
    "sqlalchemy",
    "sqlite3",
    "ssl",
    "subprocess",
    "typer",
}


def in_fresh_interpreter(code: str) -> list[str]:
    """Run `code` in an interpreter of its own and return the words it prints."""
    command = [sys.executable, "-c", code]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.split()


def test_importing_loads_nothing_heavy() -> None:
    loaded = in_fresh_interpreter("import sys, calandria; print(*sys.modules)")

    assert "calandria.definition.reactors" in loaded
    assert HEAVY.isdisjoint(loaded)


def test_declaring_loads_no_runtime() -> None:
    loaded = in_fresh_interpreter(
        "import sys\n"
        "from calandria import Reactor, Step, step\n"
        "class Greet(Step):\n"
        "    name: str\n"
        "    def run(self) -> str:\n"
        "        return self.name\n"
        "class Greeting(Reactor):\n"
        "    name: str\n"
        "    greet = step(Greet)\n"
        "print(*sys.modules)"
    )

    assert {"calandria.runtime", "asyncio", "sqlite3"}.isdisjoint(loaded)


def test_the_first_run_finds_what_it_takes() -> None:
    said = in_fresh_interpreter(
        "import os; os.environ['CALANDRIA_STORAGE'] = 'memory://'\n"
        "from calandria import Reactor, step\n"
        "class Greeting(Reactor):\n"
        "    name: str\n"
        "    @step\n"
        "    def greet(*, name: str) -> str:\n"
        "        return name\n"
        "print(Greeting.run(name='Ada').value)"
    )

    assert said == ["Ada"]


def test_a_star_import_and_dir_give_every_public_name() -> None:
    names = in_fresh_interpreter("from calandria import *; print(*dir())")
    listed = in_fresh_interpreter("import calandria; print(*dir(calandria))")

    assert set(calandria.__all__) <= set(names)
    assert set(calandria.__all__) <= set(listed)


def test_a_name_loaded_when_used_is_the_one_its_module_has() -> None:
    same = in_fresh_interpreter(
        "import calandria; from calandria import Runtime as first\n"
        "from calandria.runtime.runtime import Runtime, register\n"
        "print(first is Runtime, calandria.Runtime is Runtime, calandria.register == register)"
    )

    assert same == ["True", "True", "True"]


def test_an_unknown_name_is_an_attribute_error() -> None:
    said = in_fresh_interpreter(
        "import calandria\ntry: calandria.Rnutime\nexcept AttributeError as error: print(error)"
    )

    assert "'Rnutime'" in said
