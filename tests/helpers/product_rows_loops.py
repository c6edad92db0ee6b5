"""Rows of the product test for functions of loop joints, by relative poses of the dense oracle."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import linkwork as lw
from dense_mechanics import apply, joint_pose
from linkwork.mechanism import Coupling
from linkwork.mechanism.loops import Loop
from product_rows import Array, Given, Pair, row, times, transposed


def loop_joints(given: Given) -> list[Loop]:
    """Return the loop joints of a case; all are hinges."""
    return [loop for loop in given.model.loops if isinstance(loop, Loop)]


def relative_pose(given: Given, loop: Loop, q: Array) -> tuple[Array, Array]:
    """Return the pose of a loop joint's successor in its predecessor."""
    poses = given.oracle.kinematics(q)
    (RP, pP), (RF, pF) = (given.oracle.place(end.body, end.place, poses) for end in loop.ends)
    inverse = transposed(RP)
    return inverse @ RF, apply(inverse, pF - pP)


def angle(given: Given, loop: Loop, q: Array) -> Array:
    """Return the angle of a hinge about z, (b, 1)."""
    R, _ = relative_pose(given, loop, q)
    return np.arctan2(R[:, 1, 0], R[:, 0, 0])[:, None]


@row("closure_error")
def _(given: Given) -> Iterator[Pair]:
    q = given.q.copy()
    hinges = [joint.q_start for joint in given.model.joints if joint.nq == 1]
    q[:, hinges] += 0.05 * np.arange(1, len(hinges) + 1)
    found = np.asarray(given.call(lw.closure_error, q))
    for k, loop in enumerate(given.model.loops):
        if isinstance(loop, Coupling):
            yield found[:, k], np.abs(given.oracle.residual(q, [loop])) * [0.0, 1.0]
            continue
        R, p = relative_pose(given, loop, q)
        tilt = np.arctan2(np.linalg.norm(R[:, :2, 2], axis=1), R[:, 2, 2])
        yield found[:, k], np.stack([np.linalg.norm(p, axis=1), tilt], axis=1)
    yield given.call(lw.closure_error, given.q), 0.0 * found, 1.0


@row("loop_joint_position")
def _(given: Given) -> Iterator[Pair]:
    for loop in loop_joints(given):
        found = np.asarray(given.call(lw.loop_joint_position, given.q, loop=loop.name), dtype=float)
        for x, y in zip(joint_pose(loop.kind, found), relative_pose(given, loop, given.q)):
            yield x, y, 1.0


@row("loop_joint_velocity")
def _(given: Given) -> Iterator[Pair]:
    rate = given.oracle.rate(given.q, given.oracle.v_s)
    h = 1e-5
    for loop in loop_joints(given):
        ends = [angle(given, loop, given.q + s * h * rate) for s in (1.0, -1.0)]
        moved = np.angle(np.exp(1j * (ends[0] - ends[1]))) / (2.0 * h)
        yield given.call(lw.loop_joint_velocity, given.q, given.v, loop=loop.name), moved


@row("loop_joint_wrench")
def _(given: Given) -> Iterator[Pair]:
    """Motion of the tree needs the forces of its joints and this wrench on the successor, which is not the
    world.
    """
    oracle = given.oracle
    held = bool(given.model.constrained_loops)
    a = oracle.forward_dynamics(given.tau, given.f_ext) if held else given.a
    need = oracle.inverse_dynamics_s(times(oracle.G, a) + oracle.g, given.f_ext)
    angular, linear = oracle.jacobians(given.q)
    for loop in loop_joints(given):
        end = loop.ends[1]
        R, p = oracle.place(end.body, end.place)
        lever = p - oracle.poses[end.body][1]
        turned = np.cross(np.swapaxes(angular[end.body], 1, 2), lever[:, None]).swapaxes(1, 2)
        J = np.concatenate(
            [transposed(R) @ angular[end.body], transposed(R) @ (linear[end.body] + turned)], axis=1
        )
        if not held:
            found = np.asarray(
                given.call(lw.loop_joint_wrench, given.q, given.v, a, given.f_ext, loop=loop.name)
            )
            yield times(transposed(J), found)[:, oracle.bound], need[:, oracle.bound]
            continue
        arrays = (given.q, given.v, a, given.f_ext, given.tau)
        found = np.asarray(given.call(lw.loop_joint_wrench, *arrays, loop=loop.name))
        yield times(transposed(J), found), need - given.tau, float(np.abs(need).max())
