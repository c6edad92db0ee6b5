"""Public functions of kinematics: poses, velocities, accelerations and Jacobians of bodies and frames."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from linkwork.algorithms.tree import kinematics
from linkwork.errors import ModelError
from linkwork.functions.engine.model_function import model_function
from linkwork.mechanism.names import printable
from linkwork.model import GROUND, Frame, Model
from linkwork.sko import Tree
from linkwork.sko.prepare.frames import in_own_frames
from linkwork.sko.prepare.rotors import lumped
from linkwork.sko.prepare.trees import tree
from linkwork.sko.tree import model_tree

Frames = str | Sequence[str]  # a frame's name, or those of several


def normalize_frame(
    model: Model | Tree, frame: Any, reference: str = "body", classical: bool = False, **_: Any
) -> dict[str, Any]:
    """Return the option `frame` as a name, or as a tuple of names if several are given."""
    if reference not in kinematics.REFERENCES:
        raise ModelError(f"reference: expected one of {', '.join(kinematics.REFERENCES)}, got {reference!r}")
    if isinstance(model, Tree) and (reference != "body" or classical):
        raise ModelError(
            f"{printable(model.name)} is a custom tree: pick-offs give the velocities of its frames but "
            "no poses in the world; omit reference and classical"
        )
    if isinstance(frame, (str, Frame)) or not isinstance(frame, Iterable):
        return {"frame": _name(model, frame)}
    names = tuple(_name(model, each) for each in frame)
    if not names:
        raise ModelError("frame: expected a name or several, got an empty sequence")
    return {"frame": names}


def _name(model: Model | Tree, frame: Any) -> str:
    return model.frame(frame.name if isinstance(frame, Frame) else frame).name


def _frame_tree(model: Model, q: Any, frame: Frames, v: Any = None) -> Any:
    """Return nodes in which the bodies of the frames have rows of their own, also if they are rotors."""
    bodies = [model.frame(name).body for name in _as_tuple(frame)]
    if isinstance(model, Tree):
        return tree(model, q, v)
    return tree(
        model,
        q,
        v,
        all_bodies=any(body != GROUND and lumped(model)[body].rotor is not None for body in bodies),
    )


def _as_tuple(frame: Frames) -> tuple[str, ...]:
    return (frame,) if isinstance(frame, str) else tuple(frame)


def for_each_frame(model: Model, frame: Frames, fn: Callable[[Frame], Any]) -> Any:
    """Return the result of a function for one frame, or an array over frames for several."""
    results = [fn(model.frame(name)) for name in _as_tuple(frame)]
    return results[0] if isinstance(frame, str) else np.array(results, dtype=object)


@model_function(q="nq")
def forward_kinematics(model: Model, q: Any) -> Any:
    """Return the poses of all bodies in the world as homogeneous matrices.

    Parameters
    ----------
    q : array_like, shape (..., nq)
        Configurations.

    Returns
    -------
    ndarray, shape (..., bodies, 4, 4)
        Axes of each body frame as columns and its origin [m], in the world, in the order of `model.bodies`.
    """
    return kinematics.body_poses(model_tree(model, in_own_frames(model), q))


@model_function(q="nq", options=normalize_frame)
def frame_pose(model: Model, q: Any, *, frame: Frames) -> Any:
    """Return the pose of a frame in the world as a homogeneous matrix.

    Parameters
    ----------
    q : array_like, shape (..., nq)
        Configurations.
    frame : str or sequence of str
        Name of a frame, link or joint, or "world".

    Returns
    -------
    ndarray, shape (..., 4, 4)
        Axes of the frame as columns and its origin [m], in the world; (..., frames, 4, 4) for a sequence of
        frames.
    """
    nodes = _frame_tree(model, q, frame)
    return for_each_frame(model, frame, lambda each: kinematics.frame_pose(nodes, each).matrix())


@model_function(q="nq", v="nv", options=normalize_frame, custom_trees=True)
def frame_velocity(model: Model, q: Any, v: Any, *, frame: Frames, reference: str = "body") -> Any:
    """Return the velocity [ω, v] of a frame.

    Parameters
    ----------
    q : array_like, shape (..., nq)
        Configurations.
    v : array_like, shape (..., nv)
        Velocities of the independent joints [rad/s, m/s].
    frame : str or sequence of str
        Name of a frame, link or joint, or "world".
    reference : str, optional
        "body" (default): of the frame's origin, in its axes. "world_aligned": of the frame's origin, in the
        axes of the world. "world": of the body's point at the origin of the world, in the axes of the world.

    Returns
    -------
    ndarray, shape (..., 6)
        Angular and linear velocity [rad/s, m/s]; (..., frames, 6) for a sequence of frames.

    See Also
    --------
    frame_jacobian : The map from v to this velocity.

    Notes
    -----
    Frames of custom trees (`linkwork.sko.Tree`) have the velocities that their pick-offs define, in "body"
    only.
    """
    nodes = _frame_tree(model, q, frame, v)
    return for_each_frame(model, frame, lambda each: kinematics.frame_velocity(nodes, v, each, reference))


@model_function(q="nq", v="nv", a="nv", options=normalize_frame, custom_trees=True)
def frame_acceleration(
    model: Model, q: Any, v: Any, a: Any, *, frame: Frames, reference: str = "body", classical: bool = False
) -> Any:
    """Return the acceleration of a frame; gravity is not included.

    Parameters
    ----------
    q : array_like, shape (..., nq)
        Configurations.
    v : array_like, shape (..., nv)
        Velocities of the independent joints [rad/s, m/s].
    a : array_like, shape (..., nv)
        Accelerations of the independent joints [rad/s², m/s²].
    frame : str or sequence of str
        Name of a frame, link or joint, or "world".
    reference : str, optional
        Point and axes, as in `frame_velocity`.
    classical : bool, optional
        Return the acceleration of the frame's origin as seen by an observer at rest, instead of the spatial
        acceleration, which is the rate of `frame_velocity` in the frame's own axes.

    Returns
    -------
    ndarray, shape (..., 6)
        Angular and linear acceleration [rad/s², m/s²]; (..., frames, 6) for a sequence of frames.

    See Also
    --------
    frame_jacobian_rate : J̇ in the acceleration J a + J̇ v.
    """
    nodes = _frame_tree(model, q, frame, v)
    return for_each_frame(
        model,
        frame,
        lambda each: kinematics.frame_acceleration(nodes, v, a, each, reference, classical=classical),
    )


@model_function(q="nq", options=normalize_frame, custom_trees=True)
def frame_jacobian(model: Model, q: Any, *, frame: Frames, reference: str = "body") -> Any:
    """Return the Jacobian J of a frame, (..., 6, nv), with J v = `frame_velocity`.

    Parameters
    ----------
    q : array_like, shape (..., nq)
        Configurations.
    frame : str or sequence of str
        Name of a frame, link or joint, or "world".
    reference : {"body", "world_aligned", "world"}
        Point and axes of the velocity. "body" (default): velocity of the frame's origin, in the axes of the
        frame. "world_aligned": velocity of the frame's origin, in the axes of the world. "world": velocity of
        the body's point that coincides with the world's origin, in the axes of the world. These are LOCAL,
        LOCAL_WORLD_ALIGNED and WORLD of Pinocchio, with angular rows first.

    Returns
    -------
    ndarray, shape (..., 6, nv)
        Angular rows, then linear rows [rad/s, m/s per unit of v]; (..., frames, 6, nv) for a sequence of
        frames. Columns belong to the independent velocities `model.v_names`.

    Raises
    ------
    ModelError
        If the model has no frame, link or joint of this name.

    See Also
    --------
    frame_velocity, frame_jacobian_rate, center_of_mass_jacobian

    Notes
    -----
    For a point p other than the origin, (3,) [m] in the axes of the frame, the rows of its linear velocity in
    "body" axes are ``J[3:] - lw.spatial.skew(p) @ J[:3]``. For the velocity of frame A relative to frame B,
    subtract their Jacobians with reference="world".

    Examples
    --------
    >>> arm = lw.robots.chain(3)
    >>> q, v = arm.random_state(0)
    >>> tip = arm.bodies[-1].name
    >>> J = lw.frame_jacobian(arm, q, frame=tip)
    >>> np.allclose(J @ v, lw.frame_velocity(arm, q, v, frame=tip))
    True
    """
    nodes = _frame_tree(model, q, frame)
    return for_each_frame(model, frame, lambda each: kinematics.frame_jacobian(nodes, each, reference))
