"""Gaps, points and normals of shapes that may touch, and the rows that belong to them."""

from __future__ import annotations

import numpy as np

import linkwork as lw
from linkwork.constraints import BodyKinematics
from linkwork.contact import contact_rows
from linkwork.simplify.trees import hinge_tree
from linkwork.spatial import Pose


def test_gap_rate_is_the_velocity_along_the_normal() -> None:
    """d gap / dt = n · (velocity of the first body against the other), by finite differences."""
    model = lw.robots.mini_cheetah()
    foot = lw.Geometry("foot", -1, Pose.translation(np.array([0.0, 0.0, -0.2])), "sphere", (0.02,), link="FR_knee_link")
    trunk = lw.Geometry(
        "trunk", -1, Pose.placed([0.1, 0.0, 0.0], [0.1, 0.2, 0.3]), "box", (0.4, 0.2, 0.1), link="Floating Base"
    )
    found = lw.Contacts(shapes=[foot, trunk, "HL_hip_link"]).candidates(model)
    assert len(found) == 10
    q, v = model.random_state(1)

    def gaps(q: np.ndarray) -> np.ndarray:
        kinematics = BodyKinematics(hinge_tree(model, q))
        return np.array([float(each.touch(kinematics).gap) for each in found])

    h = 1e-6
    rate = (gaps(lw.integrate(model, q, h * v)) - gaps(lw.integrate(model, q, -h * v))) / (2.0 * h)
    kinematics = BodyKinematics(hinge_tree(model, q, v))
    for each, expected in zip(found, rate):
        rows = contact_rows(kinematics, each, each.touch(kinematics))
        seen = sum(K @ kinematics.velocity(kinematics.nodes[each.body]) for _, _, K in rows.nodes)
        np.testing.assert_allclose(float(seen[0]), expected, atol=1e-8)
