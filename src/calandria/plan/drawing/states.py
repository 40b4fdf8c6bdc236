"""How the states of steps look: one symbol, one word and one tone each, in every format."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from calandria.statuses import StepRollback, StepStatus


class Tone(str, Enum):
    """The families of states that share a colour."""

    DONE = "done"
    ACTIVE = "active"
    WAITING = "waiting"
    FAILED = "failed"
    REVERSED = "reversed"
    QUIET = "quiet"
    PLAIN = "plain"


@dataclass(frozen=True)
class Look:
    """How one state is shown. `rank` orders states by how much they matter to a reader."""

    symbol: str
    word: str
    tone: Tone
    rank: int


LOOKS: Mapping[str, Look] = {
    StepRollback.UNDO_FAILED.value: Look("!", "undo failed", Tone.FAILED, 0),
    StepRollback.COMPENSATE_FAILED.value: Look("!", "compensate failed", Tone.FAILED, 0),
    StepStatus.FAILED.value: Look("✗", "failed", Tone.FAILED, 1),
    StepRollback.COMPENSATING.value: Look("…", "compensating", Tone.ACTIVE, 2),
    StepRollback.UNDOING.value: Look("…", "undoing", Tone.ACTIVE, 2),
    StepRollback.COMPENSATED.value: Look("↶", "compensated", Tone.REVERSED, 3),
    StepStatus.STARTED.value: Look("▶", "started", Tone.ACTIVE, 4),
    StepStatus.RETRYING.value: Look("↻", "retrying", Tone.WAITING, 5),
    StepStatus.HALTED.value: Look("■", "halted", Tone.WAITING, 6),
    StepRollback.UNDONE.value: Look("↶", "undone", Tone.REVERSED, 7),
    StepStatus.COMPLETED.value: Look("✓", "completed", Tone.DONE, 8),
    StepStatus.SKIPPED.value: Look("-", "skipped", Tone.QUIET, 9),
}

NOT_REACHED = Look("·", "", Tone.PLAIN, 10)

_ELEMENT = re.compile(r"\[\d+\]")


def look_of(status: str) -> Look:
    """Return how `status` is shown; a status this version does not know shows as its own name."""
    if not status:
        return NOT_REACHED
    return LOOKS.get(status) or Look("?", status.replace("_", " "), Tone.PLAIN, 6)


@dataclass(frozen=True)
class Seen:
    """What is known of one place in the plan: the state that matters most, in words."""

    look: Look
    words: str


class Statuses:
    """A run's statuses by place in the plan; those of a map's elements are counted together."""

    def __init__(self, by_path: Mapping[str, str]) -> None:
        self._counts: dict[str, Counter[str]] = {}
        for path, status in by_path.items():
            self._counts.setdefault(_ELEMENT.sub("[]", path), Counter())[str(status)] += 1

    def at(self, path: str) -> Seen:
        """Return what is known of the step at `path`, with `[]` for any element of a map."""
        counts = self._counts.get(path)
        if counts is None:
            return Seen(NOT_REACHED, "")
        looks = sorted(((look_of(s), n) for s, n in counts.items()), key=lambda e: e[0].rank)
        if "[]" not in path:
            return Seen(looks[0][0], looks[0][0].word)
        return Seen(looks[0][0], " · ".join(f"{n} {look.word}" for look, n in looks if look.word))

    def elements(self, path: str) -> str:
        """Return how many of a map's elements stand in which state; empty if none is known."""
        return self.at(path + "[]").words
