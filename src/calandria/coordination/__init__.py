"""Coordination: what a reactor or a step declares about when it may run."""

from __future__ import annotations
