"""What `calandria worker` serves in these tests: the reactors, and steps that stay in place.

`WORKSHOP` is the folder; the actions of the step `STAY` wait there for the file `gate`, and, with
`HEEDS`, leave when they are told to stop.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tests.crash import steplog
from tests.crash.background.deeds import Acting
from tests.crash.background.reactors import Chain
from tests.crash.children import until
from tests.crash.steplog import StepLog

__all__ = ["Chain"]

_FOLDER = Path(os.environ["WORKSHOP"])


def _stay(context: Any) -> None:
    gate, heeds = _FOLDER / "gate", "HEEDS" in os.environ
    until(lambda: gate.exists() or (heeds and context.cancelled), "the gate was not opened")
    if not gate.exists():
        raise InterruptedError("told to stop")


steplog.use(StepLog(_FOLDER / "steps.log"))
Acting.by_path = {("run", os.environ.get("STAY", "")): _stay}
