"""The settings of a runtime, all but `rate_limits` also read from `CALANDRIA_<NAME>` variables."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal, cast

from calandria.coordination.primitives import RateLimit, check_limits
from calandria.errors import CalandriaError, DefinitionError

DEFAULT_MAX_VALUE_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True)
class Settings:
    """How a runtime behaves. Durations are seconds or `timedelta`.

    Raises `CalandriaError` for a value out of range, naming the setting.
    """

    lease_ttl: float | timedelta = 60.0
    """How long after its last sign of life a process is judged dead."""
    max_recoveries: int = 5
    """How often crashes may cut one action off before it counts as failed."""
    undo_wait: float | timedelta = 5.0
    """How long `undo` waits for a run that another process executes."""
    sweep_interval: float | timedelta = 30.0
    """How often a worker looks for runs that lost their process or their job."""
    snooze_base_delay: float | timedelta = 5.0
    """How long a run is left that waits for a key, or that no worker here can go on with."""
    snooze_jitter: float | timedelta = 5.0
    """How much longer, at random, so that not all come back at once."""
    snooze_max_attempts: int = 20
    """How often in a row a worker's run is parked for one key before that counts as a failure."""
    rate_limits: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Rate limits shared by name: `{"stripe": {"second": 3, "minute": 100}}`."""
    wait_timeout: float | timedelta = 30.0
    """How long a caller's process waits for a spawned unit whose result a step uses."""
    park_timeout: float | timedelta = 3600.0
    """How long after its dispatch a worker's run waits for such a unit."""
    max_value_bytes: int = DEFAULT_MAX_VALUE_BYTES
    """The largest value the journal takes, encoded."""
    retention: float | timedelta | None = None
    """How long finished runs are kept by `prune`; `None` keeps them."""
    sqlite_synchronous: Literal["FULL", "NORMAL", "OFF"] = "FULL"
    """SQLite's durability: with less than `FULL` a power cut may cost the last commits."""

    def __post_init__(self) -> None:
        for setting in dataclasses.fields(self):
            value = getattr(self, setting.name)
            if isinstance(value, timedelta):
                object.__setattr__(self, setting.name, value.total_seconds())
        self._require("lease_ttl", self.lease_ttl, minimum=0.05)
        self._require("max_recoveries", self.max_recoveries, minimum=0)
        self._require("undo_wait", self.undo_wait, minimum=0)
        self._require("sweep_interval", self.sweep_interval, minimum=0.05)
        self._require("snooze_base_delay", self.snooze_base_delay, minimum=0)
        self._require("snooze_jitter", self.snooze_jitter, minimum=0)
        self._require("snooze_max_attempts", self.snooze_max_attempts, minimum=1)
        for name, limits in self.rate_limits.items():
            try:
                check_limits(RateLimit.named(name), limits)
            except DefinitionError as error:
                raise CalandriaError(f"Settings(rate_limits={{{name!r}: ...}}): {error}") from None
        self._require("wait_timeout", self.wait_timeout, minimum=0)
        self._require("park_timeout", self.park_timeout, minimum=0)
        self._require("max_value_bytes", self.max_value_bytes, minimum=1)
        if self.retention is not None:
            self._require("retention", self.retention, minimum=0)
        if self.sqlite_synchronous not in ("FULL", "NORMAL", "OFF"):
            raise CalandriaError(
                f"Settings(sqlite_synchronous={self.sqlite_synchronous!r}): "
                "use 'FULL', 'NORMAL' or 'OFF'."
            )

    def _require(self, name: str, value: object, *, minimum: float) -> None:
        whole = name in _WHOLE_NUMBERS
        kinds = int if whole else (int, float)
        number = isinstance(value, kinds) and not isinstance(value, bool)
        if not number or not cast(float, value) >= minimum:
            raise CalandriaError(
                f"Settings({name}={value!r}): give a {'whole ' if whole else ''}number of at least "
                f"{minimum:g}."
            )

    @property
    def lease_seconds(self) -> float:
        """`lease_ttl` in seconds."""
        return cast(float, self.lease_ttl)

    @property
    def undo_wait_seconds(self) -> float:
        """`undo_wait` in seconds."""
        return cast(float, self.undo_wait)

    @property
    def wait_seconds(self) -> float:
        """`wait_timeout` in seconds."""
        return cast(float, self.wait_timeout)

    @property
    def park_seconds(self) -> float:
        """`park_timeout` in seconds."""
        return cast(float, self.park_timeout)

    @property
    def sweep_seconds(self) -> float:
        """`sweep_interval` in seconds."""
        return cast(float, self.sweep_interval)

    def snooze_seconds(self, randomness: float) -> float:
        """Return how long to leave a run alone; `randomness` is a number from 0 to 1."""
        base, jitter = cast(float, self.snooze_base_delay), cast(float, self.snooze_jitter)
        return base + jitter * randomness

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Settings:
        """Return the settings that `CALANDRIA_<NAME>` variables give, defaults elsewhere.

        Raises `CalandriaError` naming the variable when its text is not what the setting takes.
        """
        given: dict[str, object] = {}
        for setting in dataclasses.fields(cls):
            variable = f"CALANDRIA_{setting.name.upper()}"
            if variable in environment and setting.name != "rate_limits":
                given[setting.name] = _parse(variable, setting.name, environment[variable])
        return cls(**given)  # type: ignore[arg-type]


_WHOLE_NUMBERS = frozenset({"max_recoveries", "max_value_bytes", "snooze_max_attempts"})


def _parse(variable: str, name: str, text: str) -> object:
    if name == "sqlite_synchronous":
        return text.upper()
    if name == "retention" and text.lower() in ("", "none"):
        return None
    try:
        return int(text) if name in _WHOLE_NUMBERS else float(text)
    except ValueError:
        raise CalandriaError(f"{variable}={text!r}: give a number.") from None
