"""Motion and force subspaces of cluster joints (Loops Sec. III-C)."""

from __future__ import annotations

import numpy as np
import pytest
from test_constrained_loops import constrained
from test_loops import state_of

import linkwork as lw
from holding import close
from linkages import floats
from linkwork.model import GROUND

NAMES = ("five_bar", "planar_leg_linkage", "mit_humanoid_leg", "stewart", "arm")


@pytest.mark.parametrize("name", NAMES)
def test_motions_and_forces_are_dual(name: str) -> None:
    """Sᵀ Tᵃ = 1, Sᵀ Tᶜ = 0 (Eq. 22); both together are all forces. S is the motion of bodies against what
    carries them.
    """
    model = getattr(lw.robots, name)()
    q = model.random_state(2)[0]
    start = 0
    for cluster in model.clusters:
        own = slice(start, start + len(cluster.independent))
        start = own.stop
        found = lw.cluster_subspaces(model, q, body=model.bodies[cluster.bodies[-1]].name)
        assert found.bodies == tuple(model.bodies[k].name for k in cluster.bodies)
        m = len(cluster.independent)
        n = 6 * len(cluster.bodies)
        assert close(found.S.T @ found.active, np.eye(m), 1e-9)
        assert close(found.S.T @ found.constraint, np.zeros((m, n - m)), 1e-9)
        both = np.concatenate([found.active, found.constraint], axis=1)
        assert both.shape == (n, n) and np.linalg.cond(both / np.linalg.norm(both, axis=0)) < 1e8
        for k, rows in zip(cluster.bodies, np.split(found.S, len(cluster.bodies))):
            assert close(rows, floats(lw.frame_jacobian, model, q, frame=model.bodies[k].name)[:, own], 1e-9)
    if model.loops:
        other = constrained(model)
        last = model.bodies[-1].name
        pairs = zip(lw.cluster_subspaces(other, q, body=last), lw.cluster_subspaces(model, q, body=last))
        assert all(x == y if isinstance(x, tuple) else close(x, y, 1e-12) for x, y in pairs)


@pytest.mark.parametrize("name", ["five_bar", "mit_humanoid_leg"])
def test_forces_across_cluster_joints_are_active_and_constraint_forces(name: str) -> None:
    """f = Tᵃ τ + Tᶜ λ with τ = Sᵀ f (Eq. 21 and 23), for the forces that joints transmit in a motion (Eq.
    26).
    """
    model = getattr(lw.robots, name)()
    s = state_of(model)
    force = np.random.default_rng(0).normal(size=model.nv_spanning)
    tau = floats(lw.independent_force, model, s.q, force)
    a = floats(lw.forward_dynamics, model, s.q, s.v, tau, s.f, method="mass_matrix")
    joints = floats(lw.joint_forces, model, s.q, s.v, a, s.f, force)
    plain = all(not np.any([j.armature, j.damping, j.stiffness]) for j in model.joints if j.nv == 1)
    T = floats(lw.forward_kinematics, model, s.q)
    start = 0
    for cluster in model.clusters:
        own = slice(start, start + len(cluster.independent))
        start = own.stop
        across = {k: joints[k].copy() for k in cluster.bodies}
        for k in cluster.bodies:
            parent = model.joints[k].parent
            if parent in across:
                X = np.linalg.inv(T[parent]) @ T[k]
                m = X[:3, :3] @ joints[k][:3]
                f = X[:3, :3] @ joints[k][3:]
                across[parent] -= np.concatenate([m + np.cross(X[:3, 3], f), f])
        f = np.concatenate([across[k] for k in cluster.bodies])
        found = lw.cluster_subspaces(model, s.q, body=model.bodies[cluster.bodies[0]].name)
        both = np.linalg.solve(np.concatenate([found.active, found.constraint], axis=1), f)
        assert close(both[: len(found.S.T)], found.S.T @ f, 1e-8)
        if plain and not any(
            not loop.ends for loop in model.loops
        ):  # what couplings transmit is in the tree's joints
            assert close(found.S.T @ f, tau[own], 1e-8)
        assert all(model.joints[k].parent != GROUND or k in across for k in cluster.bodies)


def test_what_has_no_such_subspaces_is_refused() -> None:
    with pytest.raises(lw.ModelError, match="has flexible bodies or several supports"):
        model = lw.robots.scissor_lift(2)
        lw.cluster_subspaces(model, model.neutral(), body=model.bodies[-1].name)
    with pytest.raises(lw.ShapeError, match="expected q of shape"):
        lw.cluster_subspaces(lw.robots.arm(), np.zeros(2), body="link1")
