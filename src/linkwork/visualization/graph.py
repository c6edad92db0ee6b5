"""Graph of a mechanism as a picture: spanning tree, loops, clusters and a legend."""

from __future__ import annotations

import os
from collections.abc import Iterator
from html import escape
from itertools import pairwise
from pathlib import Path

from linkwork.mechanism import LoopConstraint
from linkwork.mechanism.names import join_names, plain, printable
from linkwork.model import GROUND, WORLD, Model
from linkwork.model.report import count, inconsistent_bodies, loop_kind

# [px]: rows, boxes, letters of names and of what is below them
ROW = 46
HIGH = 36
LETTER = 6.6
SMALL = 5.6
MARGIN = 24
COLOURS = ("#d6e6f5", "#fbe3c8", "#d9efd3", "#f6d5dc", "#e5daf2", "#f4efc4", "#cfeeee", "#eadfd3")
INK = "#24292f"
GREY = "#57606a"
RED = "#c0392b"
BLUE = "#1f5fa8"
MAX_NAME_LENGTH = 48  # letters of a name that are shown


def draw_graph(model: Model, path: str | os.PathLike[str] | None = None) -> str:
    """Return an SVG of the model's graph, and write it to `path` if given.

    Bodies are in the order of the model, each to the right of its parent, with the joint that moves it below
    its name. Joints of the tree are solid lines, loops and couplings dashed ones. Bodies of one cluster have
    one colour; those with physically inconsistent inertias have a red frame. The legend explains the signs
    and gives ranks and independent velocities.
    """
    picture = _Graph(model)
    text = picture.svg()
    if path is not None:
        Path(path).write_text(text, encoding="utf-8")
    return text


class _Graph:
    """Places and colours of all that is drawn."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.depth = {GROUND: 0}
        for joint in model.joints:
            self.depth[joint.child] = self.depth[joint.parent] + 1
        self.names = {
            GROUND: WORLD,
            **{body.index: printable(body.name, MAX_NAME_LENGTH) for body in model.bodies},
        }
        self.joints = {GROUND: ""}
        for j in model.joints:
            self.joints[j.child] = (
                f"{type(j.kind).__name__.lower()} "
                f"{printable(j.name, MAX_NAME_LENGTH)}{self._mark(j.v_names, j.child)}"
            )
        self.width = 22 + max(LETTER * len(n) for n in self.names.values())
        self.width = max(self.width, 22 + max(SMALL * len(n) for n in self.joints.values()))
        self.step = min(self.width + 10, 60 + LETTER * 4)
        self.looped = [cluster for cluster in model.clusters if cluster.constraints]
        self.colour: dict[int, str] = {}
        for number, cluster in enumerate(self.looped):
            self.colour |= dict.fromkeys(cluster.bodies, COLOURS[number % len(COLOURS)])
        self.inconsistent = inconsistent_bodies(model)
        self.bottom = MARGIN + ROW * (len(self.names) + 0.7)

    def _mark(self, v_names: tuple[str, ...], k: int) -> str:
        in_loop = any(c.constraints and k in c.bodies for c in self.model.clusters)
        return "*" if in_loop and v_names and set(v_names) <= set(self.model.v_names) else ""

    def at(self, body: int) -> tuple[float, float]:
        """Return the middle of a box's left side."""
        return MARGIN + self.step * self.depth[body], MARGIN + ROW * (body + 1.5)

    def svg(self) -> str:
        model = self.model
        legend = list(self._legend())
        arcs = [arc for loop in model.loops for arc in self._arcs(loop)]
        w = MARGIN * 2 + self.step * max(self.depth.values()) + self.width + 150
        w = max(w, MARGIN * 2 + 44 + LETTER * max(len(text) for _, text in legend))
        h = self.bottom + 20 * len(legend) + MARGIN
        message = f"{count(len(model.bodies), 'body', 'bodies')}, "
        message += f"{count(model.nv, 'independent velocity', 'independent velocities')}, "
        message += f"{count(len(self.looped), 'cluster')} with loops"
        title = f"{escape(plain(model.name))}: {message}"
        keys = [
            f'<g transform="translate({MARGIN} {self.bottom + 20 * n:.0f})">{key}{_text(40, 4, text)}</g>'
            for n, (key, text) in enumerate(legend)
        ]
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {w:.0f} {h:.0f}" font-family="Helvetica, '
            f'Arial, sans-serif" font-size="12" fill="{INK}"><rect width="{w:.0f}" height="{h:.0f}" '
            f'fill="#ffffff"/><text x="{MARGIN + self.width + 16:.0f}" y="{MARGIN + 4 + ROW * 0.5:.0f}" '
            f'fill="{GREY}">{title}</text>'
            + "".join([*self._lines(), *arcs, *map(self._box, self.names), *keys])
            + "</svg>\n"
        )

    def _lines(self) -> Iterator[str]:
        for joint in self.model.joints:
            (x0, y0), (x1, y1) = self.at(joint.parent), self.at(joint.child)
            line = f"M{x0 + 10} {y0 + HIGH / 2} V{y1} H{x1}"
            yield f'<path d="{line}" fill="none" stroke="{GREY}" stroke-width="1.4"/>'

    def _box(self, body: int) -> str:
        x, y = self.at(body)
        fill = self.colour.get(body, "#ffffff" if body != GROUND else "#e4e7eb")
        joint = self.joints[body]
        stroke = f'stroke="{RED}" stroke-width="2.5"' if body in self.inconsistent else f'stroke="{GREY}"'
        below = _text(x + 10, y + 12, joint, size=10, fill=GREY) if joint else ""
        return (
            f'<g><title>{escape(joint.rstrip("*"))}</title><rect x="{x}" y="{y - HIGH / 2}" '
            f'width="{self.width:.0f}" '
            f'height="{HIGH}" rx="5" fill="{fill}" {stroke}/>'
            f"{_text(x + 10, y - 2 if joint else y + 4, self.names[body])}{below}</g>"
        )

    def _arcs(self, loop: LoopConstraint) -> Iterator[str]:
        """Yield dashed curves right of the boxes, from one end to the next, and the name of the loop."""
        dashes = "2 3" if loop in self.model.constrained_loops else "5 3"
        tint = RED if loop.ends else BLUE
        for n, (one, other) in enumerate(pairwise(loop.bodies)):
            (x0, y0), (x1, y1) = self.at(one), self.at(other)
            x0 = x0 + self.width
            x1 = x1 + self.width
            out = max(x0, x1) + 24 + 0.12 * abs(y1 - y0)
            yield (
                f'<path d="M{x0:.0f} {y0:.0f} C{out:.0f} {y0:.0f} {out:.0f} {y1:.0f} {x1:.0f} {y1:.0f}" '
                'fill="none" '
                f'stroke="{tint}" stroke-width="1.4" stroke-dasharray="{dashes}">'
                f"<title>{escape(plain(loop.name))}</title></path>"
            )
            if n == 0:
                place = 0.25 * max(x0, x1) + 0.75 * out + 5, 0.5 * (y0 + y1) + 3
                yield _text(*place, printable(loop.name, 24), size=10, fill=tint)

    def _legend(self) -> Iterator[tuple[str, str]]:
        """Yield the signs in this picture and their meanings."""
        model = self.model
        box = '<rect x="6" y="-7" width="22" height="14" rx="3" fill="{}" stroke="{}"/>'
        line = '<path d="M4 0 H30" stroke="{}" stroke-width="1.6"{}/>'
        yield box.format("#ffffff", GREY), "a body, and below its name the joint that moves it"
        yield line.format(GREY, ""), "connected by a joint of the spanning tree"
        dashed = ' stroke-dasharray="5 3"'
        dotted = ' stroke-dasharray="2 3"'
        if any(loop.ends for loop in model.embedded):
            yield line.format(RED, dashed), "a loop joint, embedded in the coordinates"
        if any(not loop.ends for loop in model.embedded):
            yield (
                line.format(BLUE, dashed),
                "a coupling of joints (gear, belt, differential), embedded in the coordinates",
            )
        if model.constrained_loops:
            yield line.format(RED, dotted), "a constrained loop or coupling, enforced by forces"
        if self.inconsistent:
            yield box.format("#ffffff", RED), "a physically inconsistent inertia"
        if any(name.endswith("*") for name in self.joints.values()):
            yield _text(13, 5, "*"), "a joint whose velocity is independent, in a loop"
        for number, cluster in enumerate(self.looped):
            names = [plain(name) for k in cluster.bodies for name in model.joints[k].v_names]
            loops = [loop_kind(c) + " " + printable(c.name, 24) for c in cluster.constraints]
            message = f"cluster of {join_names(loops, 3)}: "
            message += f"{count(cluster.count, 'equation')}, rank {len(cluster.rows)}, "
            message += f"{cluster.count - len(cluster.rows)} redundant; "
            message += f"independent: {join_names([names[c] for c in cluster.independent], 6) or 'none'}"
            yield box.format(COLOURS[number % len(COLOURS)], GREY), message


def _text(x: float, y: float, text: str, *, size: int = 12, fill: str = INK) -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" font-size="{size}" fill="{fill}">{escape(text)}</text>'
