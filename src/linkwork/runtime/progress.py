"""Says on stderr what is under way where making a kernel takes longer than two seconds.

Only where stderr is a terminal, or `LINKWORK_PROGRESS` is 1; with `LINKWORK_PROGRESS` 0 never.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from types import TracebackType

AFTER = 2.0  # seconds before the first word
EVERY = 1.0  # seconds between words on a terminal, which replace one another


def wanted() -> bool:
    """Whether progress is to be shown."""
    asked = os.environ.get("LINKWORK_PROGRESS", "")
    if asked in ("0", "1"):
        return asked == "1"
    try:
        return sys.stderr.isatty()
    except (AttributeError, ValueError, OSError):  # there is none, or it is closed
        return False


class Progress:
    """A context in which something is made; `stage` says what is done now."""

    def __init__(self, name: str) -> None:
        self.name, self._stage, self._shown = name, "tracing", False
        self._start, self._over = time.monotonic(), threading.Event()
        self._thread: threading.Thread | None = None

    def stage(self, words: str) -> None:
        """From now on, this is done."""
        self._stage = words

    def __enter__(self) -> Progress:
        if wanted():
            self._thread = threading.Thread(target=self._watch, name="linkwork progress", daemon=True)
            try:
                self._thread.start()
            except RuntimeError:  # no more threads: be silent
                self._thread = None
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._thread is None:
            return
        self._over.set()
        self._thread.join()
        if self._shown:
            self._say(f"{'ready' if kind is None else 'given up'} after {time.monotonic() - self._start:.1f} s", end="\n")

    def _watch(self) -> None:
        pause = AFTER
        while not self._over.wait(pause):
            self._shown, pause = True, EVERY
            self._say(f"{self._stage} ({time.monotonic() - self._start:.0f} s)", end="")

    def _say(self, words: str, end: str) -> None:
        try:
            terminal = sys.stderr.isatty()
            text = f"linkwork: {self.name}: {words}"
            sys.stderr.write(f"\r{text:<79}{end}" if terminal else f"{text}\n")
            sys.stderr.flush()
        except (AttributeError, ValueError, OSError):
            self._over.set()  # nobody can read it
