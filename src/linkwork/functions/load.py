"""Models from files, and the choice which of their loops are embedded and which force-held."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from linkwork import formats
from linkwork.errors import ModelError
from linkwork.functions.constrained import constrained_dynamics
from linkwork.functions.dynamics import forward_dynamics
from linkwork.model import Model
from linkwork.model.loop_joints import LoopJoint, LoopOptions, given_loop
from linkwork.parts.limits import Limits, checked_limits
from linkwork.passes.count import count_operations

CHOICES = ("embed", "constrain", "auto")
ITERATIONS = 2  # proximal iterations that are counted: more change nothing that can be seen, where no rows are redundant


def load(
    path: str | os.PathLike[str],
    *,
    base: str | None = None,
    gravity: Sequence[float] | None = None,
    strict: bool = False,
    loops: str | os.PathLike[str] | Iterable[LoopJoint | Mapping[str, Any]] = "embed",
    start: Any = None,
    tolerance: float | None = None,
    limits: Limits | None = None,
    folders: Iterable[str | os.PathLike[str]] = (),
    arguments: Mapping[str, Any] | None = None,
) -> Model:
    """The model that a file describes, an XML text (it begins with "<"), or a robot of an installed package by name ("g1").

    URDF is read by its root <robot>, MJCF by <mujoco>, SDF by <sdf>. `base` says how root links stand in the world: "fixed",
    or "free" to move, by a `Free` joint; None is as the file says, and fixed for URDF, which cannot say. `gravity` [m/s²] is in
    the axes of the world, (3,); None is as the file says, or (0, 0, -9.81). Files of real robots often give inertias that are
    not physically consistent: they are taken as they are and the model's notes name them; with `strict` they are errors.
    What is wrong in a file is a `ModelError` that says where. A file that is larger than its `limits` is refused, unless larger
    ones are given. Other files that it names are opened only where they must be (what is included, meshes that give an inertia
    in MJCF), and only inside its own folder, `folders`, and that of its package's robots if it is loaded by name. A file named
    .xacro is expanded by the package xacro, with `arguments` for <xacro:arg>; that is a program, which may open any file.

    `loops` says how the file's loops are closed, as in `choose_loops`; or it is a sequence of loops to add to those of the
    file, each a `LoopJoint` or a mapping with its words, with those of `ModelBuilder.add_coupling` (name, terms), or with those
    of `add_implicit_constraint` (name, function, joints); or a YAML file of pairs of frames, as collections of parallel robots
    have beside their URDF. `start` and `tolerance` are for closing them, as in `ModelBuilder.build`; `start` may name a
    keyframe of the file, and the tolerance is larger than usual where the file's numbers have few digits.
    """
    if isinstance(loops, os.PathLike) or (isinstance(loops, str) and loops.lower().endswith((".yaml", ".yml"))):
        options = formats.loop_file(os.fspath(loops), checked_limits(limits))._replace(start=start, tolerance=tolerance)
    elif isinstance(loops, str):
        if loops not in CHOICES:
            raise ModelError(f"loops must be one of {', '.join(CHOICES)}, or loops to add, not {loops!r}")
        options = LoopOptions((), loops != "constrain", start, tolerance)
    elif isinstance(loops, (LoopJoint, Mapping)) or not isinstance(loops, Iterable):
        raise ModelError(f"loops must be one of {', '.join(CHOICES)}, or a sequence of loops to add, not {loops!r}")
    else:
        options = LoopOptions(tuple(given_loop(loop) for loop in loops), True, start, tolerance)
    more: dict[str, Any] = {"limits": limits, "loops": options, "folders": folders, "arguments": arguments}
    model = formats.load(path, base=base, gravity=gravity, strict=strict, **more)
    return choose_loops(model, loops) if loops == "auto" else model


def choose_loops(model: Model, loops: str = "auto", *, among: Iterable[str] | None = None) -> Model:
    """The same mechanism with its loops embedded ("embed"), force-held ("constrain"), or each as is cheaper ("auto").

    For "auto" the operations of forward dynamics are counted: beginning with all loops embedded, those of each cluster
    together, and then each alone, change sides if that makes the program shorter. Embedding is best for local loops, forces
    for those that reach far. `among` names the loops and couplings that are meant, where not all are.
    """
    if loops not in CHOICES:
        raise ModelError(f"loops must be one of {', '.join(CHOICES)}, not {loops!r}")
    names = [c.name for c in (*model.embedded, *model.force_held)] if among is None else list(among)
    if loops == "constrain":
        return model.with_loops(constrain=names)
    best = model.with_loops(embed=names)
    if loops == "embed" or not names:
        return best
    least = operations(best)
    clusters = sorted((c for c in best.clusters if c.constraints), key=lambda cluster: -len(cluster.bodies))
    meant = [[c.name for c in cluster.constraints if c.name in names] for cluster in clusters]
    together, alone = [set(group) for group in meant if len(group) > 1], [{name} for group in meant for name in group]
    for group in (*together, *alone):
        is_force_held = group <= {c.name for c in best.force_held}
        other = best.with_loops(embed=group) if is_force_held else best.with_loops(constrain=group)
        count = operations(other)
        if count < least:
            best, least = other, count
    return best


def operations(model: Model) -> int:
    """How many operations forward dynamics needs, with so many proximal iterations where loops are force-held."""
    if not model.force_held:
        return count_operations(forward_dynamics.program(model))["total"]
    program = constrained_dynamics.program(model, constraints=(), iterations=ITERATIONS, tolerance=None, method="auto")
    return count_operations(program)["total"]
