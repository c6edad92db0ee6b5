"""How many examples a law gets that hypothesis drives: all of them in `make test-all`, a third in `make
test`.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

ALL = bool(os.environ.get("LINKWORK_TEST_ALL"))


def law(examples: int) -> settings:
    some = examples if ALL else -(-examples // 3)
    return settings(
        max_examples=some, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
    )
