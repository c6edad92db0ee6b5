"""Derivatives of inverse, forward and hybrid dynamics with respect to any scalar p (Lie Tables 5, 6 and 7).

p may enter positions, velocities, accelerations, forces, inertias, axes and placements. The recursions are
those of the paper, in its letters and with its dense matrices, for rigid bodies without springs or armature:
a reference for the fast algorithms. Table 6 is Table 7 with nothing prescribed.

Names: A is V̇ of the paper, J and B are Î and B̂. c.X is ∂X/∂p for X = h (Lie Eq. 89), S, dS, I and F, where dS
is Ṡ; dX or d_X is ∂X/∂p of any other X, except dq and ddq, which are q̇ and q̈.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

import numpy as np

from linkwork.algorithms.tree.inverse_dynamics_derivatives import Differentiate, rate_of_subspace
from linkwork.sko.tree import ModelTree
from linkwork.spatial import Pose, ad, ad_star, axial
from linkwork.spatial.solve import solve


class LieBody(NamedTuple):
    """Body i: parent λ(i), slice of its velocities, T(λ(i), i), S, Ṡ, inertia, external force.

    The parent is -1 for the ground.
    """

    parent: int
    dofs: slice
    T: np.ndarray
    S: np.ndarray
    dS: np.ndarray
    I: np.ndarray
    F: np.ndarray

    @property
    def Ad(self) -> np.ndarray:
        """Ad of T⁻¹, (6, 6)."""
        return Pose(self.T[:3, :3], self.T[:3, 3]).inverse().Ad()


class LieChange(NamedTuple):
    """Derivatives ∂/∂p of a body's h, S, Ṡ, inertia and external force (Lie Eq. 92); ∂h/∂p = T⁻¹ ∂T/∂p."""

    h: np.ndarray
    S: np.ndarray
    dS: np.ndarray
    I: np.ndarray
    F: np.ndarray


class State(NamedTuple):
    """Values q̇, q̈ and τ of all joints, each (nv,), or their derivatives."""

    dq: np.ndarray
    ddq: np.ndarray
    tau: np.ndarray


def lie_bodies(nodes: ModelTree[Any], differentiate: Differentiate) -> list[LieBody]:
    """Return the bodies of a tree in one state; `differentiate` returns Jacobians of functions of q."""
    index: dict[Any, int] = {nodes.ground: -1, **{k: n for n, k in enumerate(nodes.base_to_tips())}}
    bodies = []
    for k in nodes.base_to_tips():
        F: Any = np.zeros(6) if k.body.load is None else k.body.load
        S = k.body.joint_map
        dS = rate_of_subspace(k.body, differentiate)
        bodies.append(LieBody(index[k.parent], k.dofs, k.body.X.matrix(), S, dS, k.body.M.dense(), F))
    return bodies


def lie_changes(
    make: Callable[[Any], list[LieBody]], p: Any, derivative: Callable[..., tuple[Any, Any]]
) -> list[LieChange]:
    """Return ∂/∂p of the bodies `make(p)`; `derivative` differentiates a function along a direction."""
    bodies = make(p)

    def numbers(x: Any) -> np.ndarray:
        return np.concatenate([part.ravel() for body in make(x) for part in body[2:]])

    entries = iter(derivative(numbers, p, 1.0)[1])
    changes = []
    for body in bodies:
        T, *others = (
            np.array([next(entries) for _ in range(part.size)]).reshape(part.shape) for part in body[2:]
        )
        R = body.T[:3, :3]
        dR = T[:3, :3]
        changes.append(LieChange(np.concatenate([axial(R.T @ dR), R.T @ T[:3, 3]]), *others))
    return changes


def _gathered(
    bodies: Sequence[LieBody], i: int, wrench: np.ndarray, carried: Callable[[int], np.ndarray]
) -> np.ndarray:
    """Return `wrench` plus Ad* of the contributions `carried` of the children of body i."""
    for k, body in enumerate(bodies):
        if body.parent == i:
            wrench = wrench + body.Ad.T @ carried(k)
    return wrench


def inverse_dynamics_derivative(
    bodies: Sequence[LieBody], changes: Sequence[LieChange], state: State, change: State, gravity: np.ndarray
) -> np.ndarray:
    """Return ∂τ/∂p, (nv,) (Lie Table 5)."""
    V, dV, A, dA = _forward(bodies, changes, state, change, gravity)
    F: dict[int, Any] = {}
    dF: dict[int, Any] = {}
    tau: Any = np.empty(len(state.dq), dtype=object)
    for i in reversed(range(len(bodies))):
        (_, dofs, _, S, _, I, Fext), c = bodies[i], changes[i]
        wrench = I @ A[i] - ad_star(V[i], I @ V[i]) - Fext
        F[i] = _gathered(bodies, i, wrench, lambda k: F[k])
        wrench = (
            c.I @ A[i] + I @ dA[i] - ad_star(dV[i], I @ V[i]) - ad_star(V[i], c.I @ V[i] + I @ dV[i]) - c.F
        )
        dF[i] = _gathered(bodies, i, wrench, lambda k: dF[k] - ad_star(changes[k].h, F[k]))
        tau[dofs] = c.S.T @ F[i] + S.T @ dF[i]
    return tau


def _forward(
    bodies: Sequence[LieBody], changes: Sequence[LieChange], state: State, change: State, gravity: np.ndarray
) -> tuple[dict[int, Any], ...]:
    """Return V, ∂V/∂p, V̇ and ∂V̇/∂p of all bodies: the forward recursion of Table 5."""
    zero = np.zeros(6)
    V: dict[int, Any] = {-1: zero}
    dV: dict[int, Any] = {-1: zero}
    A: dict[int, Any] = {-1: np.concatenate([np.zeros(3), -gravity])}
    dA: dict[int, Any] = {-1: zero}
    for i, ((parent, dofs, _, S, dS, _, _), c, X) in enumerate(
        zip(bodies, changes, (body.Ad for body in bodies))
    ):
        dq = state.dq[dofs]
        ddq = state.ddq[dofs]
        d_dq = change.dq[dofs]
        d_ddq = change.ddq[dofs]
        V[i] = X @ V[parent] + S @ dq
        dV[i] = X @ dV[parent] - ad(c.h, X @ V[parent]) + c.S @ dq + S @ d_dq
        A[i] = X @ A[parent] + S @ ddq + ad(V[i], S @ dq) + dS @ dq
        eta = ad(dV[i], S @ dq) + ad(V[i], c.S @ dq + S @ d_dq) + c.dS @ dq + dS @ d_dq
        dA[i] = X @ dA[parent] - ad(c.h, X @ A[parent]) + c.S @ ddq + S @ d_ddq + eta
    return V, dV, A, dA


def hybrid_dynamics_derivative(
    bodies: Sequence[LieBody],
    changes: Sequence[LieChange],
    state: State,
    change: State,
    gravity: np.ndarray,
    prescribed: Collection[int] = (),
) -> tuple[np.ndarray, np.ndarray]:
    """Return ∂q̈/∂p and ∂τ/∂p, each (nv,) (Lie Tables 6 and 7).

    q̈ is given for joints that are `prescribed`, τ for the others.
    """
    V, dV, *_ = _forward(bodies, changes, state, change, gravity)
    empty: list[dict[int, Any]] = [{} for _ in range(12)]
    eta, d_eta, J, dJ, B, dB, Psi, dPsi, Pi, dPi, beta, d_beta = empty
    for i, ((_, dofs, _, S, dS, _, _), c) in enumerate(zip(bodies, changes)):
        dq = state.dq[dofs]
        d_dq = change.dq[dofs]
        eta[i] = ad(V[i], S @ dq) + dS @ dq
        d_eta[i] = ad(dV[i], S @ dq) + ad(V[i], c.S @ dq + S @ d_dq) + c.dS @ dq + dS @ d_dq
    for i in reversed(range(len(bodies))):
        (_, dofs, _, S, _, I, F), c = bodies[i], changes[i]
        J[i] = I
        dJ[i] = c.I
        for k, body in enumerate(bodies):
            if body.parent == i:
                Pi_ad = Pi[k] @ _ad_matrix(changes[k].h)
                J[i] = J[i] + body.Ad.T @ Pi[k] @ body.Ad
                dJ[i] = dJ[i] + body.Ad.T @ (dPi[k] - Pi_ad - Pi_ad.T) @ body.Ad
        B[i] = _gathered(bodies, i, -ad_star(V[i], I @ V[i]) - F, lambda k: beta[k])
        wrench = -ad_star(dV[i], I @ V[i]) - ad_star(V[i], c.I @ V[i] + I @ dV[i]) - c.F
        dB[i] = _gathered(bodies, i, wrench, lambda k: d_beta[k] - ad_star(changes[k].h, beta[k]))
        if i in prescribed:
            ddq = state.ddq[dofs]
            d_ddq = change.ddq[dofs]
            Pi[i] = J[i]
            dPi[i] = dJ[i]
            beta[i] = B[i] + J[i] @ (eta[i] + S @ ddq)
            d_beta[i] = dB[i] + dJ[i] @ (eta[i] + S @ ddq) + J[i] @ (d_eta[i] + c.S @ ddq + S @ d_ddq)
            continue
        tau = state.tau[dofs]
        d_tau = change.tau[dofs]
        Psi[i] = solve(S.T @ J[i] @ S, np.eye(S.shape[1]))
        dSJS = c.S.T @ J[i] @ S
        dPsi[i] = -Psi[i] @ (S.T @ dJ[i] @ S + dSJS + dSJS.T) @ Psi[i]
        U = J[i] @ S
        lower = dJ[i] @ S @ Psi[i] @ U.T + J[i] @ c.S @ Psi[i] @ U.T
        Pi[i] = J[i] - U @ Psi[i] @ U.T
        dPi[i] = dJ[i] - (U @ dPsi[i] @ U.T + lower + lower.T)
        eps = tau - S.T @ (J[i] @ eta[i] + B[i])
        beta[i] = B[i] + J[i] @ (eta[i] + S @ Psi[i] @ eps)
        d_eps = d_tau - c.S.T @ (J[i] @ eta[i] + B[i]) - S.T @ (dJ[i] @ eta[i] + J[i] @ d_eta[i] + dB[i])
        d_motion = d_eta[i] + (c.S @ Psi[i] + S @ dPsi[i]) @ eps + S @ Psi[i] @ d_eps
        d_beta[i] = dB[i] + dJ[i] @ (eta[i] + S @ Psi[i] @ eps) + J[i] @ d_motion
    A: dict[int, Any] = {-1: np.concatenate([np.zeros(3), -gravity])}
    dA: dict[int, Any] = {-1: np.zeros(6)}
    acc: Any = np.array(change.ddq, dtype=object)
    force: Any = np.array(change.tau, dtype=object)
    for i, ((parent, dofs, _, S, _, _, _), c, X) in enumerate(
        zip(bodies, changes, (body.Ad for body in bodies))
    ):
        carried = X @ A[parent] + eta[i]
        d_carried = X @ dA[parent] - ad(c.h, X @ A[parent]) + d_eta[i]
        ddq = state.ddq[dofs]
        if i not in prescribed:
            eps = state.tau[dofs] - S.T @ (J[i] @ carried + B[i])
            d_eps = change.tau[dofs] - (c.S.T @ J[i] + S.T @ dJ[i]) @ carried - S.T @ J[i] @ d_carried
            ddq = Psi[i] @ eps
            acc[dofs] = dPsi[i] @ eps + Psi[i] @ (d_eps - c.S.T @ B[i] - S.T @ dB[i])
        A[i] = carried + S @ ddq
        dA[i] = d_carried + c.S @ ddq + S @ acc[dofs]
        if i in prescribed:
            force[dofs] = c.S.T @ (J[i] @ A[i] + B[i]) + S.T @ (dJ[i] @ A[i] + J[i] @ dA[i] + dB[i])
    return acc, force


def _ad_matrix(h: np.ndarray) -> np.ndarray:
    return np.array([ad(h, e) for e in np.eye(6)]).T
