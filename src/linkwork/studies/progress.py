"""A line of progress: samples, rate, failures by status, and the time that is left."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Mapping

from linkwork.simulation.status import Status

INTERVAL = 0.25  # seconds between two lines


def format_seconds(seconds: float) -> str:
    """Return a duration as "12 s", "3 min 05 s" or "2 h 07 min"."""
    total = max(0, round(seconds))
    if total < 60:
        return f"{total} s"
    if total < 3600:
        return f"{total // 60} min {total % 60:02d} s"
    return f"{total // 3600} h {total % 3600 // 60:02d} min"


class Progress:
    """Progress of a study, printed to standard error as one line that is overwritten."""

    def __init__(self, name: str, samples: int, accepted: tuple[int, ...], visible: bool | None) -> None:
        self.name = name
        self.samples = samples
        self.done = 0
        self.before = 0
        self.counts: Counter[int] = Counter()
        self.shown = (sys.stderr.isatty() or _in_notebook()) if visible is None else visible
        self._accepted = accepted
        self._began = time.monotonic()
        self._printed = 0.0
        self._width = 0

    @property
    def seconds(self) -> float:
        """The time since the run began [s]."""
        return time.monotonic() - self._began

    def resume(self, samples: int, counts: Mapping[int, int]) -> None:
        """Count samples of earlier runs."""
        self.done += samples
        self.before += samples
        self.counts.update(counts)

    def add(self, samples: int, counts: Mapping[int, int]) -> None:
        """Count samples that were computed now."""
        self.done += samples
        self.counts.update(counts)
        now = time.monotonic()
        if self.shown and (now - self._printed > INTERVAL or self.done == self.samples):
            self._printed = now
            self._print(self.line())

    def line(self) -> str:
        """Return the line."""
        rate = (self.done - self.before) / max(self.seconds, 1e-9)
        remaining = (self.samples - self.done) / rate if rate > 0.0 else float("inf")
        text = (
            f"{self.name}: {self.done}/{self.samples} ({self.done / self.samples:.0%}), {rate:,.0f} samples/s"
        )
        if self.done < self.samples and rate > 0.0:
            text += f", {format_seconds(remaining)} left"
        failed = [f"{n} {Status(k).name}" for k, n in sorted(self.counts.items()) if k not in self._accepted]
        return f"{text}; {', '.join(failed)}" if failed else text

    def _print(self, text: str) -> None:
        sys.stderr.write("\r" + text.ljust(self._width))
        sys.stderr.flush()
        self._width = len(text)

    def close(self, message: str = "") -> None:
        """End the line."""
        if self.shown:
            if self._width:
                sys.stderr.write("\n")
            if message:
                sys.stderr.write(f"{message}\n")
            sys.stderr.flush()


def _in_notebook() -> bool:
    return "ipykernel" in sys.modules
