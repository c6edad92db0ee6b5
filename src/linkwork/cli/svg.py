"""Elements of SVG pictures, and colours."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

INK = "#1f2933"


GREY = "#7b8794"


PALE = "#e4e7eb"


def path(points: Iterable[Any]) -> str:
    """Return the SVG path data of points, (n, 2)."""
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)


def shape(d: str, colour: str, width: float) -> str:
    """Return a filled path with a rounded outline."""
    outline = f'stroke="{colour}" stroke-width="{width:.1f}" stroke-linejoin="round"'
    return f'<path d="{d}" fill="{colour}" {outline}/>'


def rule(x0: float, y0: float, x1: float, y1: float, colour: str = PALE, width: float = 1.0) -> str:
    """Return a straight line."""
    return f'<path d="M{x0:.1f} {y0:.1f}L{x1:.1f} {y1:.1f}" stroke="{colour}" stroke-width="{width:g}"/>'


def text(
    x: float,
    y: float,
    words: str,
    *,
    size: float = 13,
    fill: str = INK,
    anchor: str = "start",
    weight: str = "normal",
) -> str:
    """Return a text element."""
    words = words.replace("&", "&amp;").replace("<", "&lt;")
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size:g}" fill="{fill}" text-anchor="{anchor}" '
        f'font-weight="{weight}">'
        f"{words}</text>"
    )


def channels(colour: str) -> np.ndarray:
    """Return red, green and blue of "#rrggbb", (3,)."""
    return np.array([int(colour[k : k + 2], 16) for k in (1, 3, 5)])


def mix(a: str, b: str, share: float) -> str:
    """Return a colour between two."""
    return "#" + "".join(f"{round(x):02x}" for x in channels(a) * (1 - share) + channels(b) * share)


def blend(colours: Sequence[str], share: float) -> str:
    """Return the colour at a fraction, 0 to 1, of a colour scale."""
    place = min(max(float(share), 0.0), 1.0) * (len(colours) - 1)
    k = min(int(place), len(colours) - 2)
    return mix(colours[k], colours[k + 1], place - k)
