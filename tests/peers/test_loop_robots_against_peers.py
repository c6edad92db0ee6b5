"""Every shipped mechanism with loops: its tree as Pinocchio and MuJoCo know it, and its loops as Pinocchio
closes them.

Each of them takes a rotor as a body like others, so what is lumped here has to agree with what is not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from test_loop_robots import EVERY
from test_loops_against_peers import in_mujoco

import linkwork as lw
from linkwork.interop.mujoco import States as MujocoStates
from linkwork.interop.pinocchio import States as PinocchioStates
from linkwork.interop.pinocchio_model import pinocchio_tree
from linkwork.joints import Revolute, Spherical, Universal
from linkwork.mechanism.loops import Loop
from linkwork.model import GROUND, WORLD, Model, ModelBuilder
from linkwork.spatial import Pose
from loops import Terms, kkt_acceleration, loop_equations, on_numbers, spanning_places, spanning_tree
from papers.peers import proximal_solvers

STATES = 3


def pinocchio_terms(tree: Model) -> Terms:
    pin = pytest.importorskip("pinocchio")
    there = pinocchio_tree(pin, tree)
    same, data = PinocchioStates(tree, there), there.createData()

    def terms(q: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        x = same.q_to(q)
        u = same.v_to(v)
        M = pin.crba(there, data, x)
        M = np.triu(M) + np.triu(M, 1).T
        return same.matrix_from(M), same.tau_from(pin.rnea(there, data, x, u, np.zeros(tree.nv)))

    return terms


def mujoco_terms(tree: Model) -> Terms:
    mujoco = pytest.importorskip("mujoco")
    tree = with_hinges(tree)
    there = in_mujoco(mujoco, tree)
    same, data = MujocoStates(tree, there), mujoco.MjData(there)

    def terms(q: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        data.qpos[:], data.qvel[:] = same.q_to(q), same.v_to(q, v)
        data.qacc[:] = same.a_to(
            q, v, np.zeros(tree.nv)
        )  # what it calls no acceleration is another motion of a free body
        mujoco.mj_inverse(there, data)
        M = np.zeros((there.nv, there.nv))
        mujoco.mj_fullM(there, data, M)
        return same.matrix_from(q, M), same.tau_from(q, np.array(data.qfrc_inverse))

    return terms


def with_hinges(tree: Model) -> Model:
    """The same with two hinges, and nothing between them, for each universal joint."""
    builder = ModelBuilder(tree.name, gravity=tree.gravity)
    for joint, body in zip(tree.joints, tree.bodies):
        on = WORLD if joint.parent == GROUND else tree.bodies[joint.parent].name
        builder.add_body(body.name, mass=body.mass, center=body.center, inertia=body.moment, check=False)
        kind = joint.kind
        place = joint.place
        name = joint.name
        if isinstance(kind, Universal):
            builder.add_body(f"{body.name}.x", mass=0.0)
            builder.add_joint(
                f"{name}.x", Revolute((1.0, 0.0, 0.0)), parent=on, child=f"{body.name}.x", place=place
            )
            on = f"{body.name}.x"
            kind = Revolute((0.0, 1.0, 0.0))
            place = Pose.identity()
            name = f"{name}.y"
        builder.add_joint(
            name, kind, parent=on, child=body.name, place=place, armature=joint.armature[: kind.nv]
        )
    return builder.build()


@pytest.mark.parametrize("peer", [pinocchio_terms, mujoco_terms])
@pytest.mark.parametrize("name", EVERY)
@pytest.mark.sweep(3)
def test_motion_and_force(name: str, peer: Callable[[Model], Terms]) -> None:
    """From M and the bias of their tree: forward dynamics by a KKT system, inverse dynamics by virtual work."""
    model = EVERY[name]()
    terms = peer(spanning_tree(model))
    places = spanning_places(model)
    rng = np.random.default_rng(11)
    for _ in range(STATES):
        q, v = model.random_state(rng)
        a, tau = rng.normal(size=(2, model.nv))
        V = on_numbers(lw.spanning_velocity, model, q, v)
        A = on_numbers(lw.spanning_acceleration, model, q, v, a)
        M, bias = terms(q, V)
        K = loop_equations(model, q, V)[1]
        free = np.linalg.svd(K)[2][np.linalg.matrix_rank(K, 1e-9) :].T  # all motions that the loops allow
        G = free @ np.linalg.inv(free[places])
        torque = on_numbers(lw.inverse_dynamics, model, q, v, a)
        right = G.T @ (M @ A + bias)
        assert np.abs(torque - right).max() < 1e-9 * np.abs(right).max()
        full = np.zeros(model.nv_spanning)
        full[places] = tau
        right = kkt_acceleration(model, q, V, full, terms)
        found = acceleration(model, q, v, tau)
        assert np.abs(found - right).max() < 1e-9 * np.abs(right).max()


def acceleration(model: Model, q: np.ndarray, v: np.ndarray, tau: np.ndarray) -> np.ndarray:
    """Of all joints of the spanning tree."""
    a = on_numbers(lw.forward_dynamics, model, q, v, tau, method="articulated_body")
    return on_numbers(lw.spanning_acceleration, model, q, v, a)


def joined(model: Model) -> bool:
    """Whether all loops are hinges and balls."""
    return all(isinstance(c, Loop) and isinstance(c.kind, (Revolute, Spherical)) for c in model.embedded)


JOINED = {name: make for name, make in EVERY.items() if joined(make())}


@pytest.mark.parametrize("name", JOINED)
def test_pinocchio_closes_the_loops(name: str) -> None:
    """By points that coincide: one for a ball, two on the axis for a hinge."""
    pin = pytest.importorskip("pinocchio")
    model = JOINED[name]()
    tree = spanning_tree(model)
    there = pinocchio_tree(pin, tree)
    same = PinocchioStates(tree, there)
    points = pin.StdVec_RigidConstraintModel()
    for loop in model.embedded:
        axis = np.array(loop.kind.axis) if isinstance(loop.kind, Revolute) else np.zeros(3)
        for x in (-0.5, 0.5) if axis.any() else (0.0,):
            ends: list[Any] = []
            for end in (loop.predecessor, loop.successor):
                ends += [end.body + 1, pin.SE3(np.eye(3), end.place.p + end.place.R @ (x * axis))]
            points.append(pin.RigidConstraintModel(pin.ContactType.CONTACT_3D, there, *ends))
    solve = proximal_solvers(pin, there, points, pin.ProximalSettings(1e-14, 1e-10, 300))[
        "constraintDynamics"
    ]
    rng = np.random.default_rng(12)
    for _ in range(STATES):
        q, v = model.random_state(rng)
        tau = rng.normal(size=model.nv)
        full = np.zeros(model.nv_spanning)
        full[spanning_places(model)] = tau
        V = on_numbers(lw.spanning_velocity, model, q, v)
        right = same.v_from(solve(same.q_to(q), same.v_to(V), same.tau_to(full)))
        found = acceleration(model, q, v, tau)
        assert np.abs(found - right).max() < 1e-7 * np.abs(right).max()
