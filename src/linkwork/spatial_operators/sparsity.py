"""Block sparsity patterns as text and pictures, by serial-chain segments (SKO Sec. 7)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from html import escape
from pathlib import Path

import numpy as np

from linkwork.mechanism.names import plain

# [px]
CELL = 18
LETTER = 6.4
MARGIN = 14
LINE = 'stroke="#57606a" stroke-width="0.8"'


class Sparsity:
    """The pattern of an operator's blocks, a boolean for each in `filled`.

    `str()` prints it, `svg()` draws it. Rows and columns are ordered by serial-chain segments, with a line
    between two of them: blocks of one segment and of two related ones are dense, those of unrelated ones are
    zero (SKO Eq. 61 and 63).
    """

    def __init__(
        self,
        name: str,
        filled: np.ndarray,
        names: tuple[Sequence[str], Sequence[str]],
        segments: tuple[Sequence[int], Sequence[int]],
    ) -> None:
        self.name = name
        order = [np.argsort(np.array(each, dtype=int), kind="stable") for each in segments]
        self.filled = filled[np.ix_(*order)]
        self.rows, self.columns = ([plain(each[k]) for k in places] for each, places in zip(names, order))
        self._row_ends, self._column_ends = (
            _ends([each[k] for k in places]) for each, places in zip(segments, order)
        )

    def __str__(self) -> str:
        width = max(map(len, self.rows), default=0)
        line = " " * width + " +" + "+".join("-" * (2 * n + 1) for n in _lengths(self._column_ends)) + "+"
        lines = [f"{self.name}: {int(self.filled.sum())} of {self.filled.size} blocks", line]
        for i, row in enumerate(self.filled):
            cells = "".join(
                (" X" if full else " ·") + (" |" if j + 1 in self._column_ends else "")
                for j, full in enumerate(row)
            )
            lines.append(f"{self.rows[i]:>{width}} |{cells}")
            if i + 1 in self._row_ends:
                lines.append(line)
        return "\n".join(lines)

    def svg(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return an SVG picture, and write it to `path` if given."""
        left_margin = MARGIN + LETTER * max(map(len, self.rows), default=0) + 8
        top = MARGIN + 26.0
        n, m = self.filled.shape
        width = left_margin + CELL * m + MARGIN
        height = top + CELL * n + MARGIN
        parts = []
        for i, name in enumerate(self.rows):
            parts.append(
                f'<text x="{left_margin - 8:.0f}" y="{top + CELL * i + 13:.0f}" text-anchor="end">'
                f"{escape(name)}</text>"
            )
        for i, j in zip(*np.nonzero(self.filled)):
            tooltip = f"{escape(self.rows[i])}, {escape(self.columns[j])}"
            x = left_margin + CELL * j + 1.5
            y = top + CELL * i + 1.5
            box = f'x="{x:.1f}" y="{y:.1f}" width="{CELL - 3}" height="{CELL - 3}" rx="2" fill="#1f5fa8"'
            parts.append(f"<rect {box}><title>{tooltip}</title></rect>")
        for k in (0, *self._row_ends):
            parts.append(f'<path d="M{left_margin:.0f} {top + CELL * k:.0f} h{CELL * m}" {LINE}/>')
        for k in (0, *self._column_ends):
            parts.append(f'<path d="M{left_margin + CELL * k:.0f} {top:.0f} v{CELL * n}" {LINE}/>')
        text = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
            f'font-family="Helvetica, Arial, sans-serif" font-size="11" fill="#24292f">'
            f'<rect width="{width:.0f}" height="{height:.0f}" fill="#ffffff"/>'
            f'<text x="{left_margin:.0f}" y="{MARGIN + 8}" fill="#57606a">{escape(self.name)}: '
            f"{int(self.filled.sum())} of {self.filled.size} blocks</text>" + "".join(parts) + "</svg>\n"
        )
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text


def _ends(segments: Sequence[int]) -> list[int]:
    """Return the positions after which a segment ends."""
    return [k + 1 for k in range(len(segments)) if k + 1 == len(segments) or segments[k] != segments[k + 1]]


def _lengths(ends: Sequence[int]) -> list[int]:
    return [b - a for a, b in zip([0, *ends], ends)]
