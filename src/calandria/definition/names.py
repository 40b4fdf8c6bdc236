"""The names that inputs and steps cannot have, because the library uses them."""

from __future__ import annotations

STEP_RESERVED: frozenset[str] = frozenset(
    {
        "acall",
        "call",
        "call_compensate",
        "call_undo",
        "compensate",
        "context",
        "coordination",
        "reconcile",
        "retry",
        "rollback_retry",
        "run",
        "undo",
    }
)
"""Not allowed as inputs of a step class."""

FUNCTION_SPECIAL: frozenset[str] = frozenset({"context", "reason", "result"})
"""Parameters of function steps that are never wired: the library fills them."""

REACTOR_RESERVED: frozenset[str] = frozenset(
    {
        "arun",
        "background",
        "cancel",
        "check",
        "concurrency",
        "context",
        "coordination",
        "definition",
        "draw",
        "find",
        "inputs",
        "middleware",
        "options",
        "recover",
        "resume",
        "resume_by_correlation",
        "returns",
        "run",
        "undo",
    }
)
"""Not allowed as inputs or steps of a reactor."""
