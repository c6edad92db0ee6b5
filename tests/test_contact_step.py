"""Steps with contact: closed forms, laws of contact and friction, and rollouts as one kernel."""

from __future__ import annotations

import numpy as np

import linkwork as lw
from linkwork.spatial import Pose

G = 9.81


def body(shape: str, size: tuple[float, ...], mass: float = 1.0, moment: float = 0.1) -> lw.Model:
    b = lw.ModelBuilder("one body")
    b.add_body("body", mass=mass, inertia=np.eye(3) * moment)
    b.add_joint("float", lw.joints.Free(), parent="world", child="body")
    b.add_geometry(lw.Geometry("shape", -1, Pose.identity(), shape, size, link="body"))
    return b.build()


def test_ball_falls_and_stays_on_the_ground() -> None:
    ball = body("sphere", (0.1,))
    q = np.array([0.0, 0.0, 0.3, 0.0, 0.0, 0.0, 1.0])
    found = lw.rollout(ball, q, np.zeros(6), dt=0.002, steps=300, contacts=lw.Contacts())
    assert found.status == lw.Status.OK
    assert found.residual <= 1e-9
    heights = found.q[:, 2] - 0.1
    assert heights.min() > -1e-12
    assert abs(heights[-1]) < 1e-12
    np.testing.assert_allclose(found.impulses, [G * 0.002, 0.0, 0.0], atol=1e-12)
