"""How nodes describe bodies: whatever frames a model is written in, programs are short, and results are the
model's.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_joints import JOINTS, close, every, numbers

import linkwork as lw
from linkwork.algorithms.tree.inverse_dynamics import inverse_dynamics
from linkwork.algorithms.tree.mass_matrix import mass_matrix
from linkwork.joints import Cylindrical, Helical, Joint, Planar, Prismatic, Revolute
from linkwork.sko.prepare.base_parameters import regrouped
from linkwork.sko.prepare.frames import MAX_SHIFT, in_node_frames, in_own_frames
from linkwork.sko.tree import hinge_tree, model_tree
from linkwork.spatial import Pose, snapped
from mechanisms import with_state

seeds = st.integers(0, 2**32 - 1).map(np.random.default_rng)
common = settings(deadline=None, derandomize=True, max_examples=15)
FUNCTIONS = (
    (lw.inverse_dynamics, {}),
    (lw.mass_matrix, {}),
    (lw.forward_dynamics, {"method": "articulated_body"}),
)


def about(axis: int, angle: float) -> Pose:
    return Pose(Pose.rotation_about(axis, angle).R.astype(float), np.zeros(3))


@every
@common
@given(seeds)
def test_what_a_joint_says_of_its_symmetry_is_so(joint: Joint, rng: np.random.Generator) -> None:
    straight, _ = joint.axis_aligned()
    shifts, turn, phase = straight.symmetry()
    q = straight.random(rng)
    angle = float(rng.uniform(-3, 3))
    T = straight.transform(q).matrix()
    moves = [Pose.translation(float(rng.normal()) * np.eye(3)[axis]) for axis in shifts]
    moves += [] if turn is None else [about(turn, angle)]
    for C in moves:
        assert close(C.matrix() @ T, T @ C.matrix())
    if phase:
        assert turn is not None
        further = straight.transform(np.array([q[0] + phase * angle, *q[1:]]))
        assert close(further.matrix(), T @ about(turn, angle).matrix())


def test_joints_with_an_axis_have_a_symmetry() -> None:
    for joint in JOINTS:
        shifts, turn, phase = joint.axis_aligned()[0].symmetry()
        assert (len(shifts) > 0) == isinstance(joint, (Revolute, Prismatic, Helical, Cylindrical, Planar))
        assert (turn is not None) == isinstance(joint, (Revolute, Prismatic, Helical, Cylindrical))
        assert (phase != 0.0) == isinstance(joint, (Revolute, Cylindrical))


def untidy(model: lw.Model, rng: np.random.Generator, *, turned: bool = True) -> lw.Model:
    """The same mechanism, its bodies' frames moved along and turned about the axes of their hinges.
    Coordinates stay.
    """
    K: dict[int, Pose] = {-1: Pose.identity()}
    joints = []
    bodies = []
    for joint, body in zip(model.joints, model.bodies):
        K[joint.child] = Pose.identity()
        if isinstance(joint.kind, Revolute):
            axis = joint.kind.coordinate
            shift = Pose.translation(float(rng.uniform(-0.3, 0.3)) * np.eye(3)[axis])
            K[joint.child] = about(axis, float(rng.uniform(-3, 3)) if turned else 0.0).then(shift)
        place = K[joint.parent].inverse().then(joint.place).then(K[joint.child])
        joints.append(replace(joint, place=Pose(snapped(place.R), place.p)))
        bodies.append(replace(body, inertia=K[joint.child].inverse().congruence(body.inertia)))
    return replace(model, joints=tuple(joints), bodies=tuple(bodies), frames=(), kernels={})


def floats(fn: Any, *args: Any, **options: Any) -> np.ndarray:
    return numbers(fn.body(*args, **options))


@pytest.mark.parametrize(
    "make", [lw.robots.arm, lw.robots.quadruped, lw.robots.humanoid], ids=lambda make: make.__name__
)
@pytest.mark.sweep(3)
def test_programs_are_short_whatever_frames_a_robot_is_written_in(make: Any) -> None:
    tidy = make()
    rng = np.random.default_rng(3)
    q, v = tidy.random_state(rng)
    a = rng.normal(size=tidy.nv)
    given = {lw.inverse_dynamics: (q, v, a), lw.mass_matrix: (q,), lw.forward_dynamics: (q, v, a)}
    for turned in (False, True):
        same = untidy(tidy, rng, turned=turned)
        for fn, options in FUNCTIONS:
            least, count = (lw.count_operations(fn, m, **options)["total"] for m in (tidy, same))
            assert count <= 1.25 * least, (fn.__name__, turned)
            wanted = floats(fn, tidy, *given[fn], **options)
            assert close(floats(fn, same, *given[fn], **options), wanted, 1e-11 * np.abs(wanted).max())


def test_lengths_along_axes_and_angles_about_them_vanish() -> None:
    """A hinge about x, then one about y at the end of a length along x, turned about x: no number is left of
    its place.
    """
    builder = lw.ModelBuilder("bent")
    builder.add_body("base", mass=1.0, inertia=(1.0, 1.0, 1.0))
    builder.add_joint("base", lw.joints.Free(), parent="world", child="base")
    for name, on, axis, xyz, rpy in (
        ("roll", "base", (1, 0, 0), (0.1, 0.0, 0.2), (0.0, 0.0, 0.0)),
        ("pitch", "roll", (0, 1, 0), (0.3, 0.0, 0.0), (0.4, 0.0, 0.0)),
        ("knee", "pitch", (0, 1, 0), (0.05, 0.0, -0.4), (0.0, 0.7, 0.0)),
    ):
        builder.add_body(name, mass=1.0, center=(0.1, 0.2, 0.3), inertia=(1.0, 1.0, 1.0))
        builder.add_joint(name, Revolute(axis), parent=on, child=name, xyz=xyz, rpy=rpy)
    model = builder.build()
    base, roll, pitch, knee = in_node_frames(model)
    assert np.array_equal(base.frame.place.matrix(), np.eye(4)) and np.array_equal(base.C.matrix(), np.eye(4))
    assert [np.count_nonzero(d.frame.place.p) for d in (roll, pitch, knee)] in ([1, 1, 1], [2, 0, 1])
    assert all(np.isin(np.abs(d.frame.place.R), (0.0, 1.0)).all() for d in in_node_frames(model))
    assert np.isclose(abs(roll.frame.phase), 0.4) and np.isclose(
        np.abs(knee.frame.place.p).max(), np.hypot(0.05, 0.4)
    )


@common
@given(with_state())
def test_mass_that_hinges_do_not_notice(example: Any) -> None:
    """Joint forces and the mass matrix are the same without it; on numbers, in all kinds of trees."""
    model, s = example
    for fn, args in ((inverse_dynamics, (s.a,)), (mass_matrix, ())):
        wanted, *others = (
            numbers(fn(make(model, bodies(model), s.q, s.v, s.f_ext), *args))
            for make in (model_tree, hinge_tree)
            for bodies in (in_own_frames, in_node_frames, regrouped)
        )
        size = 1e-12 * max(1.0, np.abs(wanted).max(initial=0.0))
        assert all(close(other, wanted, size) for other in others)


def test_a_hinge_leaves_its_body_flat_and_without_mass() -> None:
    model = lw.robots.humanoid()
    assert sum(d.reduced.mass for d in regrouped(model)) == pytest.approx(
        model.mass
    )  # all of it in the trunk
    for joint, d in zip(model.joints, regrouped(model)):
        if isinstance(joint.kind, Revolute):
            axis = joint.kind.coordinate
            assert d.reduced.mass == 0.0 and d.reduced.h[axis] == 0.0
            assert d.reduced.A[axis, axis] == pytest.approx(np.delete(np.diag(d.reduced.A), axis).sum())


def test_frames_stay_near_their_bodies() -> None:
    """Hinges side by side, each a metre along the axis from the last: origins in one plane would be 100 m
    away.
    """
    builder = lw.ModelBuilder("screw")
    for k in range(100):
        builder.add_body(f"body_{k}", mass=1.0, center=(0.1, 0.2, 0.3), inertia=(1.0, 1.0, 1.0))
        on = f"body_{k - 1}" if k else "world"
        builder.add_joint(
            f"joint_{k}", Revolute((0, 0, 1)), parent=on, child=f"body_{k}", xyz=(0.5, 0.0, 1.0)
        )
    model = builder.build()
    assert max(np.abs(d.C.p).max() for d in in_node_frames(model)) <= MAX_SHIFT


def test_points_keep_their_digits() -> None:
    """A leg of bodies that are points, of angles with few digits, as some files have them, against more
    digits.
    """
    builder = lw.ModelBuilder("points")
    chain = ["world"]
    for name, axis, xyz, rpy, mass, center, moment in (
        ("pitch", (0, 1, 0), (0.0, 0.07, -0.12), (0.0, 1.5708, 0.0), 0.75, (0.0, -0.08, 0.0), 0.0),
        ("roll", (1, 0, 0), (0.0, 0.0, 0.0), (0.0, 1.5708, 0.0), 0.53, (0.0, 0.0, 0.03), 0.0),
        ("yaw", (0, 1, 0), (0.0, 0.0, 0.0), (1.5708, 0.0, 0.0), 2.2, (0.0014, -0.16, 0.0004), 0.0),
        ("knee", (0, 0, 1), (0.0, -0.22, 0.0), (3.14159, 0.0, 1.5708), 1.3, (-0.11, 0.0018, -0.0021), 0.0),
        ("foot", (0, 1, 0), (-0.21, 0.0, 0.0), (1.5708, 0.0, 0.0), 0.75, (-0.005, 0.0016, -0.017), 0.003),
    ):
        on = chain[-1]
        builder.add_body(name, mass=mass, center=center, inertia=(moment,) * 3)
        builder.add_joint(name, Revolute(axis), parent=on, child=name, xyz=xyz, rpy=rpy)
        chain.append(name)
    model = builder.build()
    assert [d.point_like for d in in_node_frames(model)] == [True, True, True, True, False]
    rng = np.random.default_rng(2)
    worst = 0.0
    for _ in range(200):
        q, v = model.random_state(rng)
        found, exact = (
            floats(lw.forward_dynamics, model, *x, method="articulated_body")
            for x in ((q, v, v), longer(q, v, v))
        )
        worst = max(worst, np.abs(found - exact).max() / np.abs(exact).max())
    assert worst < 1e-13


def longer(*arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    """The same numbers with more digits, where the machine has them."""
    return tuple(np.array([np.longdouble(x) for x in array], dtype=object) for array in arrays)
