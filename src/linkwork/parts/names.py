"""Names that are not known, and what may have been meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def plain(text: object) -> str:
    """Text that cannot move the cursor or colour the terminal: names may come out of a file."""
    return "".join(sign if sign.isprintable() else "?" for sign in str(text))


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint at the names closest to one that is not known; empty where none is close."""
    close = difflib.get_close_matches(str(name), list(known), n=3)
    return f" (did you mean {' or '.join(map(repr, close))}?)" if close else ""
