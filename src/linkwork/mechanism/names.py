"""Names from files: printable text, lists of names, and suggestions for unknown names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

# Bounds on the names compared for suggestions, since a comparison takes long.
MAX_COMPARED_NAMES = 1000
MAX_COMPARED_LENGTH = 100


def printable(text: object, max_length: int | None = 120) -> str:
    """Return text on one line of limited length without control characters.

    Unprintable characters (control, direction and zero-width characters) are escaped as by `repr`.
    """
    full = str(text)
    clipped = full if max_length is None or len(full) <= max_length else f"{full[: max_length - 3]}..."
    return (
        clipped
        if clipped.isprintable()
        else "".join(c if c.isprintable() else repr(c)[1:-1] for c in clipped)
    )


def plain(text: object) -> str:
    """Return printable text of any length."""
    return printable(text, None)


def join_names(words: Sequence[str], limit: int = 8) -> str:
    """Return the first names and the number of remaining ones."""
    return ", ".join(words[:limit]) + (f" and {len(words) - limit} more" if len(words) > limit else "")


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """Return a hint with the names closest to an unknown one, or ""."""
    close: list[str] = []
    if isinstance(name, str) and len(name) < MAX_COMPARED_LENGTH:
        names = [
            word
            for word, _ in zip(dict.fromkeys(known), range(MAX_COMPARED_NAMES))
            if len(word) < MAX_COMPARED_LENGTH
        ]
        close = difflib.get_close_matches(name, names, n=3)
    return f" (did you mean {' or '.join(map(repr, close))}?)" if close else ""
