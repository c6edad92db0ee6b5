"""Names that may come out of a file: how they are shown, and what may have been meant where one is not known."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

COMPARED = 1000  # names at most, and characters of them below: to compare takes long
LONG = 100


def shown(text: object, longest: int | None = 120) -> str:
    """Text of others as it can be printed: on one line, not too long, and nothing in it can steer a terminal.

    What is not printable (controls, marks of direction, characters of no width or no meaning) is shown as Python writes it.
    """
    whole = str(text)
    clipped = whole if longest is None or len(whole) <= longest else f"{whole[: longest - 3]}..."
    return clipped if clipped.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in clipped)


def plain(text: object) -> str:
    """The same, however long it is."""
    return shown(text, None)


def some(words: Sequence[str], most: int = 8) -> str:
    """The first of some words, and how many more there are."""
    return ", ".join(words[:most]) + (f" and {len(words) - most} more" if len(words) > most else "")


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """A hint at the names closest to one that is not known; empty where none is close."""
    close: list[str] = []
    if isinstance(name, str) and len(name) < LONG:
        names = [word for word, _ in zip(dict.fromkeys(known), range(COMPARED)) if len(word) < LONG]
        close = difflib.get_close_matches(name, names, n=3)
    return f" (did you mean {' or '.join(map(repr, close))}?)" if close else ""
