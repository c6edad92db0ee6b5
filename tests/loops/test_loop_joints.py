"""Loop joints by name: coordinates, velocities and wrenches, of embedded and constrained loops."""

from __future__ import annotations

import numpy as np
import pytest
from test_constrained_loops import constrained, in_order
from test_joints import JOINTS
from test_loops import state_of

import linkwork as lw
from holding import close
from linkages import LOOP_KINDS, floats, linkage, numbers, poses, tree
from linkwork import ModelError
from linkwork.joints import Gimbal, Helical, Joint, PointOnLine, Rod
from linkwork.mechanism.loops import Loop
from linkwork.spatial import Pose


@pytest.mark.parametrize("kind", [*JOINTS, Helical(0.0), Helical(-0.3, (1.0, 2.0, 3.0))], ids=repr)
def test_coordinates_of_a_pose(kind: Joint) -> None:
    """They are those from which the pose came, up to whole turns and the sign of quaternions."""
    rng = np.random.default_rng(0)
    if not kind.is_builtin:
        with pytest.raises(NotImplementedError, match="coordinates_of is not defined"):
            kind.coordinates_of(Pose.identity())
        return
    for _ in range(20):
        pose = kind.transform(kind.random(rng))
        found = kind.transform(kind.coordinates_of(pose))
        assert close(numbers(found.R), numbers(pose.R), 1e-9) and close(
            numbers(found.p), numbers(pose.p), 1e-9
        )


@pytest.mark.parametrize("kind", [*LOOP_KINDS])
def test_coordinates_and_velocities_of_loop_joints(kind: str) -> None:
    model = linkage(f"ring {kind}")
    (loop,) = model.embedded
    assert isinstance(loop, Loop)
    s = state_of(model)
    for m, v in ((model, s.v), (constrained(model), in_order(constrained(model), s.V))):
        if isinstance(loop.kind, (Rod, PointOnLine)):
            for function in (lw.loop_joint_position, lw.loop_joint_velocity):
                with pytest.raises(ModelError, match="only a loop joint"):
                    function.normalize_options(m, {"loop": loop.name})
            continue
        T = poses(m if m is model else tree(model), s.q)
        P, F = (T[end.body].then(end.place) for end in loop.ends)
        at = loop.kind.transform(floats(lw.loop_joint_position, m, s.q, loop=loop.name))
        right: Pose = P.inverse().then(F)
        assert close(numbers(at.R), numbers(right.R), 1e-8) and close(numbers(at.p), numbers(right.p), 1e-8)
        h = 1e-5
        cut = [floats(lw.integrate, tree(model), s.q, x * s.V) for x in (-h, h)]
        ends = [floats(lw.loop_joint_position, m, q, loop=loop.name) for q in cut]
        rate = numbers(loop.kind.difference(*ends)) / (2 * h)
        assert close(
            floats(lw.loop_joint_velocity, m, s.q, v, loop=loop.name),
            rate,
            1e-6 if kind != "gimbal" else 1e-5,
        )
    assert not isinstance(loop.kind, Gimbal) or len(rate) == 3


@pytest.mark.parametrize("name", ["five_bar", "planar_leg_linkage", "stewart"])
def test_wrenches_of_loop_joints_take_the_place_of_the_loops(name: str) -> None:
    """With them as forces from outside, the tree needs the forces in its joints alone; they do no work in the
    joint.
    """
    model = getattr(lw.robots, name)()
    s = state_of(model)
    cut = tree(model)
    force = np.random.default_rng(1).normal(size=model.nv_spanning)
    a = floats(
        lw.forward_dynamics,
        model,
        s.q,
        s.v,
        floats(lw.independent_force, model, s.q, force),
        s.f,
        method="mass_matrix",
    )
    A = floats(lw.spanning_acceleration, model, s.q, s.v, a)
    other = constrained(model)
    for m, v, own in ((model, s.v, a), (other, in_order(other, s.V), in_order(other, A))):
        outside = np.array(s.f)
        for loop in m.loops:
            assert isinstance(loop, Loop)
            W = floats(lw.loop_joint_wrench, m, s.q, v, own, s.f, force, loop=loop.name)
            T = poses(cut, s.q)
            P, F = (T[end.body].then(end.place) for end in loop.ends)
            on_ends = (P.inverse().then(F).gather(-W), W)
            for end, push in zip(loop.ends, on_ends):
                if end.body >= 0:
                    outside[end.body] += numbers(end.place.gather(push))
            if not isinstance(loop.kind, (Rod, PointOnLine)):
                S = numbers(loop.kind.subspace(floats(lw.loop_joint_position, m, s.q, loop=loop.name)))
                assert close(S.T @ W, np.zeros(S.shape[1]), 1e-7 * (1.0 + np.abs(W).max()))
        assert close(floats(lw.inverse_dynamics, cut, s.q, s.V, A, outside), force, 1e-6)


def test_names_that_are_no_loop_joints() -> None:
    model = lw.robots.mit_humanoid_leg()
    for name in (model.loops[0].name, "nothing", 3):
        with pytest.raises(ModelError, match="has no loop joint named"):
            lw.loop_joint_position(model, model.neutral(), loop=name)


def test_kernels_and_parameters() -> None:
    model = lw.robots.four_bar()
    place = model.parameters()["loop_placement"] * ([1.1] * 3 + [1.0] * 4)
    other = model.with_parameters({"loop_placement": place})
    name = model.loops[0].name
    q, v = other.random_state(1)
    for function in (lw.loop_joint_position, lw.loop_joint_velocity, lw.loop_joint_wrench):
        arrays = (q, v, v)[: len(function.required)]
        found = function(model, *arrays, loop=name, parameters={"loop_placement": place}, check=True)
        assert close(found, function(other, *arrays, loop=name), 1e-10)
