"""The report of a model, in words."""

from __future__ import annotations

import numpy as np

from linkwork.model.data import ModelData
from linkwork.parts import GROUND, WORLD, LoopConstraint, PlacedJoint
from linkwork.parts.names import plain
from linkwork.topology.clusters import find_families
from linkwork.topology.rotors import find_rotors


def report(model: ModelData) -> str:
    """A summary of a model: sizes, a table of joints and bodies, clusters, frames, and everything unusual."""
    names = [body.name for body in model.bodies]
    lines = [
        f"{model.name}: {count(len(model.bodies), 'body', 'bodies')}, {count(len(model.joints), 'joint')}, "
        f"nq {model.nq}, nv {model.nv}, {model.mass:.6g} kg, gravity {' '.join(f'{g:g}' for g in model.gravity)} m/s²",
        "",
        *_table(model, names),
    ]
    lines += _clusters(model)
    held = [f for f in model.frames if f.body == GROUND or f.name != model.bodies[f.body].name]
    if held:
        lines += ["", f"{count(len(held), 'frame')} besides those of the bodies:"]
        for at in sorted({f.body for f in held}):
            on = WORLD if at == GROUND else names[at]
            lines += _wrapped(f"  on {on}: ", [f.name for f in held if f.body == at])
    unusual = [*unusual_parts(model), *model.notes]
    lines += ["", "unusual:" if unusual else "nothing unusual", *(f"  {line}" for line in unusual)]
    return "\n".join(map(plain, lines))


def _clusters(model: ModelData) -> list[str]:
    """Force-held loops, and the clusters that embedded loops and couplings make."""
    looped = [cluster for cluster in model.clusters if cluster.constraints]
    lines = []
    if model.force_held:
        names = [f"{c.name} ({_kind(c)})" for c in model.force_held]
        lines += [
            "",
            *_wrapped(f"{count(len(names), 'force-held loop or coupling', 'force-held loops and couplings')}: ", names),
        ]
    if not looped:
        return lines
    lines += ["", f"{count(len(model.clusters), 'cluster')}, of which loops and couplings make {len(looped)}:"]
    for cluster in looped:
        joints = [model.joints[k] for k in cluster.bodies]
        names = [name for joint in joints for name in joint.v_names]
        lines += _wrapped("  bodies ", [model.bodies[k].name for k in cluster.bodies])
        lines += _wrapped("    constrained by ", [f"{c.name} ({_kind(c)})" for c in cluster.constraints])
        if cluster.supports:
            lines += _wrapped("    hanging on ", [model.bodies[k].name for k in cluster.supports])
        redundant = cluster.count - len(cluster.rows)
        told = f", of which {redundant} are redundant and dropped" if redundant else ""
        lines.append(
            f"    {count(cluster.count, 'equation')}{told}; {len(names)} velocities, {len(cluster.independent)} independent"
        )
        if not cluster.independent and not cluster.supports:
            lines.append("    a truss: as one rigid body with what it hangs on")
        if cluster.independent:
            lines += _wrapped("    independent: ", [names[c] for c in cluster.independent])
    rotors = [model.bodies[k].name for k in find_rotors(model)]
    if rotors:
        lines += _wrapped(f"  {count(len(rotors), 'rotor')}, balanced about their spin axes: ", rotors)
    return lines


def _kind(constraint: LoopConstraint) -> str:
    return {"ImplicitConstraint": "implicit constraint"}.get(type(constraint).__name__, type(constraint).__name__.lower())


def unusual_parts(model: ModelData) -> list[str]:
    """What deserves a second look, one sentence each."""
    found = []
    behind = [body.mass for body in model.bodies]  # mass of a body and all behind it
    for joint in reversed(model.joints):
        if joint.parent != GROUND:
            behind[joint.parent] += behind[joint.child]
    families = find_families(model.joints, model.loops) if model.loops else []
    in_loops = {k for bodies, loops in families if loops for k in bodies}  # these determine joints that move no mass
    parts_of_flexible = {joint.parent for joint in model.joints if joint.kind.elastic}
    parts_of_flexible |= {joint.child for joint in model.joints if joint.follows is not None}
    for body, joint in zip(model.bodies, model.joints):
        if body.index in parts_of_flexible and body.mass == 0:
            continue
        if behind[body.index] == 0 and not any(joint.armature) and body.index not in in_loops:
            found.append(f"joint {joint.name!r} moves no mass: forward dynamics has no answer")
        elif body.mass == 0:
            found.append(f"body {body.name!r} can move and has no mass")
        elif not np.any(body.moment) and body.mass > 0:
            found.append(f"body {body.name!r} is a point mass: its moment of inertia is zero")
        if joint.lower == joint.upper and joint.nq and np.isfinite(joint.lower).all():
            found.append(f"joint {joint.name!r} has equal lower and upper limits")
        if any(joint.friction):
            found.append(f"joint {joint.name!r} has dry friction, which is recorded but does not act")
    return found


def _table(model: ModelData, names: list[str]) -> list[str]:
    v = "tree v" if model.embedded else "v"
    head = ("", "joint", "kind", "parent", "body", "mass [kg]", "q", v, "in it")
    rows = [head]
    for joint, body in zip(model.joints, model.bodies):
        parent = WORLD if joint.parent == GROUND else names[joint.parent]
        q, v = _span(joint.q_slice), _span(joint.v_slice)
        rows.append((str(body.index), joint.name, type(joint.kind).__name__.lower(), parent, body.name,
                     f"{body.mass:.6g}", q, v, acting(joint)))  # fmt: skip
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]


def acting(joint: PlacedJoint) -> str:
    """The springs, dampers and limits of a joint, in short."""
    parts = []
    for word in ("armature", "damping", "stiffness", "friction"):
        values = getattr(joint, word)
        if any(values):
            parts.append(f"{word} {' '.join(f'{x:g}' for x in dict.fromkeys(values))}")
    if np.isfinite(joint.lower).any() or np.isfinite(joint.upper).any():
        parts.append(", ".join(f"{a:g} to {b:g}" for a, b in zip(joint.lower, joint.upper)))
    return "; ".join(parts)


def count(n: int, word: str, words: str | None = None) -> str:
    """A number of things: "1 joint", "2 joints"."""
    return f"{n} {word if n == 1 else words or word + 's'}"


def _span(s: slice) -> str:
    return "" if s.stop == s.start else str(s.start) if s.stop - s.start == 1 else f"{s.start}-{s.stop - 1}"


def _wrapped(head: str, words: list[str], width: int = 110) -> list[str]:
    lines, line = [], head
    for k, word in enumerate(words):
        piece = word if k == len(words) - 1 else word + ", "
        if len(line) + len(piece) > width and line != head:
            lines.append(line.rstrip())
            line = " " * len(head)
        line += piece
    return [*lines, line.rstrip()]
