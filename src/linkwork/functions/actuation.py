"""Public function of the joint forces of actuators described by a model's file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from linkwork.algorithms.loops import closing
from linkwork.algorithms.tree.inverse_dynamics import inverse_dynamics
from linkwork.compiler.ir.functions import maximum, minimum
from linkwork.errors import ModelError
from linkwork.functions.engine.model_function import model_function
from linkwork.functions.kinematics import frame_jacobian, frame_pose
from linkwork.joints import Free, Spherical
from linkwork.mechanism import Actuator, Frame, PlacedJoint
from linkwork.mechanism.actuator_laws import (
    force,
    has_dynamics,
    is_on_spatial_tendon,
    unsupported_reason,
)
from linkwork.mechanism.names import did_you_mean, join_names, printable
from linkwork.mechanism.tree import path_to_ground
from linkwork.model import GROUND, Model
from linkwork.sko.body_loads import BodyLoads
from linkwork.sko.prepare.trees import hinge_tree, tree
from linkwork.spatial import Pose, rotation

__all__ = ["actuation", "select_actuators"]


def select_actuators(model: Model, actuators: Any = None) -> tuple[Actuator, ...]:
    """Return actuators by name or value; raise ModelError if their forces cannot be computed."""
    known = {actuator.name: actuator for actuator in model.actuators}
    if isinstance(actuators, (str, Actuator)):
        actuators = (actuators,)
    selected = []
    for actuator in model.actuators if actuators is None else actuators:
        if not isinstance(actuator, Actuator) and actuator not in known:
            raise ModelError(
                f"{printable(model.name)} has no actuator named {actuator!r}{did_you_mean(actuator, known)}"
            )
        selected.append(actuator if isinstance(actuator, Actuator) else known[actuator])
    if not selected:
        raise ModelError(
            f"{printable(model.name)} has no actuators"
            if actuators is None
            else "actuators names no actuator"
        )
    kinds = {joint.name: joint.kind for joint in model.joints}
    problems = [(actuator, unsupported_reason(actuator, kinds)) for actuator in selected]
    unsupported = [f"{actuator.name!r}: {problem}" for actuator, problem in problems if problem]
    if unsupported:
        raise ModelError(
            f"{printable(model.name)} has actuators whose forces are not computed: "
            f"{join_names(unsupported)}; choose others with actuators="
        )
    tendons = {tendon.name for tendon in model.tendons}
    for actuator in selected:
        if actuator.transmission == "site":
            for name in (actuator.target, *([actuator.reference] if actuator.reference else [])):
                model.frame(name)
        if is_on_spatial_tendon(actuator) and actuator.target not in tendons:
            raise ModelError(
                f"actuator {actuator.name!r}: {printable(model.name)} has no tendon named "
                f"{actuator.target!r}{did_you_mean(actuator.target, tendons)}"
            )
    return tuple(selected)


def _options(model: Model, actuators: Any) -> dict[str, Any]:
    return {"actuators": select_actuators(model, actuators)}


@model_function(q="nq", v="nv", controls="motors", activations="motors", options=_options)
def actuation(
    model: Model,
    q: Any,
    v: Any,
    controls: Any,
    activations: Any = None,
    *,
    actuators: Iterable[str | Actuator] | None = None,
) -> Any:
    """Return the joint forces of the model's actuators, (..., nv) [N m, N].

    Parameters
    ----------
    q : array_like, shape (..., nq)
        Configurations.
    v : array_like, shape (..., nv)
        Velocities of the independent joints [rad/s, m/s].
    controls : array_like, shape (..., actuators)
        One for each of `actuators`: a torque, a desired angle, or as the file defines. Each is clipped to its
        `control_range`.
    activations : array_like, shape (..., actuators), optional
        Activations of actuators with dynamics (filters, integrators, muscles), whose forces depend on them
        instead of on controls; other entries are ignored. `lw.Controls` integrates them in time steps.
    actuators : names or `linkwork.mechanism.Actuator`, optional
        Actuators that act, in this order. Default: all of `model.actuators`.

    Returns
    -------
    ndarray, shape (..., nv)
        Joint forces, which `forward_dynamics` takes as tau.

    Raises
    ------
    ModelError
        If the forces of an actuator are not computed (cranks, adhesion, PID
        actuators, plugins), or if it has dynamics and `activations` are missing.

    Notes
    -----
    The laws are those of MuJoCo: gear, gain, bias, ranges of controls and forces, and muscles. The sum of
    forces in a joint of one coordinate is limited by its `max_effort`.
    """
    selected: Sequence[Actuator] = actuators  # type: ignore[assignment]
    dynamic = [actuator.name for actuator in selected if has_dynamics(actuator)]
    if dynamic and activations is None:
        raise ModelError(
            f"actuation: activations= is missing: {join_names([repr(name) for name in dynamic])} of "
            f"{printable(model.name)} {'have' if len(dynamic) > 1 else 'has'} dynamics"
        )
    spanning = model.spanning_tree() if model.embedded else model
    rates = closing.spanning_velocity(tree(model, q, v)) if model.embedded else v
    total: Any = np.zeros(model.nv_spanning, dtype=object)
    for k, actuator in enumerate(selected):
        if not actuator.enabled:
            continue
        length, arm = _length_and_moment_arms(spanning, q, actuator)
        velocity = sum(x * rates[c] for c, x in arm.items())
        f = force(actuator, length, velocity, controls[k], None if activations is None else activations[k])
        for c, x in arm.items():
            total[c] = total[c] + x * f
    total = _limit_effort(model, total)
    return closing.independent_force(tree(model, q), total) if model.embedded else total


def _limit_effort(model: Model, total: Any) -> Any:
    """Return joint forces within the `max_effort` of joints of one coordinate."""
    for joint in model.joints:
        max_effort = joint.max_effort[0] if joint.nv == 1 and joint.max_effort else np.inf
        if max_effort < np.inf:
            c = joint.v_start
            total[c] = minimum(max_effort, maximum(-max_effort, total[c]))
    return total


def _length_and_moment_arms(model: Model, q: Any, actuator: Actuator) -> tuple[Any, dict[int, Any]]:
    """Return an actuator's length and its moment arms: the change of length with each tree velocity."""
    joints = {joint.name: joint for joint in model.joints}
    length: Any = actuator.length
    arm: dict[int, Any] = {}
    if actuator.transmission == "site":
        frame = model.frame(actuator.target)
        if actuator.reference:
            return _relative_to_site(model, q, actuator)
        if frame.body == GROUND:
            return 0.0, {}
        J = frame_jacobian.body(model, q, frame=frame.name)
        gear = (*actuator.gear, *(0.0 for _ in range(6 - len(actuator.gear))))
        row = np.array([*gear[3:6], *gear[:3]]) @ J
        return 0.0, {c: x for c, x in enumerate(row) if not (isinstance(x, float) and x == 0.0)}
    if is_on_spatial_tendon(actuator):
        return _of_spatial_tendon(model, q, actuator)
    if not actuator.joints:
        return _of_ball_or_free_joint(joints[actuator.target], q, actuator)
    for name, ratio in actuator.joints:
        joint = joints[name]
        length = length + ratio * q[joint.q_start]
        c = joint.v_start
        arm[c] = arm.get(c, 0.0) + ratio
    return length, arm


def _relative_to_site(model: Model, q: Any, actuator: Actuator) -> tuple[Any, dict[int, Any]]:
    """Return length and moment arms for a site relative to another, in the axes of that one.

    As in MuJoCo, joints that move both have no moment arm, and those below the reference move its origin and
    not its axes.
    """
    site, reference = (model.frame(name) for name in (actuator.target, actuator.reference))
    gear = (*actuator.gear, *(0.0 for _ in range(6 - len(actuator.gear))))
    place, axes = (_pose_of(model, q, frame) for frame in (site, reference))
    length: Any = 0.0
    if any(gear[:3]):
        length = length + np.array(gear[:3]) @ (axes.R.T @ (place.p - axes.p))
    if any(gear[3:6]):
        turn = rotation.log(rotation.of_matrix(axes.R.T @ place.R))
        length = length + np.array(gear[3:6]) @ turn
    wrench = np.concatenate([axes.R @ np.array(gear[3:6]), axes.R @ np.array(gear[:3])])
    paths = [path_to_ground(frame.body, model.joints) for frame in (site, reference)]
    arm: dict[int, Any] = {}
    ends = ((site, paths[0], paths[1], 1.0), (reference, paths[1], paths[0], -1.0))
    for frame, path, other, sign in ends:
        if frame.body == GROUND:
            continue
        row = wrench @ frame_jacobian.body(model, q, frame=frame.name, reference="world_aligned")
        for body in set(path) - set(other):
            columns = model.joints[body].v_slice
            arm |= {c: sign * row[c] for c in range(columns.start, columns.stop)}
    return length, dict(sorted(arm.items()))


def _pose_of(model: Model, q: Any, frame: Frame) -> Pose:
    if frame.body == GROUND:
        return frame.place
    T = frame_pose.body(model, q, frame=frame.name)
    return Pose(T[:3, :3], T[:3, 3])


def _of_spatial_tendon(model: Model, q: Any, actuator: Actuator) -> tuple[Any, dict[int, Any]]:
    """Return length and moment arms for a spatial tendon, times the gear."""
    (tendon,) = (tendon for tendon in model.tendons if tendon.name == actuator.target)
    free = model.without_passive_forces()
    nodes = tree(free, q)
    length, pulls = BodyLoads(free, nodes.bodies, nodes.below).path_and_pulls(tendon)
    forces = np.zeros((len(model.bodies), 6), dtype=object)
    for body, pull in pulls.items():
        forces[body] = -pull
    row = -inverse_dynamics(hinge_tree(free, q, None, forces), np.zeros(model.nv), passive=False)
    gear = actuator.gear[0] if actuator.gear else 1.0
    arm = {c: gear * x for c, x in enumerate(row) if not (isinstance(x, float) and x == 0.0)}
    return gear * length, arm


def _of_ball_or_free_joint(joint: PlacedJoint, q: Any, actuator: Actuator) -> tuple[Any, dict[int, Any]]:
    """Return length and moment arms for a ball or free joint.

    It is driven along and about axes of its child, its parent or the world.
    """
    x = q[joint.q_slice]
    first = joint.v_start
    gear = (*actuator.gear, *(0.0 for _ in range(6 - len(actuator.gear))))
    in_parent = actuator.transmission == "jointinparent"
    if isinstance(joint.kind, Spherical):
        turn = rotation.matrix(x)
        axis = turn.T @ np.array(gear[:3]) if in_parent else np.array(gear[:3])
        turned = rotation.log(rotation.normalized(x))  # the same vector in the parent and in the child
        return sum(g * w for g, w in zip(gear[:3], turned)), {first + k: axis[k] for k in range(3)}
    assert isinstance(joint.kind, Free)
    turn = joint.place.R @ rotation.matrix(x[3:])  # of the body in the world
    linear = turn.T @ np.array(gear[:3])
    angular = turn.T @ np.array(gear[3:]) if in_parent else np.array(gear[3:])
    return 0.0, {first + k: each for k, each in enumerate((*angular, *linear))}
