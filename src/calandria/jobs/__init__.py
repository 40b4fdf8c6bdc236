"""Jobs: back ends that carry "look at this run" from those who cause it to the workers."""

from __future__ import annotations
