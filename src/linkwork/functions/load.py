"""Loading of models from files, and the choice between embedded and constrained loops."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from linkwork import formats
from linkwork.compiler.passes.count import count_operations
from linkwork.errors import ModelError
from linkwork.functions.constrained import constrained_dynamics
from linkwork.functions.dynamics import forward_dynamics
from linkwork.mechanism.limits import Limits, checked_limits
from linkwork.model import Model
from linkwork.model.loop_joints import LoopJoint, LoopOptions, constraint_spec

LOOP_MODES = ("embed", "constrain", "auto")
# proximal iterations counted for constrained loops; without redundant rows further ones change only rounding
COUNTED_ITERATIONS = 2


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
    """Load a model from a file, an XML text or an installed robot description package.

    Parameters
    ----------
    path : str or path-like
        URDF (root <robot>), MJCF (<mujoco>) or SDF (<sdf>) file; a text that begins with "<"; or the name of
        a robot of an installed package ("g1"). A .xacro file is expanded by the package xacro, a program that
        may open any file.
    base : {"fixed", "free"}, optional
        How root links are attached to the world; "free" by a `Free` joint. Default: as in the file, and fixed
        for URDF.
    gravity : sequence of 3 floats, optional
        Gravity [m/s²] in world axes. Default: as in the file, or (0, 0, -9.81).
    strict : bool, optional
        Raise for inertias that are not physically consistent and for elements and attributes that are unknown
        or have no effect, instead of listing them in the model's notes.
    loops : str, path-like or sequence, optional
        "embed" (default), "constrain" or "auto", as in `choose_loops`; or loops to add to those of the file,
        each a `LoopJoint` or a mapping with its arguments, with those of `ModelBuilder.add_coupling` (name,
        terms) or of `add_implicit_constraint` (name, function, joints); or a YAML file of pairs of frames, as
        distributed with URDFs of parallel robots.
    start : array_like or str, optional
        State from which loops are closed, as in `ModelBuilder.build`, or the name of a keyframe of the file.
    tolerance : float, optional
        Closing tolerance, as in `ModelBuilder.build`. Default: depends on the digits of the file's numbers.
    limits : Limits, optional
        Limits on the size of files, which may be untrusted.
    folders : sequence of paths, optional
        Folders, besides the file's own and that of its package, from which included files and meshes that
        define inertias may be read. No other files are opened.
    arguments : mapping, optional
        Values for <xacro:arg>.

    Returns
    -------
    Model
        The model; `Model.report` lists what was read and what was ignored.

    Raises
    ------
    ModelError
        If the file is invalid, with the line, or exceeds `limits`.

    See Also
    --------
    ModelBuilder : Models in Python.
    diagnose : Check a model.
    export_urdf, export_mjcf : Write models.

    Examples
    --------
    >>> text = '''<robot name="arm">
    ...   <link name="base"/>
    ...   <link name="arm"><inertial><mass value="1"/><origin xyz="0 0 0.5"/>
    ...     <inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/>
    ...   </inertial></link>
    ...   <joint name="hinge" type="continuous"><parent link="base"/><child link="arm"/>
    ...     <axis xyz="0 1 0"/></joint>
    ... </robot>'''
    >>> lw.load(text).nv
    1
    """
    if isinstance(loops, os.PathLike) or (
        isinstance(loops, str) and loops.lower().endswith((".yaml", ".yml"))
    ):
        options = formats.loop_file(os.fspath(loops), checked_limits(limits))._replace(
            start=start, tolerance=tolerance
        )
    elif isinstance(loops, str):
        if loops not in LOOP_MODES:
            raise ModelError(
                f"loops: expected one of {', '.join(LOOP_MODES)}, or loops to add, got {loops!r}"
            )
        options = LoopOptions((), loops != "constrain", start, tolerance)
    elif isinstance(loops, (LoopJoint, Mapping)) or not isinstance(loops, Iterable):
        raise ModelError(
            f"loops: expected one of {', '.join(LOOP_MODES)}, or a sequence of loops to add, got {loops!r}"
        )
    else:
        options = LoopOptions(tuple(constraint_spec(loop) for loop in loops), True, start, tolerance)
    more: dict[str, Any] = {"limits": limits, "loops": options, "folders": folders, "arguments": arguments}
    model = formats.load(path, base=base, gravity=gravity, strict=strict, **more)
    return choose_loops(model, loops) if loops == "auto" else model


def choose_loops(model: Model, loops: str = "auto", *, among: Iterable[str] | None = None) -> Model:
    """Return the same mechanism with loops embedded ("embed"), constrained ("constrain"), or chosen ("auto").

    For "auto" operations of forward dynamics are counted: starting with all loops embedded, the loops of each
    cluster together and then each loop alone are changed if that shortens the program. Embedding is best for
    local loops, constraint forces for loops that span many bodies. `among` names the loops and couplings to
    change; default all.
    """
    if loops not in LOOP_MODES:
        raise ModelError(f"loops: expected one of {', '.join(LOOP_MODES)}, got {loops!r}")
    names = [c.name for c in (*model.embedded, *model.constrained_loops)] if among is None else list(among)
    if loops == "constrain":
        return model.with_loops(constrain=names)
    best = model.with_loops(embed=names)
    if loops == "embed" or not names:
        return best
    fewest = operations(best)
    clusters = sorted((c for c in best.clusters if c.constraints), key=lambda cluster: -len(cluster.bodies))
    groups = [[c.name for c in cluster.constraints if c.name in names] for cluster in clusters]
    clusterwise = [set(group) for group in groups if len(group) > 1]
    single = [{name} for group in groups for name in group]
    for group in (*clusterwise, *single):
        is_constrained = group <= {c.name for c in best.constrained_loops}
        other = best.with_loops(embed=group) if is_constrained else best.with_loops(constrain=group)
        count = operations(other)
        if count < fewest:
            best = other
            fewest = count
    return best


def operations(model: Model) -> int:
    """Return the number of operations of forward dynamics.

    With constrained loops, `COUNTED_ITERATIONS` proximal iterations are counted.
    """
    if not model.constrained_loops:
        return count_operations(forward_dynamics.program(model))["total"]
    program = constrained_dynamics.program(
        model, constraints=(), iterations=COUNTED_ITERATIONS, tolerance=None, method="auto"
    )
    return count_operations(program)["total"]
