"""Pinocchio models built from trees of linkwork."""

from __future__ import annotations

from typing import Any

import numpy as np

from linkwork.joints import Free, Prismatic, Revolute, Spherical, Universal
from linkwork.model import Model


def pinocchio() -> Any:
    """Return the module pinocchio, or None where it is not installed."""
    try:
        import pinocchio as module
    except ImportError:
        return None
    return module


def pinocchio_tree(pin: Any, model: Model) -> Any:
    """Return Pinocchio's model of a tree.

    Raises ValueError for joints of other kinds than free, revolute, prismatic, spherical and universal.
    """
    result = pin.Model()
    result.gravity.linear = np.array(model.gravity)
    for joint, body in zip(model.joints, model.bodies):
        if isinstance(joint.kind, Free):
            kind = pin.JointModelFreeFlyer()
        elif isinstance(joint.kind, Revolute):
            kind = _along(
                joint.kind.axis,
                [pin.JointModelRX, pin.JointModelRY, pin.JointModelRZ],
                pin.JointModelRevoluteUnaligned,
            )
        elif isinstance(joint.kind, Prismatic):
            kind = _along(
                joint.kind.axis,
                [pin.JointModelPX, pin.JointModelPY, pin.JointModelPZ],
                pin.JointModelPrismaticUnaligned,
            )
        elif isinstance(joint.kind, Spherical):
            kind = pin.JointModelSpherical()
        elif isinstance(joint.kind, Universal):
            kind = pin.JointModelUniversal(*np.eye(3)[:2])
        else:
            raise ValueError(type(joint.kind).__name__)
        place = pin.SE3(np.array(joint.place.R, dtype=float), np.array(joint.place.p, dtype=float))
        k = result.addJoint(joint.parent + 1, kind, place, joint.name)
        result.appendBodyToJoint(
            k, pin.Inertia(body.mass, np.array(body.center), np.array(body.moment)), pin.SE3.Identity()
        )
        for at, armature in enumerate(joint.armature):
            result.armature[result.idx_vs[k] + at] = armature
    return result


def _along(axis: Any, aligned: list[Any], skew: Any) -> Any:
    u = np.array(axis, dtype=float)
    for k, kind in enumerate(aligned):
        if np.array_equal(u, np.eye(3)[k]):
            return kind()
    return skew(u)
