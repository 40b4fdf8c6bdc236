"""A process that has imported the command line and nothing of the tests, and forks for commands.

Run as a script. Each line of its standard input asks for one command; each line of its standard
output answers with the exit code (negative: killed by that signal) and what the command wrote.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Mapping
from importlib import import_module
from typing import Any, NoReturn


def serve() -> None:
    """Answer until the standard input ends."""
    answers = os.dup(1)
    for line in sys.stdin:
        answer = json.dumps(_perform(json.loads(line)))
        os.write(answers, f"{answer}\n".encode())


def _perform(asked: Mapping[str, Any]) -> dict[str, Any]:
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = os.fork()
        if child == 0:
            _become(asked, out.fileno(), err.fileno())
        _, status = os.waitpid(child, 0)
        written = []
        for file in (out, err):
            file.seek(0)
            written.append(file.read().decode())
    return {"code": os.waitstatus_to_exitcode(status), "out": written[0], "err": written[1]}


def _become(asked: Mapping[str, Any], out: int, err: int) -> NoReturn:
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(out, 1)
    os.dup2(err, 2)
    os.chdir(asked["directory"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    sys.path[0] = os.environ["PYTHONPATH"]
    sys.argv = ["calandria", *asked["arguments"]]
    code = 1
    try:
        main()
    except SystemExit as exit:
        code = exit.code if isinstance(exit.code, int) else 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    from calandria.cli import main

    import_module("calandria.cli.app")
    serve()
