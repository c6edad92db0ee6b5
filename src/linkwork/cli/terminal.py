"""Terminal output: colours, tables, and progress of long commands."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TextIO

PATIENCE = 2.0  # time until progress is reported [s]
CODES = {
    "bold": "1",
    "faint": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "magenta": "35",
    "cyan": "36",
}


def is_coloured(stream: Any) -> bool:
    """Return whether a stream is a terminal with colours, and NO_COLOR is not set.

    See https://no-color.org.
    """
    if os.environ.get("NO_COLOR"):
        return False
    return bool(getattr(stream, "isatty", lambda: False)()) and os.environ.get("TERM") != "dumb"


class Paint:
    """Coloured text, or plain text if the stream has no colours."""

    def __init__(self, stream: Any = None) -> None:
        self.on = is_coloured(sys.stdout if stream is None else stream)

    def __call__(self, text: str, *styles: str) -> str:
        if not (self.on and styles and text):
            return text
        return f"\x1b[{';'.join(CODES[style] for style in styles)}m{text}\x1b[0m"


class Progress:
    """Progress of a task; `part`, from 0 to 1, is None where unknown."""

    def __init__(self, task: str) -> None:
        self.task = task
        self.part: float | None = None
        self.began = time.monotonic()

    def line(self) -> str:
        """Return the progress as one line."""
        seconds = f"{time.monotonic() - self.began:.0f} s"
        return f"{self.task}: {seconds}" if self.part is None else f"{self.task}: {self.part:.0%}, {seconds}"


@contextmanager
def working(task: str, stream: TextIO | None = None, *, patience: float = PATIENCE) -> Iterator[Progress]:
    """Report the progress of a block that takes longer than `patience` [s] on stderr.

    On a terminal the line is updated; elsewhere it is printed once.
    """
    out: TextIO = sys.stderr if stream is None else stream
    progress = Progress(task)
    done = threading.Event()
    live = bool(getattr(out, "isatty", lambda: False)())

    def tell() -> None:
        if done.wait(patience):
            return
        if not live:
            print(f"linkwork: {progress.task} ...", file=out, flush=True)
            return
        while not done.wait(0.2):
            print(f"\r\x1b[K{progress.line()}", end="", file=out, flush=True)
        print("\r\x1b[K", end="", file=out, flush=True)

    thread = threading.Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield progress
    finally:
        done.set()
        thread.join()


def table(rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()) -> list[str]:
    """Return rows as lines with aligned columns; the first row is the header.

    Columns in `right` are right-aligned.
    """
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(
            cell.rjust(w) if c in right else cell.ljust(w) for c, (cell, w) in enumerate(zip(row, widths))
        ).rstrip()
        for row in rows
    ]


def size_in_bytes(count: int) -> str:
    """Return a size with its unit, such as "1.5 KiB"."""
    if count < 1024:
        return f"{count} B"
    return f"{count / 1024:.1f} KiB" if count < 1 << 20 else f"{count / (1 << 20):.1f} MiB"


def age(seconds: float) -> str:
    """Return a duration with its unit, such as "3 h"."""
    for name, unit in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= unit:
            return f"{seconds / unit:.0f} {name}"
    return f"{max(seconds, 0):.0f} s"
