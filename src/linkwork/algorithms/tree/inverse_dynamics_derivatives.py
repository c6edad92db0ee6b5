"""The derivatives of inverse dynamics by position, velocity and acceleration, on the tangent space.

By spatial recursions over pairs of a node and one that it hangs on (Singh, Russell and Wensing 2022,
"Efficient analytical derivatives of rigid-body dynamics using spatial vector algebra", Eq. 43 to 50;
Carpentier and Mansard 2018). If joint k moves by δ in its own velocities, all that hangs on it is displaced
by S δ as one rigid body. Seen from what is displaced, its velocities change by Ψ̇ δ, and the accelerations of
its bodies by Ψ̈ δ + (Ψ̇ δ) × V. The force that this takes is that of a frozen body with composite inertia R,

    Δf = R Ψ̈ δ + 2 B Ψ̇ δ,

where B is linear in the velocities: B X = Σ m [r × (X_w × u), X_w × u] over points of mass m at r with
velocity u. The same holds of a change in velocity, with S in the place of Ψ̇ and ∂a/∂v in that of Ψ̈. B has
12 numbers, not 36: it depends on the angular part of X only, by P = Σ m u and N = Σ m u rᵀ, which are carried
to the parent as forces and inertias are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from linkwork.algorithms.tree.inverse_dynamics import accelerations
from linkwork.algorithms.tree.mass_matrix import CompositeInertias
from linkwork.compiler.ir.symbol import Symbol
from linkwork.joints import Joint
from linkwork.sko.bodies import RigidBody
from linkwork.sko.contracts import HingeNode
from linkwork.sko.rigid import HingeRigidNode
from linkwork.sko.tree import ModelTree
from linkwork.spatial import Inertia, Pose, filled, mirrored, skew
from linkwork.spatial.constants import product
from linkwork.spatial.vectors import ad, ad_star, cross

Differentiate = Callable[[Callable[[Any], Any], Any], tuple[Any, Any]]  # of f and x: f(x) and its Jacobian


class VelocityMoments(NamedTuple):
    """2 B of moving points of mass: P = 2 Σ m u [kg m/s], (3,), and N = 2 Σ m u rᵀ [kg m²/s], (3, 3)."""

    P: np.ndarray
    N: np.ndarray

    @classmethod
    def of_body(cls, inertia: Inertia, w: np.ndarray, v: np.ndarray) -> VelocityMoments:
        """Return the moments of a rigid body whose points at r have velocity v + w × r."""
        h = 2.0 * inertia.h
        J = 2.0 * inertia.second_moments()
        assert inertia.mass is not None
        N = product(skew(w), J) + np.array([[x * y for y in h] for x in v], dtype=object)
        return cls((2.0 * inertia.mass) * v + cross(w, h), N)

    def __add__(self, other: Any) -> VelocityMoments:
        return VelocityMoments(self.P + other.P, self.N + other.N)

    def carried(self, X: Pose) -> VelocityMoments:
        """Return the moments about the origin and in the axes of the parent."""
        P = product(X.R, self.P)
        return VelocityMoments(
            P, X.rotated(self.N, symmetric=False) + np.array([[x * y for y in X.p] for x in P], dtype=object)
        )

    @property
    def moment(self) -> np.ndarray:
        """The map from an angular velocity X_w to the moment of 2 B X, (3, 3)."""
        x, y, z = np.diag(self.N)
        return np.where(np.eye(3), np.diag([y + z, z + x, x + y]), -self.N)

    def times(self, X_w: np.ndarray) -> np.ndarray:
        """Return 2 B X, (6, m), of motions with angular part X_w, (3, m)."""
        return np.concatenate([product(self.moment, X_w), product(-skew(self.P), X_w)])

    def transposed_times(self, X: np.ndarray) -> np.ndarray:
        """Return the angular part of 2 Bᵀ X, (3, m); its linear part vanishes."""
        return product(self.moment.T, X[:3]) + product(skew(self.P), X[3:])


class Changes(NamedTuple):
    """Changes of motions per unit of each velocity of a node, (6, m): see above.

    `S` is the displacement; `dV` is Ψ̇, and `dA` is Ψ̈; `dA_v` is what stands for Ψ̈ where a velocity
    changes. `own`, (m, m), is the change of the joint's own force that comes with neither: of its springs,
    and of S itself.
    """

    S: np.ndarray
    dV: np.ndarray
    dA: np.ndarray
    dA_v: np.ndarray
    own: Callable[[np.ndarray], np.ndarray]


class Motion(NamedTuple):
    """A body's velocity, with the linear part as seen from its root, and its acceleration as an observer at
    rest sees it.
    """

    w: np.ndarray
    v: np.ndarray
    alpha: np.ndarray
    W: np.ndarray  # [α_w] + [w][w]


def motions(nodes: ModelTree[Any], alpha: dict[HingeNode, np.ndarray]) -> dict[HingeNode, Motion]:
    """Return the motions of all nodes, base to tips. The observer moves with the origin of the base: see
    `changes`.
    """
    motions: dict[HingeNode, Motion] = {}
    for k in nodes.base_to_tips():
        body = k.body
        below = motions.get(k.parent)
        v = np.zeros(3)
        if below is not None:
            v = product(body.X.R.T, below.v + cross(below.w, body.X.p)) + (body.joint_map @ body.v)[3:]
        motions[k] = Motion(body.w, v, alpha[k], skew(alpha[k][:3]) + body.spin)
    return motions


def changes(
    node: HingeRigidNode,
    motion: Motion,
    below: Motion | None,
    alpha: np.ndarray,
    ddtheta: Any,
    by: Differentiate,
) -> Changes:
    """Return the changes of a moving node; `below` is its parent's motion, None for the ground, which
    accelerates by `alpha`.

    What the ground is at rest in is free to choose (Galileo): bodies on it have no linear velocity here, and
    it moves instead.
    """
    body = node.body
    S = body.joint_map
    v = body.v
    m = S.shape[1]
    constant = has_constant_subspace(body.state.kind)
    if (
        m == 1 and constant and below is not None
    ):  # S is fixed to the body as to its parent, and parallel to itself
        w = motion.w
        u = motion.v
        a = motion.alpha[3:]
        W = motion.W
    else:
        w, u, a, W = _carried(body, motion, below, alpha)
    dV = _twists(w, u, S)
    dA = np.concatenate(
        [product(W, S[:3]), product(W, S[3:]) + product(skew(a), S[:3]) + product(skew(2.0 * u), dV[:3])]
    )
    if m == 1 and constant and below is not None:
        return Changes(S, dV, dA, 2.0 * dV, _springs(body, by))
    dA_v = dV + _twists(motion.w, motion.v, S)
    if constant:
        return Changes(S, dV, dA, dA_v, _springs(body, by))
    dSv, dSa, dbias, dbias_v = _of_subspace(body, np.asarray(ddtheta), by)
    J = product(S, v)
    dA = dA + 2.0 * _twists(w, u, dSv) + dSa + dbias - np.array([ad(x, J) for x in dSv.T]).T
    springs = _springs(body, by)
    return Changes(S, dV + dSv, dA, dA_v + dbias_v, lambda f: springs(f) + _turned_subspace(body, f, by))


def has_constant_subspace(kind: Joint) -> bool:
    """Return whether S of a joint does not depend on q: it is the same at two places, and Ṡ v vanishes."""
    one, other = (kind.random(np.random.default_rng(seed)) for seed in (1, 2))
    same = np.array_equal(kind.subspace(one), kind.subspace(other))
    return same and not np.any(kind.bias(one, np.arange(1.0, kind.nv + 1.0)))


def _carried(
    body: RigidBody, motion: Motion, below: Motion | None, alpha: np.ndarray
) -> tuple[Any, Any, Any, Any]:
    """Return w, v, the linear part of α and W of what a body hangs on,
    at the body's origin and in its axes.
    """
    R = body.X.R
    J = body.joint_map @ body.v
    if below is None:
        return np.zeros(3), -J[3:], product(R.T, alpha[3:]), np.zeros((3, 3))
    w = product(R.T, below.w)
    W = skew(product(R.T, below.alpha[:3])) + product(skew(w), skew(w))
    return w, motion.v - J[3:], product(R.T, below.alpha[3:] + product(below.W, body.X.p)), W


def _twists(w: np.ndarray, v: np.ndarray, S: np.ndarray) -> np.ndarray:
    """Return V × S of motions as columns, (6, m)."""
    return np.concatenate([product(skew(w), S[:3]), product(skew(v), S[:3]) + product(skew(w), S[3:])])


def rates(kind: Joint, q: np.ndarray) -> np.ndarray:
    """Return q̇ of unit velocities of a joint as columns, (nq, nv)."""
    return np.array([kind.rate(q, e) for e in np.eye(kind.nv)], dtype=object).reshape(kind.nv, kind.nq).T


def _of_subspace(body: RigidBody, a: np.ndarray, by: Differentiate) -> tuple[Any, Any, Any, Any]:
    """Return ∂(S v), ∂(S v̇) and ∂(Ṡ v) by position, and ∂(Ṡ v) by velocity, each (6, m)."""
    kind = body.state.kind
    q = body.q
    v = body.v

    def parts(x: Any) -> Any:
        S = kind.subspace(x)
        return np.concatenate([product(S, v), product(S, a), kind.bias(x, v)])

    moved = product(by(parts, q)[1], rates(kind, q))
    return moved[:6], moved[6:12], moved[12:], by(lambda x: np.asarray(kind.bias(q, x)), v)[1]


def _turned_subspace(body: RigidBody, f: np.ndarray, by: Differentiate) -> np.ndarray:
    """Return ∂(Sᵀ f) by position, for a force that moves with the body, (m, m)."""
    kind = body.state.kind
    q = body.q
    return product(by(lambda x: product(kind.subspace(x).T, f), q)[1], rates(kind, q))


def _springs(body: RigidBody, by: Differentiate) -> Callable[[np.ndarray], np.ndarray]:
    """Return the change of a joint's springs by position, (m, m), whatever the force on the body is."""
    joint = body.joint
    q = body.q
    stiffness = np.array(joint.stiffness, dtype=object)
    if not filled(stiffness):
        return lambda f: np.zeros((joint.nv, joint.nv))
    stretch = by(lambda x: joint.kind.difference(joint.kind.neutral(), x), q)[1]
    return lambda f: (stiffness * product(stretch, rates(joint.kind, q)).T).T


class Derivatives(NamedTuple):
    """∂T/∂q, ∂T/∂v and ∂T/∂a = M, each (nv, nv)."""

    by_q: np.ndarray
    by_v: np.ndarray
    by_a: np.ndarray


class Sensitivity:
    """All nodes in motion at the acceleration θ̈, (nv,), and what their velocities change; `by`
    differentiates functions.
    """

    def __init__(self, nodes: ModelTree[Any], ddtheta: np.ndarray, by: Differentiate) -> None:
        self.nodes = nodes
        self.alpha = accelerations(nodes, ddtheta)
        self.motion = motions(nodes, self.alpha)
        at_rest = self.alpha[nodes.ground]
        self.moved: dict[HingeNode, Changes] = {}
        for k in nodes.base_to_tips():
            self.moved[k] = changes(
                k, self.motion[k], self.motion.get(k.parent), at_rest, ddtheta[k.dofs], by
            )


def inverse_dynamics_derivatives(
    nodes: ModelTree[Any], ddtheta: np.ndarray, by: Differentiate
) -> Derivatives:
    """Return the derivatives of T at the acceleration θ̈, (nv,); `by` differentiates functions of a joint's
    coordinates.
    """
    return pairs(Sensitivity(nodes, ddtheta, by))


def pairs(at: Sensitivity) -> Derivatives:
    """Return ∂T/∂q, ∂T/∂v and M, of every node with itself and with those that it hangs on, tips to base."""
    nodes = at.nodes
    alpha = at.alpha
    motion = at.motion
    moved = at.moved
    R = CompositeInertias(nodes)
    f: dict[HingeNode, np.ndarray] = {}
    B: dict[HingeNode, VelocityMoments] = {}
    for k in nodes.base_to_tips():
        f[k] = k.hinge_force(alpha[k])
    Tq, Tv, M = (np.zeros((nodes.nv, nodes.nv), dtype=object) for _ in range(3))
    for k in nodes.tips_to_base():
        moving = moved[k]
        body = k.body
        dofs = k.dofs
        B[k] = VelocityMoments.of_body(k.hinge_inertia, motion[k].w, motion[k].v)
        for c in nodes.children(k):
            f[k] = f[k] + c.A.gather(f[c])
            B[k] = B[k] + B[c].carried(c.body.X)
        by_a = R[k] @ moving.S
        by_v = R[k] @ moving.dA_v + B[k].times(moving.S[:3])
        by_q = R[k] @ moving.dA + B[k].times(moving.dV[:3])
        row = B[k].transposed_times(moving.S)
        M[dofs, dofs] = mirrored(moving.S.T @ by_a) + k.armature
        Tv[dofs, dofs] = moving.S.T @ by_v + np.diag(np.array(body.joint.damping, dtype=object))
        Tq[dofs, dofs] = moving.S.T @ by_q + moving.own(f[k])
        by_q = by_q - np.array([ad_star(x, f[k]) for x in moving.S.T], dtype=object).reshape(-1, 6).T
        j = k
        m = moving.S.shape[1]
        while j.parent is not nodes.ground and m:
            columns = j.A.gather(np.concatenate([by_a, by_v, by_q], axis=1))
            by_a = columns[:, :m]
            by_v = columns[:, m : 2 * m]
            by_q = columns[:, 2 * m :]
            row = product(j.body.X.R, row)
            j = j.parent
            up = moved[j]
            before = j.dofs
            M[before, dofs] = up.S.T @ by_a
            M[dofs, before] = M[before, dofs].T
            Tv[before, dofs] = up.S.T @ by_v
            Tq[before, dofs] = up.S.T @ by_q
            Tv[dofs, before] = by_a.T @ up.dA_v + row.T @ up.S[:3]
            Tq[dofs, before] = by_a.T @ up.dA + row.T @ up.dV[:3]
    return Derivatives(Tq, Tv, M)


def coriolis_matrix(nodes: ModelTree[Any], by: Differentiate) -> tuple[np.ndarray, np.ndarray]:
    """Return C with C v = T at θ̈ = 0 without gravity, springs and dampers, and Ṁ = C + Cᵀ; and M; both (nv,
    nv).

    C = Σ m sᵀ ṡ over points of mass whose velocity is s v: Ṡ of a joint stands where Ψ̇ stands in derivatives
    (Echeandia and Wensing 2021, "Numerical methods to compute the Coriolis matrix and Christoffel symbols for
    rigid-body systems").
    """
    motion = motions(nodes, accelerations(nodes, np.zeros(nodes.nv)))
    R = CompositeInertias(nodes)
    B: dict[HingeNode, VelocityMoments] = {}
    dS = {
        k: _twists(motion[k].w, motion[k].v, k.body.joint_map) + rate_of_subspace(k.body, by)
        for k in nodes.base_to_tips()
    }
    C, M = (np.zeros((nodes.nv, nodes.nv), dtype=object) for _ in range(2))
    for k in nodes.tips_to_base():
        S = k.body.joint_map
        dofs = k.dofs
        B[k] = VelocityMoments.of_body(k.hinge_inertia.times(0.5), motion[k].w, motion[k].v)
        for c in nodes.children(k):
            B[k] = B[k] + B[c].carried(c.body.X)
        momentum = R[k] @ S
        column = R[k] @ dS[k] + B[k].times(S[:3])
        row = B[k].transposed_times(S)
        M[dofs, dofs] = mirrored(S.T @ momentum) + k.armature
        C[dofs, dofs] = S.T @ column
        j = k
        m = S.shape[1]
        while j.parent is not nodes.ground and m:
            both = j.A.gather(np.concatenate([momentum, column], axis=1))
            row = product(j.body.X.R, row)
            momentum = both[:, :m]
            column = both[:, m:]
            j = j.parent
            before = j.dofs
            M[before, dofs] = j.H @ momentum
            M[dofs, before] = M[before, dofs].T
            C[before, dofs] = j.H @ column
            C[dofs, before] = momentum.T @ dS[j] + row.T @ j.body.joint_map[:3]
    return C, M


def rate_of_subspace(body: RigidBody, by: Differentiate) -> np.ndarray:
    """Return Ṡ in the body's frame, (6, m)."""
    kind = body.state.kind
    S = body.joint_map
    if has_constant_subspace(kind):
        return np.zeros(S.shape)
    return (by(lambda x: kind.subspace(x).ravel(), body.q)[1] @ kind.rate(body.q, body.v)).reshape(S.shape)


def falls_freely(node: Any) -> bool:
    """Return whether a node's joint velocity is that of its body, as for a free joint without armature."""
    S = node.body.joint_map
    constant = S.shape == (6, 6) and not any(isinstance(x, Symbol) for x in S.ravel())
    return constant and np.array_equal(S, np.eye(6)) and not filled(np.asarray(node.armature))
