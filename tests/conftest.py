"""What every test stands on: how many examples hypothesis draws, and where runs are kept."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# A test that configures nothing must not leave a calandria.db in the working directory.
os.environ.setdefault("CALANDRIA_STORAGE", "memory://")

# A shared two-core machine is slow at times: pytest's own timeout is the only deadline.
settings.register_profile("default", deadline=None, max_examples=100)
settings.register_profile(
    "ci",
    deadline=None,
    max_examples=300,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("soak", parent=settings.get_profile("ci"), max_examples=5000)

_DEFAULT_PROFILE = "ci" if os.environ.get("CI") else "default"
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", _DEFAULT_PROFILE))
