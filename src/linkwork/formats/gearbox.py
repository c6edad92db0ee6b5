"""Gearboxes of SDF, also in URDF files for Gazebo: couplings of two revolute joints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from linkwork.errors import ModelError
from linkwork.formats.urdf_parts import MAX_VALUE
from linkwork.formats.xml import Element
from linkwork.mechanism.names import printable

PARALLEL_TOL = 1e-6  # of the cosine of two directions


class TreeJoint(NamedTuple):
    """The parent link and joint of a link in the tree."""

    parent: str
    joint: str = ""  # empty if the link is fixed to its parent
    axis: np.ndarray | None = None  # of a revolute joint at zero, in the axes of the root


def gear_terms(
    gearbox: Element,
    reference: str,
    ends: Sequence[str],
    axes: Sequence[np.ndarray | None],
    above: Mapping[str, TreeJoint],
) -> dict[str, float]:
    """Return the coefficients of θ₂ + ratio θ₁ = 0 by joint.

    θ₁ and θ₂ are the angles from the reference body to the two ends, about `axes` if those are given.
    """
    ratio = gearbox.needed("gearbox_ratio").numbers("", 1, largest=MAX_VALUE)[0]
    terms: dict[str, float] = {}
    for link, axis, tag, factor in zip(ends, axes, ("axis", "axis2"), (ratio, 1.0)):
        path = _between(reference, link, above)
        if path is None or len(path) != 1 or path[0][1] is None or path[0][0] in terms:
            raise _not_adjacent(gearbox, reference)
        joint, joint_axis = path[0]
        cosine = 1.0 if axis is None else float(joint_axis @ axis)
        if abs(abs(cosine) - 1.0) > PARALLEL_TOL:
            raise gearbox.error(f"<{tag}>: expected the axis of joint {printable(joint)!r}")
        terms[joint] = factor * float(np.sign(cosine))
    return terms


def _not_adjacent(gearbox: Element, reference: str) -> ModelError:
    return gearbox.error(
        f"gearbox: expected links that are each connected to {printable(reference)!r} "
        "by exactly one revolute joint"
    )


def _between(
    start: str, end: str, above: Mapping[str, TreeJoint]
) -> list[tuple[str, np.ndarray | None]] | None:
    """Return the joints between `start` and `end` with their axes; None if the two are not connected."""
    up = _to_root(start, above)
    down = _to_root(end, above)
    if up[-1] != down[-1]:
        return None
    while len(up) > 1 and len(down) > 1 and up[-2] == down[-2]:
        up.pop()
        down.pop()
    joints: list[tuple[str, np.ndarray | None]] = []
    for sign, links in ((-1.0, up[:-1]), (1.0, down[:-1])):
        for tree_joint in (above[link] for link in links):
            if tree_joint.joint:
                joints.append((tree_joint.joint, None if tree_joint.axis is None else sign * tree_joint.axis))
    return joints


def _to_root(link: str, above: Mapping[str, TreeJoint]) -> list[str]:
    path = [link]
    while path[-1] in above:
        path.append(above[path[-1]].parent)
    return path
