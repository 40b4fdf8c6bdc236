"""Identifiers: of runs, of processes, and of inputs."""

from __future__ import annotations

import hashlib
import os
import secrets
import socket


def new_run_id(now: float) -> str:
    """Return a new run id: random, and in the order of creation when sorted as text.

    A UUID of version 7. Source: RFC 9562, section 5.7.
    """
    milliseconds = int(now * 1000) & ((1 << 48) - 1)
    random = int.from_bytes(secrets.token_bytes(10), "big")
    high = (0x7 << 12) | (random >> 68) & 0xFFF
    low = (0b10 << 62) | random & ((1 << 62) - 1)
    digits = f"{milliseconds << 16 | high:016x}{low:016x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def owner_name() -> str:
    """Return a name for this process as the owner of leases, unique to the runtime it is for."""
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"


def digest(text: str) -> str:
    """Return a digest by which equal inputs are known."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
