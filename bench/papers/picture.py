"""Plots of benchmarks as SVG: panels of lines and bars with one legend."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from linkwork.cli.demo_picture import nice
from linkwork.cli.svg import GREY, INK, PALE, path, rule, text

COLOURS = ("#1f5fa8", "#d1495b", "#e0a030", "#4fa36b", "#7b5ea7", "#7b8794")
# of a panel, and between panels
WIDTH = 300
HEIGHT = 200
GAP = 92
TOP = 92


@dataclass(frozen=True)
class Line:
    """Points (x, y), in one of the colours; dashed or not, with marks or not."""

    name: str
    x: Sequence[float] | np.ndarray
    y: Sequence[float] | np.ndarray
    colour: int
    dashed: bool = False
    marked: bool = True


@dataclass(frozen=True)
class Panel:
    """Lines under a title; `log` are the axes that are logarithmic."""

    title: str
    across: str
    up: str
    lines: list[Line] = field(default_factory=list)
    log: str = ""


@dataclass(frozen=True)
class Bars:
    """Groups of bars, each bar with what is written on it; `names` says what the first, second, ... of a
    group is.

    Bars of a group stand side by side, or `stacked` on one another.
    """

    title: str
    names: tuple[str, ...]
    groups: dict[str, list[tuple[float, str]]]
    colour: int = 0  # of the first
    stacked: bool = False


def page(title: str, panels: Sequence[Panel | Bars], note: str, *, columns: int = 4) -> str:
    """Return the picture, with the names of all lines as legend."""
    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    width = max(40 + columns * (WIDTH + GAP), 860)
    height = TOP + rows * (HEIGHT + GAP) + 30
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="Helvetica, Arial, sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        text(24, 32, title, size=18, weight="bold"),
        *_legend(panels, width),
    ]
    for k, panel in enumerate(panels):
        x = 74 + (k % columns) * (WIDTH + GAP)
        y = TOP + 22 + (k // columns) * (HEIGHT + GAP)
        inside = _bars(panel) if isinstance(panel, Bars) else _lines(panel)
        parts += [
            f'<g transform="translate({x} {y})">',
            text(0, -10, panel.title, weight="bold"),
            *inside,
            "</g>",
        ]
    parts += [text(24, height - 12, note, size=10, fill=GREY), "</svg>"]
    return "\n".join(parts) + "\n"


def _legend(panels: Sequence[Panel | Bars], width: float) -> list[str]:
    """Return the names of all lines and bars, in as many rows as needed."""
    known: dict[str, tuple[int, bool]] = {}
    for panel in panels:
        if isinstance(panel, Bars):
            known |= {name: (panel.colour + k, False) for k, name in enumerate(panel.names)}
        else:
            known |= {line.name: (line.colour, line.dashed) for line in panel.lines}
    parts = []
    x = 24.0
    y = 54
    for name, (colour, dashed) in known.items():
        wide = 46 + 7.0 * len(name)
        if x + wide > width:
            x = 24.0
            y = y + 20
        dash = ' stroke-dasharray="5 3"' if dashed else ""
        parts.append(f'<path d="M{x:.0f} {y}h22" stroke="{COLOURS[colour]}" stroke-width="3"{dash}/>')
        parts.append(text(x + 28, y + 4, name))
        x += wide
    return parts


def _scale(values: list[float], log: bool, size: float) -> tuple[Callable[[float], float], list[float]]:
    """Return the map from a value to a position along an axis of some length, and the ticks."""
    if log:
        low, high = np.floor(np.log10(min(values))), np.ceil(np.log10(max(values)) - 1e-9)
        high = max(high, low + 1)
        return (lambda x: size * (np.log10(x) - low) / (high - low)), [
            10.0**k for k in np.arange(low, high + 1)
        ]
    low, high = min([0.0, *values]), max(values)
    ticks = nice(low, high if high > low else 1.0)
    return (lambda x: size * (x - ticks[0]) / (ticks[-1] - ticks[0])), list(ticks)


def _lines(panel: Panel) -> list[str]:
    lines = [line for line in panel.lines if len(line.x)]
    if not lines:
        return [text(WIDTH / 2, HEIGHT / 2, "nothing was measured", anchor="middle", fill=GREY)]
    across, xs = _scale([float(x) for line in lines for x in line.x], "x" in panel.log, WIDTH)
    up, ys = _scale([float(y) for line in lines for y in line.y], "y" in panel.log, HEIGHT)
    parts = []
    for y in ys:
        at = HEIGHT - up(y)
        parts += [rule(0, at, WIDTH, at), text(-8, at + 4, _number(y), size=11, fill=GREY, anchor="end")]
    for x in xs:
        parts += [
            rule(across(x), HEIGHT, across(x), HEIGHT + 4, GREY),
            text(across(x), HEIGHT + 17, _number(x), size=11, fill=GREY, anchor="middle"),
        ]
    parts += [
        text(WIDTH / 2, HEIGHT + 34, panel.across, size=11, fill=GREY, anchor="middle"),
        f'<text transform="translate(-52 {HEIGHT / 2}) rotate(-90)" font-size="11" fill="{GREY}" text-anchor="middle">'
        f"{panel.up}</text>",
    ]
    for line in lines:
        places = [(across(float(x)), HEIGHT - up(float(y))) for x, y in zip(line.x, line.y)]
        dash = ' stroke-dasharray="5 3"' if line.dashed else ""
        colour = COLOURS[line.colour]
        parts.append(f'<path d="{path(places)}" fill="none" stroke="{colour}" stroke-width="1.8"{dash}/>')
        if line.marked:
            parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.6" fill="{colour}"/>' for x, y in places]
    return parts


def _bars(panel: Bars) -> list[str]:
    if not panel.groups:
        return [text(WIDTH / 2, HEIGHT / 2, "nothing was measured", anchor="middle", fill=GREY)]
    heights = [[value for value, _ in group] for group in panel.groups.values()]
    tops = [np.cumsum(group) if panel.stacked else group for group in heights]
    up, ticks = _scale([float(top) for group in tops for top in group], False, HEIGHT)
    parts = []
    for y in ticks:
        at = HEIGHT - up(y)
        parts += [rule(0, at, WIDTH, at), text(-8, at + 4, _number(y), size=11, fill=GREY, anchor="end")]
    wide = WIDTH / len(panel.groups)
    bar = 0.8 * wide / (1 if panel.stacked else max(len(group) for group in panel.groups.values()))
    for k, (name, group) in enumerate(panel.groups.items()):
        for j, ((value, words), top) in enumerate(zip(group, tops[k])):
            x = (k + 0.1) * wide + (0 if panel.stacked else j * bar)
            y = HEIGHT - up(float(top))
            size = f'width="{bar - 2:.1f}" height="{up(value):.1f}"'
            parts.append(
                f'<rect x="{x:.1f}" y="{y:.1f}" {size} fill="{COLOURS[panel.colour + j]}" stroke="{PALE}"/>'
            )
            parts.append(text(x + bar / 2 - 1, y - 4, words, size=9, fill=INK, anchor="middle"))
        parts.append(
            text(
                (k + 0.5) * wide,
                HEIGHT + 16,
                name,
                size=min(11, wide / (0.6 * len(name) + 1)),
                anchor="middle",
            )
        )
    return parts


def _number(x: float) -> str:
    for unit, word in ((1e6, "M"), (1e3, "k")):
        if abs(x) >= 0.9999 * unit:
            return f"{x / unit:g} {word}"
    return f"{x:g}"
