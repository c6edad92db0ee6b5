"""Public functions of loop joints: their coordinates, velocities and wrenches."""

from __future__ import annotations

from typing import Any

from linkwork.algorithms.loops import active_joints, loop_joints
from linkwork.errors import ModelError
from linkwork.functions.engine.model_function import model_function
from linkwork.functions.transmitted_forces import embedded_motion
from linkwork.mechanism.loops import Loop
from linkwork.mechanism.names import did_you_mean, printable
from linkwork.model import Model
from linkwork.sko.prepare.trees import tree


def _loop(model: Model, name: str) -> Loop:
    return next(loop for loop in model.loops if isinstance(loop, Loop) and loop.name == name)


def _loop_option(model: Model, loop: Any) -> dict[str, Any]:
    """Return the option `loop` after checking that it names a loop joint."""
    names = [each.name for each in model.loops if isinstance(each, Loop)]
    if not isinstance(loop, str) or loop not in names:
        raise ModelError(
            f"{printable(model.name)} has no loop joint named {loop!r}{did_you_mean(loop, names)}"
        )
    return {"loop": loop}


def _loop_with_coordinates(model: Model, loop: Any) -> dict[str, Any]:
    option = _loop_option(model, loop)
    kind = _loop(model, loop).kind
    try:
        kind.coordinates_of(kind.transform(kind.neutral()))
    except NotImplementedError as error:
        raise ModelError(f"loop {loop!r}: {error}") from None
    return option


@model_function(q="nq", options=_loop_with_coordinates)
def loop_joint_position(model: Model, q: Any, *, loop: str) -> Any:
    """Return the coordinates of a loop joint, those of its kind, (..., its nq): angles [rad] within ±π and
    lengths [m].

    `loop` names one of `model.loops`, embedded or constrained. With `Joint.transform` they are the pose of
    its successor in its predecessor.
    """
    joint = _loop(model, loop)
    return joint.kind.coordinates_of(loop_joints.relative_pose(tree(model, q, all_bodies=True), joint))


@model_function(q="nq", v="nv", options=_loop_with_coordinates)
def loop_joint_velocity(model: Model, q: Any, v: Any, *, loop: str) -> Any:
    """Return the velocities of a loop joint, those of its kind, (..., its nv) [rad/s, m/s].

    `loop` as in `loop_joint_position`.
    """
    return loop_joints.relative_velocity(tree(model, q, all_bodies=True), _loop(model, loop), v)


@model_function(q="nq", v="nv", a="nv", f_ext="bodies 6", tau_spanning="nv_spanning", options=_loop_option)
def loop_joint_wrench(
    model: Model, q: Any, v: Any, a: Any, f_ext: Any = None, tau_spanning: Any = None, *, loop: str
) -> Any:
    """Return the wrench [moment, force] that a loop joint exerts on its successor.

    Parameters
    ----------
    q : array_like, shape (..., nq)
        Configurations.
    v : array_like, shape (..., nv)
        Velocities of the independent joints [rad/s, m/s].
    a : array_like, shape (..., nv)
        Accelerations of the independent joints [rad/s², m/s²].
    f_ext : array_like, shape (..., bodies, 6), optional
        External wrench on each body, as in `inverse_dynamics`.
    tau_spanning : array_like, shape (..., nv_spanning), optional
        Joint forces of all joints, as in `loop_forces`.
    loop : str
        Name of a loop joint of `model.loops`.

    Returns
    -------
    ndarray, shape (..., 6)
        Moment and force [N m, N] at the origin and in the axes of the joint frame on the successor. The
        opposite wrench acts on the predecessor.

    Notes
    -----
    Where redundant loops share a load, the wrench is that of the equations in use; see `loop_forces`.
    """
    motion = embedded_motion("loop_joint_wrench", model, q, v, a, tau_spanning)
    nodes = tree(motion.model, q, motion.v, all_bodies=True)
    lam = active_joints.loop_forces(nodes, motion.a, f_ext, tau_spanning)
    return loop_joints.wrench(nodes, _loop(motion.model, loop), lam)
