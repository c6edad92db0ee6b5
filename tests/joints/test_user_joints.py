"""Joints that users define are checked when a model takes them: every method that contradicts another is
named.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

import linkwork as lw
import linkwork.joints.check
from linkwork.joints import (
    Cylindrical,
    Fixed,
    Free,
    Gimbal,
    Helical,
    Joint,
    Planar,
    Prismatic,
    Revolute,
    Spherical,
    Universal,
)
from linkwork.joints.check import check_closure, check_joint
from linkwork.joints.joint import Symmetry
from linkwork.spatial import Pose
from polar_joint import Polar


class Cardan(Joint):
    """About x, then about the new y: as `Universal`."""

    nq = nv = 2
    like: Joint = Universal()

    def transform(self, q):
        return self.like.transform(q)

    def subspace(self, q):
        return self.like.subspace(q)

    def bias(self, q, v):
        return self.like.bias(q, v)

    def random(self, rng):
        return self.like.random(rng)

    def partition(self):
        return self.like.partition()

    def closure(self):
        return self.like.closure()


class Ball(Cardan):
    """As `Spherical`: its rates, steps and neutral coordinates are not those of a plain vector."""

    nq = 4
    nv = 3
    like: Joint = Spherical()

    def neutral(self):
        return self.like.neutral()

    def rate(self, q, v):
        return self.like.rate(q, v)

    def integrate(self, q, v):
        return self.like.integrate(q, v)

    def difference(self, q0, q1):
        return self.like.difference(q0, q1)

    def chord_to_velocity(self, v):
        return self.like.chord_to_velocity(v)

    def chord(self, q0, q1):
        return self.like.chord(q0, q1)


class Skew(Cardan):
    """As a hinge with a skew axis: it is aligned with an axis."""

    nq = nv = 1
    like: Joint = Revolute((0.3, -0.5, 0.8))

    def axis_aligned(self):
        return self.like.axis_aligned()


def model_with(kind: Joint) -> lw.Model:
    b = lw.ModelBuilder()
    b.add_body("b", mass=1.0, inertia=(0.1, 0.2, 0.25), center=(0.1, 0.2, 0.3))
    return b.add_joint("hip", kind, parent="world", child="b").build()


@pytest.mark.parametrize("kind", [Cardan, Ball, Skew, Polar])
def test_joints_whose_methods_agree_are_taken(kind):
    model = model_with(kind())
    if kind is not Polar:
        own, q, v = model_with(kind.like), *model.random_state(0)
        np.testing.assert_allclose(
            lw.bias_force(model, q, v), lw.bias_force(own, q, v), rtol=1e-12, atol=1e-12
        )


SHIPPED = (
    Fixed(), Revolute((0.3, -0.5, 0.8)), Revolute(), Prismatic((1, 2, 3)), Helical(0.2), Helical(-0.1, (1, 1, 0)), 
    Cylindrical(), Cylindrical((0, 0.6, 0.8)), Universal(), Gimbal(), Planar(), Planar((0.0, 0.6, 0.8)), Spherical(), Free(),
)  # fmt: skip


@pytest.mark.parametrize("kind", SHIPPED, ids=lambda kind: type(kind).__name__)
def test_joints_that_ship_would_pass(kind):
    check_joint(kind)
    check_closure(kind)


def changed(kind: type[Joint], **methods) -> Joint:
    return type("Mine", (kind,), methods)()


def off(method):
    """A method of the good joint whose result is 1 % larger."""
    return lambda self, *given: 1.01 * np.asarray(method(self.like, *given))


WRONG = {
    "bias: expected the rate of subspace": changed(Cardan, bias=Joint.bias),
    "subspace: expected the twist of transform": changed(Cardan, subspace=off(Universal.subspace)),
    "subspace: expected shape (6, 2)": changed(Cardan, subspace=lambda self, q: np.zeros((6, 3))),
    "subspace: expected finite numbers": changed(Cardan, subspace=lambda self, q: np.full((6, 2), np.nan)),
    "transform: expected a rotation matrix": changed(Cardan, transform=lambda self, q: Pose(1.01 * np.eye(3), np.zeros(3))),
    "transform: expected a linkwork.spatial.Pose": changed(Cardan, transform=lambda self, q: np.eye(4)),
    "transform: expected parent and child frames": changed(Cardan, neutral=lambda self: np.array([0.1, 0.0])),
    "neutral: expected shape (2,)": changed(Cardan, neutral=lambda self: np.zeros(3)),
    "random: expected equal coordinates": changed(Cardan, random=lambda self, rng: np.random.default_rng().normal(size=2)),
    "partition: expected joints that in series": changed(Cardan, partition=lambda self: Universal().partition()[::-1]),
    "partition: expected joints with total nq = 2": changed(Cardan, partition=lambda self: Universal().partition()[:1]),
    "rate: expected shape (4,)": changed(Ball, rate=lambda self, q, v: v),
    "subspace: expected the twist": changed(Ball, rate=off(Spherical.rate)),
    "integrate: expected a curve that leaves q": changed(Ball, integrate=lambda self, q, v: self.like.integrate(q, 1.01 * v)),
    "integrate: expected q itself": changed(Ball, integrate=lambda self, q, v: self.like.integrate(q, v + 0.01)),
    "difference: expected the inverse": changed(Ball, difference=off(Spherical.difference)),
    "chord: expected chord_to_velocity(chord(q0, q1))": changed(Ball, chord=off(Spherical.chord)),
    "components: expected 3 distinct strings": changed(Ball, components=("x", "x", "z")),
    "springs: expected one of": changed(Ball, springs="no"),
    "nv: expected a non-negative integer": changed(Ball, nv=2.5),
    "numeric_integrate: expected the result": changed(Ball, numeric_integrate=lambda self, q, v: q),
    "numeric_motion: expected R and p": changed(Skew, numeric_motion=lambda self, q: (np.eye(3), np.zeros(3), 0)),
    "axis_aligned: expected transform(q)": changed(Skew, axis_aligned=lambda self: (Revolute(), Pose.identity())),
    "symmetry: expected displacements C": changed(Cardan, symmetry=lambda self: Symmetry((0,))),
    "units: expected positive numbers": changed(Skew, units=lambda self, length: np.zeros(1)),
}  # fmt: skip


@pytest.mark.parametrize("words", WRONG)
def test_methods_that_contradict_each_other_are_named(words):
    with pytest.raises(lw.ModelError, match="joint 'hip': Mine." + re.escape(words)) as error:
        model_with(WRONG[words])
    assert "\n" not in str(error.value)


def test_results_that_change_from_call_to_call_are_named():
    calls = iter(range(10**6))

    def transform(self, q):
        return Pose.rotation_about(0, q[0] * (1.0 + 1e-13 * next(calls)))

    with pytest.raises(lw.ModelError, match=r"transform: expected equal results of two calls"):
        model_with(changed(Skew, like=Revolute((1.0, 0.0, 0.0)), transform=transform))


def test_methods_that_fail_are_told():
    with pytest.raises(lw.ModelError, match="joint 'hip': a method of Mine fails: IndexError"):
        model_with(changed(Cardan, subspace=lambda self, q: q[7]))


def test_springs_need_coordinates_that_are_a_plain_vector():
    def sprung(kind, stiffness):
        b = lw.ModelBuilder().add_body("b", mass=1.0, inertia=(0.1, 0.2, 0.25))
        return b.add_joint("hip", kind, parent="world", child="b", stiffness=stiffness).build()

    with pytest.raises(lw.ModelError, match=r"Ball.springs: expected 'equal' or 'none', got 'each'"):
        sprung(Ball(), (1.0, 2.0, 3.0))
    sprung(Ball(), 0.0)
    sprung(changed(Ball, springs="equal"), 2.0)
    sprung(Cardan(), (1.0, 2.0))


def loop_of(kind: Joint) -> lw.ModelBuilder:
    b = lw.ModelBuilder()
    for name, kinds in (("a", Universal()), ("b", Free())):
        b.add_body(name, mass=1.0, inertia=(0.1, 0.2, 0.25)).add_joint(
            f"on {name}", kinds, parent="world", child=name
        )
    return b.add_loop("ring", kind, predecessor="a", successor="b")


def test_closure_equations_are_those_of_the_pose():
    loop_of(Cardan()).build()
    wrong = {
        "equations that hold at the joint's pose": changed(
            Cardan, closure=lambda self: Cylindrical().closure()
        ),
        "expected 6 - nv = 4 equations": changed(Cardan, closure=lambda self: Universal().closure()[:3]),
        "got redundant ones": changed(
            Cardan, closure=lambda self: [*Universal().closure()[:3], Universal().closure()[0]]
        ),
    }
    for words, kind in wrong.items():
        with pytest.raises(lw.ModelError, match="loop 'ring': Mine.closure: .*" + re.escape(words)):
            loop_of(kind).build()
        model_with(kind)  # as a joint of the tree its closure is not asked for


def test_joints_of_a_class_that_hold_the_same_are_checked_once(monkeypatch):
    states = []
    monkeypatch.setattr(linkwork.joints.check, "_check_joint", lambda kind: states.append(kind))

    class Wobbly(Cardan):
        def __init__(self, size):
            self.size = size

    for size in (1.0, 2.0, 1.0, 2.0):
        model_with(Wobbly(size))
    assert [kind.size for kind in states] == [1.0, 2.0]
    held = model_with(Wobbly(3.0)).joint("hip").kind
    assert model_with(held).joint("hip").kind is held
    for _ in range(2):  # what cannot be hashed may have changed
        model_with(Wobbly(np.zeros(2)))
    assert len(states) == 5
