"""The public functions of kinematics: poses, velocities, accelerations and Jacobians of bodies and frames."""

from __future__ import annotations

from typing import Any

from linkwork.algorithms import kinematics
from linkwork.errors import ModelError
from linkwork.functions.model_function import model_function
from linkwork.model import GROUND, Frame, Model
from linkwork.simplify.frames import in_own_frames
from linkwork.simplify.rotors import lumped
from linkwork.simplify.trees import tree
from linkwork.sko import Tree
from linkwork.sko.tree import model_tree


def chosen_frame(model: Model, frame: Any, reference: str = "body", **_: Any) -> dict[str, Any]:
    """The option `frame` by its name."""
    if reference not in kinematics.REFERENCES:
        raise ModelError(f"reference must be one of {', '.join(kinematics.REFERENCES)}, not {reference!r}")
    return {"frame": model.frame(frame.name if isinstance(frame, Frame) else frame).name}


def _frame_tree(model: Model, q: Any, frame: str, v: Any = None) -> Any:
    """Nodes in which the body of a frame has rows of its own, also where it is a rotor."""
    body = model.frame(frame).body
    if isinstance(model, Tree):
        return tree(model, q, v)
    return tree(model, q, v, whole=body != GROUND and lumped(model)[body].rotor is not None)


@model_function(q="nq")
def forward_kinematics(model: Model, q: Any) -> Any:
    """The homogeneous matrices of all bodies' frames in the world, in the order of `model.bodies`, (..., bodies, 4, 4)."""
    return kinematics.body_poses(model_tree(model, in_own_frames(model), q))


@model_function(q="nq", options=chosen_frame)
def frame_pose(model: Model, q: Any, *, frame: str) -> Any:
    """The homogeneous matrix of a frame in the world, (..., 4, 4)."""
    return kinematics.frame_pose(_frame_tree(model, q, frame), model.frame(frame)).matrix()


@model_function(q="nq", v="nv", options=chosen_frame, by_hand=True)
def frame_velocity(model: Model, q: Any, v: Any, *, frame: str, reference: str = "body") -> Any:
    """[w, v] of a frame, (..., 6).

    `reference` "body": of the frame's origin, in its own axes; "world_aligned": of its origin, in the world's axes; "world":
    of the point that is now at the world's origin, in the world's axes.
    """
    return kinematics.frame_velocity(_frame_tree(model, q, frame, v), v, model.frame(frame), reference)


@model_function(q="nq", v="nv", a="nv", options=chosen_frame, by_hand=True)
def frame_acceleration(
    model: Model, q: Any, v: Any, a: Any, *, frame: str, reference: str = "body", classical: bool = False
) -> Any:
    """The spatial acceleration of a frame, (..., 6): the rate of its velocity's components in the frame's own axes.

    `classical`: with the acceleration of the frame's origin as seen from outside. Gravity plays no part. `reference` as in
    `frame_velocity`.
    """
    return kinematics.frame_acceleration(
        _frame_tree(model, q, frame, v), v, a, model.frame(frame), reference, classical=classical
    )


@model_function(q="nq", options=chosen_frame, by_hand=True)
def frame_jacobian(model: Model, q: Any, *, frame: str, reference: str = "body") -> Any:
    """J with J v = `frame_velocity`, (..., 6, nv)."""
    return kinematics.frame_jacobian(_frame_tree(model, q, frame), model.frame(frame), reference)
