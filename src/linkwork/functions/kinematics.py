"""The public functions of kinematics: poses, velocities, accelerations and Jacobians of bodies and frames."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from linkwork.algorithms import kinematics
from linkwork.errors import ModelError
from linkwork.functions.model_function import model_function
from linkwork.model import GROUND, Frame, Model
from linkwork.parts.names import shown
from linkwork.simplify.frames import in_own_frames
from linkwork.simplify.rotors import lumped
from linkwork.simplify.trees import tree
from linkwork.sko import Tree
from linkwork.sko.tree import model_tree

Frames = str | Sequence[str]  # a frame's name, or those of several


def chosen_frame(model: Model | Tree, frame: Any, reference: str = "body", classical: bool = False, **_: Any) -> dict[str, Any]:
    """The option `frame` by its name, or by a tuple of names where several are given."""
    if reference not in kinematics.REFERENCES:
        raise ModelError(f"reference must be one of {', '.join(kinematics.REFERENCES)}, not {reference!r}")
    if isinstance(model, Tree) and (reference != "body" or classical):
        raise ModelError(
            f"{shown(model.name)} is made by hand: its frames have velocities as their pick-offs say, and no poses in the "
            "world; leave out reference and classical"
        )
    if isinstance(frame, (str, Frame)) or not isinstance(frame, Iterable):
        return {"frame": _name(model, frame)}
    several = tuple(_name(model, each) for each in frame)
    if not several:
        raise ModelError("frame must be a frame's name or several: none is given")
    return {"frame": several}


def _name(model: Model | Tree, frame: Any) -> str:
    return model.frame(frame.name if isinstance(frame, Frame) else frame).name


def _frame_tree(model: Model, q: Any, frame: Frames, v: Any = None) -> Any:
    """Nodes in which the bodies of frames have rows of their own, also where they are rotors."""
    bodies = [model.frame(name).body for name in _several(frame)]
    if isinstance(model, Tree):
        return tree(model, q, v)
    return tree(model, q, v, whole=any(body != GROUND and lumped(model)[body].rotor is not None for body in bodies))


def _several(frame: Frames) -> tuple[str, ...]:
    return (frame,) if isinstance(frame, str) else tuple(frame)


def of_each(model: Model, frame: Frames, fn: Callable[[Frame], Any]) -> Any:
    """What a function gives for one frame; for several, all of it in one array, with the frames first."""
    found = [fn(model.frame(name)) for name in _several(frame)]
    return found[0] if isinstance(frame, str) else np.array(found, dtype=object)


@model_function(q="nq")
def forward_kinematics(model: Model, q: Any) -> Any:
    """The homogeneous matrices of all bodies' frames in the world, in the order of `model.bodies`, (..., bodies, 4, 4)."""
    return kinematics.body_poses(model_tree(model, in_own_frames(model), q))


@model_function(q="nq", options=chosen_frame)
def frame_pose(model: Model, q: Any, *, frame: Frames) -> Any:
    """The homogeneous matrix of a frame in the world, (..., 4, 4), or of several, (..., frames, 4, 4)."""
    nodes = _frame_tree(model, q, frame)
    return of_each(model, frame, lambda each: kinematics.frame_pose(nodes, each).matrix())


@model_function(q="nq", v="nv", options=chosen_frame, by_hand=True)
def frame_velocity(model: Model, q: Any, v: Any, *, frame: Frames, reference: str = "body") -> Any:
    """[w, v] of a frame, (..., 6), or of several, (..., frames, 6).

    `reference` "body": of the frame's origin, in its own axes; "world_aligned": of its origin, in the world's axes; "world":
    of the point that is now at the world's origin, in the world's axes.
    """
    nodes = _frame_tree(model, q, frame, v)
    return of_each(model, frame, lambda each: kinematics.frame_velocity(nodes, v, each, reference))


@model_function(q="nq", v="nv", a="nv", options=chosen_frame, by_hand=True)
def frame_acceleration(
    model: Model, q: Any, v: Any, a: Any, *, frame: Frames, reference: str = "body", classical: bool = False
) -> Any:
    """The spatial acceleration of a frame, (..., 6), or of several, (..., frames, 6): the rate of its velocity in its own axes.

    `classical`: with the acceleration of the frame's origin as seen from outside. Gravity plays no part. `reference` as in
    `frame_velocity`.
    """
    nodes = _frame_tree(model, q, frame, v)
    return of_each(model, frame, lambda each: kinematics.frame_acceleration(nodes, v, a, each, reference, classical=classical))


@model_function(q="nq", options=chosen_frame, by_hand=True)
def frame_jacobian(model: Model, q: Any, *, frame: Frames, reference: str = "body") -> Any:
    """J with J v = `frame_velocity`, (..., 6, nv), or of several frames, (..., frames, 6, nv)."""
    nodes = _frame_tree(model, q, frame)
    return of_each(model, frame, lambda each: kinematics.frame_jacobian(nodes, each, reference))
