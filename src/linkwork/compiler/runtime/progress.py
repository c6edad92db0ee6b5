"""Progress messages on stderr when building a kernel takes longer than two seconds.

They are shown if stderr is a terminal or `LINKWORK_PROGRESS` is 1, and never if it is 0.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from types import TracebackType

from linkwork.compiler.runtime.signals import reraise_signal

FIRST_MESSAGE_SECONDS = 2.0  # delay of the first message
MESSAGE_INTERVAL_SECONDS = 1.0  # between messages, which replace each other on a terminal


def is_enabled() -> bool:
    """Return True if progress is to be shown."""
    setting = os.environ.get("LINKWORK_PROGRESS", "")
    if setting in ("0", "1"):
        return setting == "1"
    try:
        return sys.stderr.isatty()
    except (AttributeError, ValueError, OSError):  # missing or closed
        return False


class Progress:
    """Context of a kernel being built; `stage` sets the displayed activity."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._stage = "tracing"
        self._has_printed = False
        self._start = time.monotonic()
        self._finished = threading.Event()
        self._thread: threading.Thread | None = None

    def stage(self, words: str) -> None:
        """Set the displayed activity."""
        self._stage = words

    def __enter__(self) -> Progress:
        if is_enabled():
            self._thread = threading.Thread(target=self._watch, name="linkwork progress", daemon=True)
            try:
                self._thread.start()
            except RuntimeError as error:  # thread limit reached: show no progress
                reraise_signal(error)
                self._thread = None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._thread is None:
            return
        self._finished.set()
        self._thread.join()
        if self._has_printed:
            self._print(
                f"{'ready' if kind is None else 'failed'} after {time.monotonic() - self._start:.1f} s",
                end="\n",
            )

    def _watch(self) -> None:
        pause = FIRST_MESSAGE_SECONDS
        while not self._finished.wait(pause):
            self._has_printed = True
            pause = MESSAGE_INTERVAL_SECONDS
            self._print(f"{self._stage} ({time.monotonic() - self._start:.0f} s)", end="")

    def _print(self, words: str, end: str) -> None:
        try:
            terminal = sys.stderr.isatty()
            text = f"linkwork: {self.name}: {words}"
            sys.stderr.write(f"\r{text:<79}{end}" if terminal else f"{text}\n")
            sys.stderr.flush()
        except (AttributeError, ValueError, OSError):
            self._finished.set()  # stderr is gone
