"""The spanning tree of a model as text, for a terminal: joints and bodies, clusters and loops."""

from __future__ import annotations

from collections.abc import Callable

from linkwork.mechanism.names import plain
from linkwork.model import GROUND, WORLD, Model
from linkwork.model.report import loop_kind

Paint = Callable[..., str]
LINES = {True: ("├─ ", "└─ ", "│  ", "⟲"), False: ("|- ", "`- ", "|  ", "@")}
COLOURS = ("cyan", "yellow", "green", "magenta", "blue")  # of clusters, in turn


def as_is(text: str, *_: str) -> str:
    """Return text without colours."""
    return text


def draw_tree(model: Model, *, paint: Paint = as_is, unicode: bool = True) -> str:
    """Return the spanning tree as text: a line for each body, behind the joint that moves it.

    [n] is the cluster of loops that a body is in, as in `cluster_numbers`; * marks joints whose velocities
    are all independent there. Loops and couplings stand at the last body that they touch. `paint(text,
    *styles)` adds colours.
    """
    fork, last, bar, ring = LINES[unicode]
    cluster = cluster_numbers(model)
    free = set(model.v_names)
    closing: dict[int, list[str]] = {}
    for loop in model.loops:
        at = max(loop.bodies)
        others = [
            WORLD if k == GROUND else plain(model.bodies[k].name)
            for k in dict.fromkeys(loop.bodies)
            if k != at
        ]
        held = ", constrained" if loop in model.constrained_loops else ""
        closing.setdefault(at, []).append(
            f"{ring} {plain(loop.name)} ({loop_kind(loop)}{held}) to {', '.join(others) or 'itself'}"
        )
    children: dict[int, list[int]] = {}
    for joint in model.joints:
        children.setdefault(joint.parent, []).append(joint.child)
    rows: list[tuple[str, str, str, int]] = [(WORLD, "", "", GROUND)]
    waiting = [(k, "", k == children[GROUND][-1]) for k in reversed(children.get(GROUND, []))]
    while waiting:
        k, before, is_last = waiting.pop()
        joint = model.joints[k]
        body = model.bodies[k]
        independent = cluster.get(k) is not None and bool(joint.v_names) and set(joint.v_names) <= free
        kind = f"{type(joint.kind).__name__.lower()} {plain(joint.name)}{'*' if independent else ''}"
        rows.append((before + (last if is_last else fork) + plain(body.name), kind, f"{body.mass:.4g} kg", k))
        child_joints = children.get(k, [])
        waiting += [
            (c, before + ("   " if is_last else bar), c == child_joints[-1]) for c in reversed(child_joints)
        ]
    widths = [max(map(len, column)) for column in list(zip(*rows))[:3]]
    lines = []
    for name, kind, mass, k in rows:
        line = f"{name.ljust(widths[0])}  {paint(kind.ljust(widths[1]), 'faint')}  {mass.rjust(widths[2])}"
        if k in cluster:
            line += "  " + paint(f"[{cluster[k]}]", COLOURS[(cluster[k] - 1) % len(COLOURS)])
        line += "".join("  " + paint(text, "red") for text in closing.get(k, []))
        lines.append(line.rstrip())
    return "\n".join(lines)


def cluster_numbers(model: Model) -> dict[int, int]:
    """Return the number, from 1, of the cluster of each body in loops, in the order of `model.clusters`."""
    looped = [cluster for cluster in model.clusters if cluster.constraints]
    return {k: n for n, cluster in enumerate(looped, 1) for k in cluster.bodies}
