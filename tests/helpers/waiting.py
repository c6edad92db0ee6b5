"""Waiting for other threads and processes, however busy the machine is."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE = 600.0  # seconds: far beyond what anything that works needs, also where ten processes share a core


def wait_until(condition: Callable[[], object]) -> None:
    """Return when a condition holds; fail if it never does."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "what is waited for does not come"
        time.sleep(0.002)


def quiet_background() -> None:
    """Return when no kernel is being compiled in the background: jobs of earlier tests are dropped, but for
    the one that runs.

    A kernel whose job was dropped is optimised by whoever waits for it.
    """
    from linkwork.compiler.runtime.compiler import background

    thread = background._thread
    running = thread is not None and thread.is_alive()
    with background._lock:
        while len(background._jobs) > running:
            background._jobs.pop()
    wait_until(lambda: background._thread is None or not background._thread.is_alive())
