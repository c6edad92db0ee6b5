"""The graph of a mechanism as a picture: the spanning tree, the loops across it, and the clusters that they make."""

from __future__ import annotations

import os
from html import escape
from itertools import pairwise
from pathlib import Path

from linkwork.model import GROUND, WORLD, Model
from linkwork.parts.names import plain

ROW, LETTER, MARGIN = 34, 6.6, 24  # [px]
COLOURS = ("#d6e6f5", "#fbe3c8", "#d9efd3", "#f6d5dc", "#e5daf2", "#f4efc4", "#cfeeee", "#eadfd3")


def draw_graph(model: Model, path: str | os.PathLike[str] | None = None) -> str:
    """An SVG of the model's graph; also written to `path`, if one is given.

    Bodies stand in the order of the model, each to the right of the one that it hangs on. Joints of the tree are solid
    lines, loops and couplings dashed ones. Bodies of one cluster have one colour.
    """
    depth = {GROUND: 0}
    for joint in model.joints:
        depth[joint.child] = depth[joint.parent] + 1
    names = {GROUND: WORLD, **{body.index: plain(body.name) for body in model.bodies}}
    width = 22 + LETTER * max(len(name) for name in names.values())
    step = min(width + 10, 60 + LETTER * 4)

    def at(body: int) -> tuple[float, float]:
        return MARGIN + step * depth[body], MARGIN + ROW * (body + 1.5)

    colour: dict[int, str] = {}
    looped = [cluster for cluster in model.clusters if cluster.constraints]
    for number, cluster in enumerate(looped):
        colour |= dict.fromkeys(cluster.bodies, COLOURS[number % len(COLOURS)])

    lines, boxes = [], []
    for joint in model.joints:
        (x0, y0), (x1, y1) = at(joint.parent), at(joint.child)
        lines.append(f'<path d="M{x0 + 10} {y0 + 11} V{y1} H{x1}" fill="none" stroke="#57606a" stroke-width="1.4"/>')
    for constraint in model.loops:
        ends, tint = constraint.bodies, "#c0392b" if constraint.ends else "#1f5fa8"
        for one, other in pairwise(ends):
            dashes = "2 3" if constraint in model.force_held else "5 3"
            lines.append(_arc(at(one), at(other), width, tint, plain(constraint.name), dashes))
    for body, name in names.items():
        x, y = at(body)
        fill = colour.get(body, "#ffffff" if body != GROUND else "#e4e7eb")
        kind = "" if body == GROUND else f"{type(model.joints[body].kind).__name__.lower()} {plain(model.joints[body].name)}"
        boxes.append(
            f'<g><title>{escape(kind)}</title><rect x="{x}" y="{y - 11}" width="{width:.0f}" height="22" rx="5" fill="{fill}" '
            f'stroke="#57606a"/><text x="{x + 10}" y="{y + 4}">{escape(name)}</text></g>'
        )
    w = MARGIN * 2 + step * max(depth.values()) + width + 90
    h = MARGIN * 2 + ROW * (len(names) + 0.5)
    told = f"{len(model.bodies)} bodies, {model.nv} independent velocities, {len(looped)} clusters with loops"
    title = f"{escape(plain(model.name))}: {told}"
    text = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {w:.0f} {h:.0f}" font-family="Helvetica, Arial, sans-serif" '
        f'font-size="12" fill="#24292f"><rect width="{w:.0f}" height="{h:.0f}" fill="#ffffff"/>'
        f'<text x="{MARGIN + width + 16:.0f}" y="{MARGIN + 4 + ROW * 0.5:.0f}" fill="#57606a">{title}</text>'
        + "".join([*lines, *boxes])
        + "</svg>\n"
    )
    if path is not None:
        Path(path).write_text(text, encoding="utf-8")
    return text


def _arc(a: tuple[float, float], b: tuple[float, float], width: float, tint: str, name: str, dashes: str) -> str:
    """A dashed curve to the right of two boxes."""
    (x0, y0), (x1, y1) = a, b
    x0, x1 = x0 + width, x1 + width
    out = max(x0, x1) + 24 + 0.12 * abs(y1 - y0)
    return (
        f'<path d="M{x0:.0f} {y0:.0f} C{out:.0f} {y0:.0f} {out:.0f} {y1:.0f} {x1:.0f} {y1:.0f}" fill="none" stroke="{tint}" '
        f'stroke-width="1.4" stroke-dasharray="{dashes}"><title>{escape(name)}</title></path>'
    )
