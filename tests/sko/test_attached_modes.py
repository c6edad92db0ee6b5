"""Forward dynamics in modes that are the displacements and slopes of what is attached: the same
accelerations, for less.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import linkwork as lw
from linkwork.sko.prepare.attached_modes import bases
from papers.exudyn_chain import chain

fx = lw.flexible


def panel(name, modes, seed):
    """A body of mass points that modes move in all directions, with full stiffness and damping matrices; and
    its points.
    """
    rng = np.random.default_rng(seed)
    points, (shapes, slopes), K = (
        rng.normal(size=(6, 3)),
        rng.normal(size=(2, 6, 3, modes)),
        rng.normal(size=(modes, modes)),
    )
    points[0], shapes[0], slopes[0] = 0.0, 0.0, 0.0
    K = 20.0 * (K @ K.T + np.eye(modes))
    data = {"points": points, "masses": rng.uniform(0.1, 0.5, 6), "shapes": shapes, "slopes": slopes}
    return fx.from_nodes(name, **data, stiffness=K, damping=0.02 * K), points


@cache
def tree():
    """Panels in a branching tree: two things on one, at two places, on a free base."""
    b = lw.ModelBuilder("tree")
    b.add_body("bus", mass=3.0, inertia=(0.1, 0.2, 0.25))
    b.add_joint("base", lw.joints.Free(), parent="world", child="bus")
    (left, at), (right, there) = panel("left", 4, 0), panel("right", 3, 1)
    b.add_body(flexible=left).add_body(flexible=right)
    b.add_joint("ball", lw.joints.Spherical(), parent="bus", child="left", xyz=(0.1, 0.2, 0.3))
    b.add_joint("slide", lw.joints.Cylindrical((0, 1, 0)), parent="left", child="right", xyz=at[3])
    b.add_body("bob", mass=0.5, inertia=(0.01, 0.01, 0.01))
    b.add_joint("glue", lw.joints.Fixed(), parent="left", child="bob", xyz=at[5])
    b.add_body("end", mass=0.2, inertia=(0.001, 0.002, 0.002))
    b.add_joint("pin", lw.joints.Revolute((1, 2, 3)), parent="right", child="end", xyz=there[2])
    return b.build()


def numbers(model, n=3):
    rng = np.random.default_rng(0)
    q, v = map(np.array, zip(*(model.random_state(rng) for _ in range(n))))
    return q, v, rng.normal(size=v.shape), rng.normal(size=(n, len(model.bodies), 6))


@pytest.mark.parametrize(
    "make", [tree, lambda: chain(3, 6), lw.robots.boom_satellite], ids=["tree", "chain", "boom"]
)
def test_accelerations_are_the_same_in_attached_modes(make):
    model = make()
    assert bases(model)
    given = numbers(model)
    expected, found = (
        lw.forward_dynamics(model, *given, method=way) for way in ("articulated_body", "attached_modes")
    )
    np.testing.assert_allclose(found, expected, atol=1e-10 * np.abs(expected).max())


def test_parameters_of_modes_are_those_of_the_model_s_own():
    model = tree()
    q, v, tau, _ = numbers(model, 1)
    rng = np.random.default_rng(1)
    for words in (("stiffness", "damping"), ("armature",), ("mass",)):
        given = {f"{word}@left.modes": rng.uniform(0.5, 2.0, (1, 4)) for word in words if word != "mass"} or {
            "mass@left": np.array([2.0])
        }
        ways = ("mass_matrix", "attached_modes")
        expected, found = (
            lw.forward_dynamics(model, q, v, tau, parameters=given, method=way) for way in ways
        )
        np.testing.assert_allclose(found, expected, atol=1e-10 * np.abs(expected).max())


def test_bodies_that_carry_nothing_stay_as_they_are():
    b = lw.ModelBuilder("rod")
    b.add_body(
        flexible=fx.beam("rod", length=1.0, section=fx.Circle(0.01), material=fx.STEEL, modes=3, elements=3)
    )
    b.add_joint("hinge", lw.joints.Revolute((0, 1, 0)), parent="world", child="rod")
    assert not bases(b.add_frame("tip", body="rod", xyz=(1, 0, 0)).build())


def test_a_chain_takes_a_fifth_fewer_operations():
    model = chain(3, 6)
    ways = ("articulated_body", "partitioned", "attached_modes")
    counts = {way: lw.count_operations(lw.forward_dynamics, model, method=way)["total"] for way in ways}
    assert counts["attached_modes"] < 0.8 * counts["partitioned"]
    assert lw.count_operations(lw.forward_dynamics, model)["total"] == counts["attached_modes"]
