"""The clock leases are timed by on one host: time since boot, and which boot that is.

The wall clock may be set; this one may not, and goes on while the machine sleeps. It starts anew
at each boot, so a lease also names the boot it was written under: under any other it has lapsed.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Protocol

_LINUX_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
UNKNOWN_BOOT = "unknown"


class LeaseClock(Protocol):
    """Times leases; every process that shares a storage must read the same one."""

    @property
    def boot_id(self) -> str:
        """What tells this boot of the host from any other."""
        ...

    def now(self) -> float:
        """Return seconds since the host's boot."""
        ...


class HostLeaseClock:
    """The host's clock since boot."""

    def __init__(self) -> None:
        self._boot_id = read_boot_id()
        self._clock = getattr(time, "CLOCK_BOOTTIME", None)

    @property
    def boot_id(self) -> str:
        """The host's boot id."""
        return self._boot_id

    def now(self) -> float:
        """Return seconds since boot, time asleep included where the system counts it."""
        return time.monotonic() if self._clock is None else time.clock_gettime(self._clock)


def read_boot_id() -> str:
    """Return the id of the host's present boot.

    Where the system has none to offer, returns a constant: then a lease from before a reboot is
    live until the new boot's clock passes its end, which is late but never early.
    """
    try:
        return _LINUX_BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return _darwin_boot_id() if sys.platform == "darwin" else UNKNOWN_BOOT


def _darwin_boot_id() -> str:
    command = ["/usr/sbin/sysctl", "-n", "kern.bootsessionuuid"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return UNKNOWN_BOOT
    return found.stdout.strip() or UNKNOWN_BOOT
