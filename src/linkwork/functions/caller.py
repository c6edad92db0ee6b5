"""Stack level of warnings: the first code outside this package."""

from __future__ import annotations

import os
import sys

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def caller_stacklevel() -> int:
    """Return the `stacklevel` of the first code outside this package."""
    level = 1
    frame = sys._getframe(1)
    while frame.f_back is not None and os.path.abspath(frame.f_code.co_filename).startswith(PACKAGE):
        level = level + 1
        frame = frame.f_back
    return level
