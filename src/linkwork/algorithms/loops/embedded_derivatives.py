"""Derivatives through embedded loops and couplings: those of the spanning tree, and how its velocities follow
independent ones.

With v = G ẏ and v̇ = G ÿ + g (Loops Eq. 3), the forces of independent velocities are T = Gᵀ τ(q, G ẏ, G ÿ +
g). τ is inverse dynamics of the spanning tree, whose derivatives are analytic. G and g solve the loops'
equations, and their changes solve the same equations with other right-hand sides (the implicit function
theorem).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from linkwork.algorithms.loops.closing import places_of, spanning_acceleration, spanning_velocity
from linkwork.algorithms.tree import retraction_derivatives as retraction
from linkwork.algorithms.tree.forward_dynamics import factorised
from linkwork.algorithms.tree.forward_dynamics_derivatives import (
    forward_dynamics_derivatives,
    free_parts,
    with_solution,
)
from linkwork.algorithms.tree.inverse_dynamics import inverse_dynamics
from linkwork.algorithms.tree.inverse_dynamics_derivatives import (
    Changes,
    Derivatives,
    Differentiate,
    Sensitivity,
    coriolis_matrix,
    falls_freely,
    inverse_dynamics_derivatives,
    pairs,
    rates,
)
from linkwork.algorithms.tree.mass_matrix import mass_matrix
from linkwork.errors import ModelError
from linkwork.loops.clusters import Cluster
from linkwork.loops.elimination import Elimination
from linkwork.loops.embedding import tree_equations
from linkwork.mechanism.names import printable
from linkwork.model import Model
from linkwork.sko import Tree
from linkwork.sko.prepare.trees import hinge_tree, tree, tree_of_bodies
from linkwork.sko.tree import equation_sizes
from linkwork.spatial import any_nonzero, is_zero
from linkwork.spatial.factor import count_nonzero_entries

Along = Callable[
    [Callable[[Any], Any], Any, Any], tuple[Any, Any]
]  # of f, x and directions: f(x) and its derivatives along them


def position_rates(model: Model, q: np.ndarray) -> np.ndarray:
    """Return q̇ of unit velocities of the spanning tree as columns, (nq, nv_spanning)."""
    out = np.zeros((model.nq, model.nv_spanning), dtype=object)
    for joint in model.joints:
        out[joint.q_slice, joint.v_slice] = rates(joint.kind, q[joint.q_slice])
    return out


def velocity_map(nodes: Any) -> np.ndarray:
    """Return G of all joints, (nv_spanning, nv)."""
    G = np.zeros((nodes.model.nv_spanning, nodes.nv), dtype=object)
    for body in nodes.moving:
        G[body.joint.v_slice, body.dofs] = body.G
    return G


class Follow:
    """Tangent of embedded loops: derivatives of dependent with respect to independent joint coordinates.

    They follow from the loop equations by the implicit function theorem.

    K v = 0 and K v̇ = k hold along motions that keep loops closed. There q moves by G δ, and the change of a
    solution solves the equations that it solved itself: K ∂v = -∂K v. So nothing is differentiated that was
    solved.
    """

    def __init__(self, model: Model, q: np.ndarray, v: np.ndarray, G: np.ndarray, along: Along) -> None:
        """`v`, (nv_spanning,), are the velocities of all joints."""
        self.model = model
        self.q = q
        self.v = v
        self.G = G
        self.along = along
        self.directions = position_rates(model, q) @ G
        self.clusters = [cluster for cluster in model.clusters if cluster.constraints]
        self.K = [self.equations(c, q)[0] for c in self.clusters]
        self.dependent = [places_of(model, c)[list(c.dependent)] for c in self.clusters]
        self.eliminations = [
            Elimination(K[:, places], equation_sizes(model, c))
            for c, K, places in zip(self.clusters, self.K, self.dependent)
        ]

    def equations(self, cluster: Cluster, q: Any, v: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """Return K, (used, nv_spanning), and k of the equations that are used."""
        K, k = tree_equations(self.model, cluster, q, v)
        return K[list(cluster.used)], np.asarray(k)[list(cluster.used)]

    def solved(self, right: Callable[[int], np.ndarray]) -> np.ndarray:
        """Return X with K X = right of every cluster and X = 0 in independent velocities, (nv_spanning,
        columns).
        """
        X: Any = np.zeros((self.model.nv_spanning, self.G.shape[1]), dtype=object)
        for n, (K, places) in enumerate(zip(self.K, self.dependent)):
            residual = K @ X - right(n)
            if any_nonzero(residual):
                X[places] = self.eliminations[n].solve(residual)
        return X

    def changes(self, a: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return ∂v/∂y, ∂v̇/∂y and ∂v̇/∂ẏ of all joints, each (nv_spanning, nv), at their accelerations a."""
        m = self.G.shape[1]
        still = []
        moved = []
        for cluster in self.clusters:

            def residuals(x: Any, cluster: Cluster = cluster) -> np.ndarray:
                K, k = self.equations(cluster, x, self.v)
                return np.concatenate([K @ self.v, K @ a - k])

            change = np.zeros((2 * len(cluster.used), m))
            if not all(constraint.linear for constraint in cluster.constraints):
                change = self.along(residuals, self.q, self.directions)[1]
            still.append(-change[: len(cluster.used)])
            moved.append(-change[len(cluster.used) :])
        dv = self.solved(lambda n: still[n])
        turned = []
        for cluster, K in zip(self.clusters, self.K):
            change = np.zeros((len(cluster.used), 2 * m))
            if not all(constraint.linear for constraint in cluster.constraints):
                change = self._along_velocities(cluster, K, np.hstack([self.G, dv]))
            turned.append(change)
        return dv, self.solved(lambda n: moved[n] + turned[n][:, m:]), self.solved(lambda n: turned[n][:, :m])

    def change_of_force(self, tau: np.ndarray) -> np.ndarray:
        """Return ∂(Gᵀ τ)/∂y for forces τ, (nv_spanning,), that stay, (nv, nv): by the forces of the loops'
        equations.
        """
        total: Any = np.zeros((self.G.shape[1],) * 2, dtype=object)
        remaining: Any = np.array(tau, dtype=object)
        for cluster, K, places, elimination in reversed(
            list(zip(self.clusters, self.K, self.dependent, self.eliminations))
        ):
            force = elimination.solve_transposed(-remaining[places])
            remaining = remaining - K.T @ force
            if not all(constraint.linear for constraint in cluster.constraints):
                pushed = partial(self._pushed, cluster, force)
                total = total - self.G.T @ self.along(pushed, self.q, self.directions)[1]
        return total

    def _along_velocities(self, cluster: Cluster, K: np.ndarray, directions: np.ndarray) -> np.ndarray:
        """Return ∂k of a cluster's equations along directions of v, which are columns.

        It is taken by each joint where an equation has not many more joints than there are directions.
        """

        def right(v: Any) -> np.ndarray:
            return self.equations(cluster, self.q, v)[1]

        if 2 * count_nonzero_entries(K) < 3 * directions.shape[1] * len(K):
            return self.along(right, self.v, np.eye(len(self.v)))[1] @ directions
        return self.along(right, self.v, directions)[1]

    def _pushed(self, cluster: Cluster, force: np.ndarray, q: Any) -> np.ndarray:
        return self.equations(cluster, q)[0].T @ force

    def rate(self) -> np.ndarray:
        """Return Ġ, (nv_spanning, nv)."""
        dq = (position_rates(self.model, self.q) @ self.v).reshape(-1, 1)

        def right(n: int) -> np.ndarray:
            K = self.K[n]
            cluster = self.clusters[n]
            return (
                -self.along(lambda x: self.equations(cluster, x)[0], self.q, dq)[1].reshape(K.shape) @ self.G
            )

        return self.solved(right)


def of_inverse_dynamics(
    model: Model, q: Any, v: Any, a: Any, f_ext: Any, differentiate: Differentiate, along: Along
) -> Derivatives:
    """Return the derivatives of inverse dynamics of any model, at the acceleration a, (nv,).

    `differentiate` returns the Jacobian of a function of an array, `along` its products with directions,
    which are columns.
    """
    if isinstance(model, Tree) or model.is_flexible or model.has_body_loads:
        return _as_computed(model, q, v, a, f_ext, differentiate, along)
    if not model.embedded:
        return inverse_dynamics_derivatives(tree_of_bodies(model, q, v, f_ext), a, differentiate)
    return _through_loops(model, q, v, a, f_ext, differentiate, along, None)


def of_inverse_dynamics_apart(
    model: Model, q: Any, v: Any, a: Any, f_ext: Any, differentiate: Differentiate, along: Along
) -> tuple[Derivatives, dict[int, Changes]]:
    """Return the derivatives without the parts M dA of free bodies in no loop, and these parts, by their
    first velocity.
    """
    if model.is_flexible or model.has_body_loads:
        return _as_computed(model, q, v, a, f_ext, differentiate, along), {}
    if model.embedded:
        free = dict[int, Changes]()
        return _through_loops(model, q, v, a, f_ext, differentiate, along, free), free
    nodes: Any = tree_of_bodies(model, q, v, f_ext)
    at = Sensitivity(nodes, a, differentiate)
    apart = free_parts(at, [k for k in nodes.children(nodes.ground) if falls_freely(k)])
    return pairs(at), {k.dofs.start: part for k, part in apart.items()}


def of_forward_dynamics(
    model: Model, q: Any, v: Any, tau: Any, f_ext: Any, differentiate: Differentiate, along: Along
) -> Derivatives:
    """Return the derivatives of forward dynamics of any model whose loops are all embedded."""
    differs = isinstance(model, Tree) or model.is_flexible or model.has_body_loads
    if not differs and not model.embedded:
        return forward_dynamics_derivatives(tree_of_bodies(model, q, v, f_ext), tau, differentiate)
    nodes = hinge_tree(model, q, v, f_ext)
    free = dict[int, Changes]()
    M = factorised(nodes)
    a = M.solve(tau - inverse_dynamics(nodes, np.zeros(nodes.nv)))
    if differs:
        return with_solution(M, _as_computed(model, q, v, a, f_ext, differentiate, along), free)
    return with_solution(M, _through_loops(model, q, v, a, f_ext, differentiate, along, free), free)


def _as_computed(
    model: Model, q: Any, v: Any, a: Any, f_ext: Any, differentiate: Differentiate, along: Along
) -> Derivatives:
    """Return the derivatives of inverse dynamics, instruction by instruction: of nodes whose inertia may
    depend on q.

    Such are flexible bodies, and custom nodes, whose q changes by v; and bodies whose forces depend on q.
    """

    def force(q: Any, v: Any) -> np.ndarray:
        return inverse_dynamics(hinge_tree(model, q, v, f_ext), a)

    if isinstance(model, Tree):
        moved = model.integrate(
            np.zeros((model.nq, model.nv)), np.eye(model.nv)
        )  # an error where q has other coordinates
    else:
        moved = position_rates(model, q) @ velocity_map(tree(model, q))
    by_q = along(lambda x: force(x, v), q, moved)[1]
    by_v = differentiate(lambda x: force(q, x), v)[1]
    return Derivatives(by_q, by_v, mass_matrix(hinge_tree(model, q)))


def _through_loops(
    model: Model,
    q: Any,
    v: Any,
    a: Any,
    f_ext: Any,
    differentiate: Differentiate,
    along: Along,
    free: dict[int, Changes] | None,
) -> Derivatives:
    """Return ∂T; where `free` is given, it takes the parts of free bodies that no loop holds, by the place of
    their first velocity.
    """
    nodes = tree(model, q, v)
    G = velocity_map(nodes)
    v_spanning = spanning_velocity(nodes)
    a_spanning = spanning_acceleration(nodes, a)
    below: Any = tree_of_bodies(model.spanning_tree(), q, v_spanning, f_ext)
    tau = inverse_dynamics(below, a_spanning)
    at = Sensitivity(below, a_spanning, differentiate)
    if free is not None:
        held = {body for cluster in model.clusters if cluster.constraints for body in cluster.bodies}
        bodies = [
            k for k in below.children(below.ground) if falls_freely(k) and k.body.joint.child not in held
        ]
        for k, part in free_parts(at, bodies).items():
            free[nodes.node_of(k.body.joint.child).dofs.start] = part
    tree_derivatives = pairs(at)
    follow = Follow(model, q, v_spanning, G, along)
    dv, da, turned = follow.changes(a_spanning)
    by_q = G.T @ (
        tree_derivatives.by_q @ G + tree_derivatives.by_v @ dv + tree_derivatives.by_a @ da
    ) + follow.change_of_force(tau)
    by_v = G.T @ (tree_derivatives.by_v @ G + tree_derivatives.by_a @ turned)
    return Derivatives(by_q, by_v, mass_matrix(hinge_tree(model, q)))


def of_motion(model: Model, q: Any, v: Any, differentiate: Differentiate, along: Along) -> np.ndarray:
    """Return the Coriolis matrix of any model: GᵀCG + GᵀM Ġ."""
    if isinstance(model, Tree):
        return _of_quadratic_force(model, q, v, differentiate)
    if model.is_flexible:
        return _of_bias_force(model, q, v, differentiate)
    if not model.embedded:
        return coriolis_matrix(tree_of_bodies(model, q, v), differentiate)[0]
    nodes = tree(model, q, v)
    G = velocity_map(nodes)
    v_spanning = spanning_velocity(nodes)
    C, M = coriolis_matrix(tree_of_bodies(model.spanning_tree(), q, v_spanning), differentiate)
    return G.T @ (C @ G + M @ Follow(model, q, v_spanning, G, along).rate())


def _of_quadratic_force(model: Any, q: Any, v: Any, differentiate: Differentiate) -> np.ndarray:
    """Return ½ ∂/∂v of the part of the bias force that is quadratic in v: Christoffel symbols, since v is the
    rate of q.
    """
    model.integrate(q, v)  # an error where q has other coordinates
    still = np.zeros(model.nv)

    def rate(x: Any) -> np.ndarray:
        return differentiate(lambda y: inverse_dynamics(hinge_tree(model, q, y), still, passive=False), x)[1]

    return 0.5 * (rate(v) - rate(np.zeros(model.nv)))


def check_conservative(tree: Tree) -> None:
    """Raise where a custom tree's a and b are not those of its A, H and M, so that Ṁ - 2 C is not skew or C v
    lacks forces.
    """
    model: Any = tree.nominal
    rng = np.random.default_rng(0)
    still = np.zeros(tree.nv)
    h = 1e-3

    def force(v: np.ndarray) -> np.ndarray:
        return np.asarray(inverse_dynamics(hinge_tree(model, q, v), still, passive=False), dtype=float)

    def inertia(t: float) -> np.ndarray:
        return np.asarray(mass_matrix(hinge_tree(model, q + t * v)), dtype=float)

    for _ in range(2):
        q, v = rng.uniform(-1.0, 1.0, tree.nq), rng.normal(size=tree.nv)
        units = np.eye(tree.nv)
        C = 0.25 * np.column_stack([force(v + e) - force(v - e) - force(e) + force(-e) for e in units])
        rate = (8.0 * (inertia(h) - inertia(-h)) - (inertia(2.0 * h) - inertia(-2.0 * h))) / (12.0 * h)
        even = 0.5 * (force(v) + force(-v)) - force(still)
        for label, computed, expected in (
            ("Ṁ = C + Cᵀ", C + C.T, rate),
            ("C v, the part that is even in v,", C @ v, even),
        ):
            gap = np.abs(computed - expected).max() / max(1.0, np.abs(expected).max())
            if not gap <= 1e-6:
                raise ModelError(
                    f"coriolis_matrix of {printable(tree.name)}: expected nodes whose a and b are the "
                    f"velocity-dependent terms of their A, H and M, but {label} is missed by {gap:.2g}"
                )


def _of_bias_force(model: Model, q: Any, v: Any, differentiate: Differentiate) -> np.ndarray:
    """Return the Coriolis matrix from the bias force h of any nodes: ½ ∂h/∂v - ½ M K.

    h is quadratic in v, so half its derivative times v is h; where v is a rate of coordinates, these are
    Christoffel symbols. Elsewhere the connection without torsion lacks the brackets of velocities: those of
    `retraction.of_motion`, δ̇ = δv + K δ. There M is without armature, which is constant in these velocities
    and adds nothing to h.
    """
    still = np.zeros(model.nv)
    model = model.without_body_loads()
    half = (
        0.5 * differentiate(lambda x: inverse_dynamics(hinge_tree(model, q, x), still, passive=False), v)[1]
    )
    nodes = tree(model, q, v)
    G = velocity_map(nodes)
    spanning = spanning_velocity(nodes)
    (K,) = retraction.in_blocks(
        model.joints,
        lambda joint: (
            retraction.of_motion(joint.kind, q[joint.q_slice], spanning[joint.v_slice], differentiate),
        ),
        1,
    )
    names = [name for joint in model.joints for name in joint.v_names]
    indices = [names.index(name) for name in model.v_names]
    M = mass_matrix(hinge_tree(model, q))
    armature = [x for joint in model.joints for x in joint.armature]
    for g, x, row in zip(G, armature, K):
        if not (is_zero(x) or all(map(is_zero, row))):
            M = M - x * np.outer(g, g)
    return half - 0.5 * M @ (K[indices] @ G)
