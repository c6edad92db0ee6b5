"""Reports on models in words."""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np

from linkwork.lazy import resolve
from linkwork.loops.clusters import find_families
from linkwork.loops.rotors import find_rotors
from linkwork.mechanism import GROUND, WORLD, LoopConstraint, PlacedJoint
from linkwork.mechanism.actuator_laws import unsupported_reason
from linkwork.mechanism.names import join_names, plain
from linkwork.model.data import ModelData

NO_MASS = ("moves no mass", "move no mass", ": forward dynamics has no answer")
# functions of packages above this one, imported when a report is written
SECTIONS = ("linkwork.contact.report:contact_lines",)
INERTIA_PROBLEMS = ("the principal moment", "moment of inertia is not symmetric", "kg is negative")


def report(model: ModelData) -> str:
    """Return a summary: sizes, a table of joints and bodies, clusters, frames, and everything unusual."""
    lines = [headline(model), "", *_table(model, [body.name for body in model.bodies])]
    lines += [*cluster_lines(model), *frame_lines(model), *load_lines(model), *actuator_lines(model)]
    lines += [*(line for section in SECTIONS for line in resolve(section)(model))]
    unusual = [*unusual_parts(model), *merge_similar(model.notes)]
    lines += ["", "unusual:" if unusual else "nothing unusual", *(f"  {line}" for line in unusual)]
    return "\n".join(map(plain, lines))


def headline(model: ModelData) -> str:
    """Return name, sizes, mass and gravity in one line."""
    return (
        f"{model.name}: {count(len(model.bodies), 'body', 'bodies')}, {count(len(model.joints), 'joint')}, "
        f"nq {model.nq}, nv {model.nv}, {model.mass:.6g} kg, gravity "
        f"{' '.join(f'{g:g}' for g in model.gravity)} m/s²"
    )


def frame_lines(model: ModelData) -> list[str]:
    """Return the frames other than those of bodies, after an empty line."""
    frames = [f for f in model.frames if f.body == GROUND or f.name != model.bodies[f.body].name]
    if not frames:
        return []
    lines = ["", f"{count(len(frames), 'frame')} besides those of the bodies:"]
    for k in sorted({f.body for f in frames}):
        body = WORLD if k == GROUND else model.bodies[k].name
        lines += _wrapped(f"  on {body}: ", [f.name for f in frames if f.body == k])
    return lines


def cluster_lines(model: ModelData) -> list[str]:
    """Return the constrained loops, and the clusters of embedded loops and couplings."""
    looped = [cluster for cluster in model.clusters if cluster.constraints]
    lines = []
    if model.constrained_loops:
        names = [f"{c.name} ({loop_kind(c)})" for c in model.constrained_loops]
        lines += [
            "",
            *_wrapped(
                f"{count(len(names), 'constrained loop or coupling', 'constrained loops and couplings')}: ",
                names,
            ),
        ]
    if not looped:
        return lines
    lines += [
        "",
        f"{count(len(model.clusters), 'cluster')}, of which loops and couplings make {len(looped)}:",
    ]
    for number, cluster in enumerate(looped, 1):
        joints = [model.joints[k] for k in cluster.bodies]
        names = [name for joint in joints for name in joint.v_names]
        lines += _wrapped(f"  [{number}] bodies ", [model.bodies[k].name for k in cluster.bodies])
        lines += _wrapped("    constrained by ", [f"{c.name} ({loop_kind(c)})" for c in cluster.constraints])
        if cluster.supports:
            lines += _wrapped("    hanging on ", [model.bodies[k].name for k in cluster.supports])
        redundant = cluster.count - len(cluster.rows)
        rank_text = f", of rank {len(cluster.rows)}" + (
            f": {redundant} redundant, dropped" if redundant else ""
        )
        if cluster.overdetermined:
            rank_text = f", of rank {len(cluster.rows)}: {len(cluster.used)} used, by least squares"
        lines.append(
            f"    {count(cluster.count, 'equation')}{rank_text}; {len(names)} velocities, "
            f"{len(cluster.independent)} independent"
        )
        if not cluster.independent and not cluster.supports:
            lines.append("    a truss: one rigid body with the body that carries it")
        if cluster.independent:
            lines += _wrapped("    independent: ", [names[c] for c in cluster.independent])
    rotors = [model.bodies[k].name for k in find_rotors(model)]
    if rotors:
        lines += _wrapped(f"  {count(len(rotors), 'rotor')}, balanced about their spin axes: ", rotors)
    return lines


def load_lines(model: ModelData) -> list[str]:
    """Return the bodies with compensated weights and the spatial tendons, after an empty line."""
    names = []
    for each in model.weight_compensations:
        name = model.bodies[each.body].name
        scale = "in part" if each.mass is not None else f"times {1.0 - each.fraction:g}"
        names.append(f"{name} ({scale})")
    lines = ["", *_wrapped("gravity acts on some bodies less or more: ", names)] if names else []
    if model.tendons:
        tendons = [
            tendon.name if tendon.connects else f"{tendon.name} (without force)" for tendon in model.tendons
        ]
        lines += ["", *_wrapped(f"{count(len(tendons), 'spatial tendon')}: ", tendons)]
    return lines


def actuator_lines(model: ModelData) -> list[str]:
    """Return the actuators whose forces can be computed, after an empty line."""
    kinds = {joint.name: joint.kind for joint in model.joints}
    supported = [actuator.name for actuator in model.actuators if not unsupported_reason(actuator, kinds)]
    if not supported:
        return []
    description = "which act in steps with lw.Controls (lw.actuation gives their joint forces)"
    return ["", *_wrapped(f"{count(len(supported), 'actuator')}, {description}: ", supported)]


def loop_kind(constraint: LoopConstraint) -> str:
    """Return the kind of a loop constraint: "revolute loop", "coupling", "implicit constraint"."""
    kind = getattr(constraint, "kind", None)
    if kind is not None and constraint.ends:
        return f"{type(kind).__name__.lower()} loop"
    return {"ImplicitConstraint": "implicit constraint"}.get(
        type(constraint).__name__, type(constraint).__name__.lower()
    )


def unsound_parts(model: ModelData) -> list[str]:
    """Return one sentence for each kind of problem: inconsistent inertias, massless joints."""
    problems = merge_similar(note for note in model.notes if is_of_inertias(note))
    idle = [joint.name for joint in model.joints if joint.child in massless_joints(model)]
    if idle:
        problems.append(_of_all("joint", idle, *NO_MASS))
    return [plain(line) for line in problems]


def is_of_inertias(note: str) -> bool:
    """Return whether a note is about a physically inconsistent inertia.

    Moments of inertia without mass, as of idealised rotors, are not inconsistent.
    """
    return any(words in note for words in INERTIA_PROBLEMS)


def inconsistent_bodies(model: ModelData) -> set[int]:
    """Return the bodies with physically inconsistent inertias, according to the notes."""
    text = " ".join(note for note in model.notes if is_of_inertias(note))
    return {
        body.index for body in model.bodies if any(repr(name) in text for name in (body.name, *body.links))
    }


def massless_joints(model: ModelData) -> set[int]:
    """Return the indices of joints that move no mass and whose motion no loop determines."""
    behind = [body.mass for body in model.bodies]  # mass of a body and all behind it
    for joint in reversed(model.joints):
        if joint.parent != GROUND:
            behind[joint.parent] += behind[joint.child]
    families = find_families(model.joints, model.loops) if model.loops else []
    # loops determine the motion of joints that move no mass
    in_loops = {k for bodies, loops in families if loops for k in bodies}
    idle = {
        j.child
        for j in model.joints
        if behind[j.child] == 0 and not any(j.armature) and j.child not in in_loops
    }
    return idle - _parts_of_flexible(model)


def _parts_of_flexible(model: ModelData) -> set[int]:
    """Return the massless bodies that represent places on flexible bodies."""
    bodies = {joint.parent for joint in model.joints if joint.kind.elastic}
    bodies |= {joint.child for joint in model.joints if joint.follows is not None}
    return {k for k in bodies if k != GROUND and model.bodies[k].mass == 0}


def unusual_parts(model: ModelData) -> list[str]:
    """Return one sentence for each kind of unusual part."""
    idle = massless_joints(model)
    skipped = idle | _parts_of_flexible(model)
    bodies = [body for body in model.bodies if body.index not in skipped]
    follow = {joint.child for joint in model.joints if joint.independent is False}  # with what has mass
    empty = [body.name for body in bodies if body.mass == 0 and body.index not in follow]
    points = [body.name for body in bodies if body.mass > 0 and not np.any(body.moment)]
    locked = [j.name for j in model.joints if j.lower == j.upper and j.nq and np.isfinite(j.lower).all()]
    rough = [j.name for j in model.joints if any(j.friction)]
    kinds = [
        ("joint", [model.joints[k].name for k in sorted(idle)], *NO_MASS),
        ("body", empty, "can move and has no mass", "can move and have no mass", ""),
        ("body", points, "is a point mass: its", "are point masses: their", " moment of inertia is zero"),
        ("joint", locked, "has equal lower and upper limits", "have equal lower and upper limits", ""),
        ("joint", rough, "has dry friction", "have dry friction",
            ", which acts in time steps only"),
    ]  # fmt: skip
    return [_of_all(*kind) for kind in kinds if kind[1]]


def _of_all(noun: str, names: list[str], one: str, many: str, ending: str) -> str:
    """Return one sentence about several joints or bodies."""
    if len(names) == 1:
        return f"{noun} {names[0]!r} {one}{ending}"
    plural = {"body": "bodies"}.get(noun, f"{noun}s")
    return f"{len(names)} {plural} {many}{ending}: {join_names([repr(name) for name in names])}"


_NAMES_AND_NUMBERS = re.compile(r"""'[^']*'|"[^"]*"|(?<![\w.])-?\d[\d.]*(?:e[-+]?\d+)?""")


def merge_similar(notes: Iterable[str]) -> list[str]:
    """Return notes with those that differ only in names and numbers merged into one line."""
    kinds: dict[str, list[str]] = {}
    for note in notes:
        kinds.setdefault(_NAMES_AND_NUMBERS.sub("*", note), []).append(note)
    lines = []
    for similar in kinds.values():
        subjects = [match[0] for note in similar if (match := _NAMES_AND_NUMBERS.search(note))]
        others = (
            f" (and {len(similar) - 1} more of this kind: {join_names(subjects[1:])})"
            if len(similar) > 1
            else ""
        )
        lines.append(similar[0] + others)
    return lines


def _table(model: ModelData, names: list[str]) -> list[str]:
    v = "tree v" if model.embedded else "v"
    head = ("", "joint", "kind", "parent", "body", "mass [kg]", "q", v, "properties")
    rows = [head]
    for joint, body in zip(model.joints, model.bodies):
        parent = WORLD if joint.parent == GROUND else names[joint.parent]
        q = _span(joint.q_slice)
        v = _span(joint.v_slice)
        rows.append((str(body.index), joint.name, type(joint.kind).__name__.lower(), parent, body.name,
                     f"{body.mass:.6g}", q, v, joint_properties(joint)))  # fmt: skip
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]


def joint_properties(joint: PlacedJoint) -> str:
    """Return armature, damping, stiffness, friction and limits of a joint in short."""
    parts = []
    for name in ("armature", "damping", "stiffness", "friction"):
        values = getattr(joint, name)
        if any(values):
            parts.append(f"{name} {' '.join(f'{x:g}' for x in dict.fromkeys(values))}")
    if np.isfinite(joint.lower).any() or np.isfinite(joint.upper).any():
        parts.append(", ".join(f"{a:g} to {b:g}" for a, b in zip(joint.lower, joint.upper)))
    if joint.max_angle < np.inf:
        parts.append(f"rotation at most {joint.max_angle:g}")
    return "; ".join(parts)


def count(n: int, word: str, words: str | None = None) -> str:
    """Return a count with its noun: "1 joint", "2 joints"."""
    return f"{n} {word if n == 1 else words or word + 's'}"


def _span(s: slice) -> str:
    return "" if s.stop == s.start else str(s.start) if s.stop - s.start == 1 else f"{s.start}-{s.stop - 1}"


def _wrapped(head: str, words: list[str], width: int = 110) -> list[str]:
    lines = []
    line = head
    for k, word in enumerate(words):
        piece = word if k == len(words) - 1 else word + ", "
        if len(line) + len(piece) > width and line != head:
            lines.append(line.rstrip())
            line = " " * len(head)
        line += piece
    return [*lines, line.rstrip()]
