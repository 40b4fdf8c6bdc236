"""The runtime: executes runs under leases, in threads and on event loops."""

from __future__ import annotations

from calandria.definition.execution import set_executor
from calandria.runtime.executor import RuntimeExecutor

set_executor(RuntimeExecutor())
