"""Models with other loops: constrained, embedded or added."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from linkwork.errors import LimitError, ModelError
from linkwork.loops.analysis import ClusterAnalysis
from linkwork.loops.closure_messages import CannotClose, closure_notes
from linkwork.loops.clusters import Ancestors, find_families
from linkwork.loops.independent_rows import loops_with_independent_rows
from linkwork.mechanism import GROUND, LoopConstraint
from linkwork.mechanism.limits import Limits
from linkwork.mechanism.names import printable
from linkwork.model.data import AnyModel, ModelData
from linkwork.model.loop_joints import (
    CouplingSpec,
    LoopJoint,
    checked_tolerance,
    moving_joint,
    start_coordinates,
)
from linkwork.spatial import Pose
from linkwork.spatial.constants import set_frozen


def with_loops(model: AnyModel, constrain: Iterable[str], embed: Iterable[str]) -> AnyModel:
    """Return a copy of a model with some loops constrained or embedded; see `Model.with_loops`."""
    loops_by_name = {c.name: c for c in model.loops}
    loops_by_name |= {
        loop.name: loop for cluster in model.clusters for loop in loops_with_independent_rows(model, cluster)
    }
    constrained_names = {c.name for c in model.constrained_loops}
    for names, update in ((constrain, constrained_names.add), (embed, constrained_names.discard)):
        for name in (names,) if isinstance(names, str) else names:
            update(model.part_named("loop", name, loops_by_name).name)
    embedded = tuple(
        c.with_independent_rows(None) for c in loops_by_name.values() if c.name not in constrained_names
    )
    constrained_loops = tuple(c for c in loops_by_name.values() if c.name in constrained_names)
    variant = replace(model, embedded=embedded, constrained_loops=constrained_loops, kernels={})
    _ = variant.clusters  # raises if a loop cannot be embedded
    return variant


def with_used_equations(model: AnyModel, limits: Limits | None = None) -> AnyModel:
    """Return a copy whose constrained loops use independent equations, with the slack of rounded numbers."""
    analysis = ClusterAnalysis(model, limits)
    changed: dict[str, LoopConstraint] = {}
    unused = tuple(loop.with_independent_rows(None) for loop in model.constrained_loops)
    for bodies, loops in find_families(model.joints, (*model.embedded, *unused)):
        if not any(loop in unused for loop in loops) or all(loop.linear for loop in loops):
            continue
        try:
            cluster = analysis.constrained_cluster((bodies, loops))
        except ModelError:  # raised where states are computed
            continue
        changed |= {loop.name: loop for loop in loops_with_independent_rows(model, cluster)}
    constrained_loops = tuple(changed.get(loop.name, loop) for loop in unused)
    return replace(model, constrained_loops=constrained_loops, kernels={})


def with_as_many_equations(model: AnyModel) -> AnyModel:
    """Return a copy whose constrained loops use the equations that are independent now, if as many are."""
    if not model.constrained_loops:
        return model
    analysed = with_used_equations(model)
    counts = [
        sum(len(getattr(loop, "independent_rows", None) or ()) for loop in variant.constrained_loops)
        for variant in (analysed, model)
    ]
    return analysed if counts[0] == counts[1] else model


def with_loop(model: AnyModel, spec: LoopJoint, start: Any, tolerance: float | None) -> AnyModel:
    """Return a copy of a model with one more loop joint; see `Model.with_loop`."""
    changed: dict[str, Any] = (
        {} if start is None else {"start": start_coordinates(model.joints, start, model.keyframes)}
    )
    changed |= {} if tolerance is None else {"tolerance": checked_tolerance(tolerance)}
    loop = spec.on(partial(_place_of, model))
    for loop_end, link in zip(loop.ends, (spec.predecessor, spec.successor)):
        if loop_end.body != GROUND and model.joints[loop_end.body].kind.elastic and np.any(loop_end.place.p):
            raise ModelError(
                f"loop {spec.name!r}: {link!r} is flexible: attach the loop to a frame that was added with "
                "the builder"
            )
    return _with_constraint(replace(model, **changed, kernels={}), loop, spec.embed)


def with_coupling(model: AnyModel, spec: CouplingSpec) -> AnyModel:
    """Return a copy of a model with one more coupling; see `Model.with_coupling`."""
    joint_indices = {joint.name: joint.child for joint in model.joints}
    fixed_joints = {frame.joint for frame in model.frames}
    tree = Ancestors([joint.parent for joint in model.joints])
    coupling = spec.on(
        lambda joint: moving_joint(spec.name, joint, joint_indices, joint in fixed_joints),
        partial(_place_of, model),
        model.joints,
        tree,
    )
    return _with_constraint(model, coupling, spec.embed)


def _place_of(model: ModelData, name: str) -> tuple[int, Pose]:
    frame = model.frame(name)
    return frame.body, frame.place


def _with_constraint(model: AnyModel, constraint: LoopConstraint, embed: bool) -> AnyModel:
    """Return a copy with one more loop constraint, keeping chosen independent joints where possible."""
    if any(constraint.name == c.name for c in model.loops):
        raise ModelError(
            f"{printable(model.name)} already has a loop or coupling named {constraint.name!r}: expected "
            "a new name"
        )
    loops = (
        {"embedded": (*model.embedded, constraint)}
        if embed
        else {"constrained_loops": (*model.constrained_loops, constraint)}
    )
    model = replace(model, **loops, kernels={})  # type: ignore[arg-type]
    model = with_used_equations(model) if model.constrained_loops else model
    family_bodies = {
        k
        for bodies, family_loops in find_families(model.joints, model.loops)
        if constraint.name in {loop.name for loop in family_loops}
        for k in bodies
    }
    earlier_choices = [relaxation for k in sorted(family_bodies) for relaxation in model.joints[k].choices]
    # drop earlier choices, step by step, where they no longer fit
    relaxations: list[dict[bool | None, bool | None]] = [{}]
    relaxations += [{None: False}] if True in earlier_choices and None in earlier_choices else []
    relaxations += [{True: None}] if True in earlier_choices else []
    relaxations += [{True: None, False: None}] if False in earlier_choices else []
    for relaxation in relaxations:
        joints = [
            replace(j, independent=tuple(relaxation.get(x, x) for x in j.choices))
            if j.child in family_bodies
            else j
            for j in model.joints
        ]
        model = replace(model, joints=tuple(joints), kernels={})
        try:
            notes = closure_notes(model, model.clusters)  # raises if a loop cannot be closed
            set_frozen(model, "notes", (*model.notes, *(note for note in notes if note not in model.notes)))
            return model
        except (LimitError, CannotClose):
            raise
        except ModelError as error:
            failure = error
    raise failure
