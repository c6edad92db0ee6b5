"""Constraint embedding: how the joints of a cluster move together (Loops Sec. II-C and III).

The equations K v = 0 and K v̇ = k of a cluster's loops give, for chosen independent velocities ẏ, the
explicit form v = G ẏ and v̇ = G ÿ + g (Loops Eq. 2 to 4). The motions V and accelerations α of several
supports of a cluster move its joints too: v = G ẏ + Γ V and v̇ = G ÿ + Γ α + g.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Generic, TypeVar

import numpy as np

from linkwork.lazy import cached_property
from linkwork.loops.cluster_equations import used_drifts, used_equations
from linkwork.loops.clusters import Cluster
from linkwork.loops.elimination import Elimination
from linkwork.loops.kinematics import BodyMotion, Ground, JointState, Share
from linkwork.loops.motion import ClusterPosture, Speeds, all_equations, cluster_posture, supports_motion
from linkwork.mechanism import Mechanism

B = TypeVar("B", bound=BodyMotion)
MakeBody = Callable[[int, Any, JointState, np.ndarray, Callable[[], Share], np.ndarray | None], B]


def plain_body(
    k: int,
    on: Ground | BodyMotion,
    state: JointState,
    v: np.ndarray,
    share: Callable[[], Share],
    dy: np.ndarray | None,
) -> BodyMotion:
    """Return a body's motion without rotors or loads."""
    return BodyMotion(on, state, v, share, dy)


class Embedding(Generic[B]):
    """The embedding v = G ẏ + Γ V, v̇ = G ÿ + Γ α + g of a cluster's joints (Loops Eq. 3), for `dy`, (m,).

    V and α are those of its several supports, in a cluster whose embedding is `below`; most clusters have one
    support, and no Γ. `dofs` is the slice of ẏ in v. `bodies` are its bodies in motion, as created by `make`.
    """

    def __init__(
        self,
        posture: ClusterPosture,
        cluster: Cluster,
        dofs: slice,
        dy: np.ndarray,
        below: Embedding[B] | None,
        make: MakeBody[B],
        sizes: np.ndarray | None = None,
    ) -> None:
        self.posture = posture
        self.dofs = dofs
        self.below = below
        self.speeds: Speeds
        constraints = cluster.constraints
        independent = cluster.independent
        dependent = cluster.dependent
        size = posture.size
        width = posture.width
        K = used_equations(posture, cluster)
        G = np.zeros((size, len(independent)), dtype=object)
        Gamma = np.zeros((size, width - size), dtype=object)
        G[list(independent)] = np.eye(len(independent))
        elimination = Elimination(K[:, dependent], sizes)
        answer = elimination.solve(K[:, [*independent, *range(size, width)]])
        G[dependent], Gamma[dependent] = answer[:, : len(independent)], answer[:, len(independent) :]
        self.V = supports_motion(posture, below.speeds if below else None)
        self.v = G @ dy + Gamma @ self.V if posture.supports else G @ dy
        self.speeds = Speeds(posture, self.v, below.speeds if below else None)
        g: Any = np.zeros(size, dtype=object)
        if not all(constraint.linear for constraint in constraints):
            g[dependent] = elimination.solve(used_drifts(posture, cluster, self.speeds))
        self.G = G
        self.g = g
        self.Gamma = Gamma
        self.bodies: dict[int, B] = {}
        for k, state in posture.states.items():
            body_velocity = self.v[posture.columns[k]]
            self.bodies[k] = make(
                k,
                self._carrier(k),
                state,
                body_velocity,
                partial(self._share, k),
                None if posture.supports else dy,
            )
        self._jacobians: dict[int, np.ndarray] = {}
        self._alphas: dict[int, np.ndarray] = {}

    def _carrier(self, k: int) -> Any:
        """Return the body that carries body k."""
        on = self.posture.on[k]
        if on is None:
            return self.posture.base
        return self.below.bodies[on] if self.below and on in self.posture.supports else self.bodies[on]

    def _share(self, k: int) -> Share:
        (dofs, G, g), own = self.whole, self.posture.columns[k]
        return Share(dofs, G[own], g[own])

    @cached_property
    def whole(self) -> Share:
        """All independent velocities that move its joints, and their G and g."""
        if self.below is None:
            return Share(self.dofs, self.G, self.g)
        J = np.concatenate([self.below.jacobian(k) for k in self.posture.supports])
        alpha = np.concatenate([self.below.alpha(k) for k in self.posture.supports])
        dofs = np.concatenate([_places(self.below.whole.dofs), _places(self.dofs)])
        return Share(dofs, np.hstack([self.Gamma @ J, self.G]), self.g + self.Gamma @ alpha)

    def jacobian(self, k: int) -> np.ndarray:
        """Return the Jacobian of a body's motion with respect to all these velocities, (6, velocities)."""
        if k not in self._jacobians:
            body = self.bodies[k]
            on = self.posture.on[k]
            J = body.S
            if on is not None and self.below and on in self.posture.supports:
                J = J + body.X.scatter(np.hstack([self.below.jacobian(on), np.zeros((6, self.G.shape[1]))]))
            elif on is not None:
                J = J + body.X.scatter(self.jacobian(on))
            self._jacobians[k] = J
        return self._jacobians[k]

    def alpha(self, k: int) -> np.ndarray:
        """Return the bias acceleration of a body, (6,), with constant independent velocities and supports."""
        if k not in self._alphas:
            body = self.bodies[k]
            on = self.posture.on[k]
            inner = self.below if self.below and on in self.posture.supports else self
            self._alphas[k] = body.accelerate(np.zeros(6) if on is None else inner.alpha(on), body.g)
        return self._alphas[k]


def joint_velocities(
    model: Mechanism, clusters: Sequence[Cluster], q: np.ndarray, dy: np.ndarray, sizes: Any
) -> np.ndarray:
    """Return v = G ẏ + Γ V of all tree joints, (nv_spanning,), by one solve per cluster, without G.

    `sizes` of a cluster are those of its equations, as in `Embedding`.
    """
    v: Any = np.zeros(model.nv_spanning, dtype=object)
    moving: dict[tuple[int, ...], Speeds] = {}
    start = 0
    for cluster in clusters:
        below = moving[cluster.below.bodies] if cluster.below else None
        places = np.concatenate(
            [np.arange(model.nv_spanning)[model.joints[k].v_slice] for k in cluster.bodies]
        )
        cluster_velocity: Any = np.zeros(len(places), dtype=object)
        cluster_velocity[list(cluster.independent)] = dy[start : start + len(cluster.independent)]
        start += len(cluster.independent)
        if cluster.constraints:
            posture = cluster_posture(
                model, cluster.bodies, q, below.posture if below else None, cluster.supports
            )
            K = used_equations(posture, cluster)
            dependent = cluster.dependent
            known = K @ np.concatenate([cluster_velocity, supports_motion(posture, below)])
            cluster_velocity[dependent] = Elimination(K[:, dependent], sizes(cluster)).solve(known)
            moving[cluster.bodies] = Speeds(posture, cluster_velocity, below)
        v[places] = cluster_velocity
    return v


def tree_equations(
    model: Mechanism, cluster: Cluster, q: np.ndarray, v: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return K, (rows, nv_spanning), and k of a cluster's constraints for the velocities of the tree."""
    bodies = cluster.family
    columns = np.concatenate([np.arange(model.nv_spanning)[model.joints[k].v_slice] for k in bodies])
    posture = cluster_posture(model, bodies, q)
    K, k = all_equations(posture, cluster.constraints, None if v is None else Speeds(posture, v[columns]))
    wide = np.zeros((len(K), model.nv_spanning), dtype=object)
    wide[:, columns] = K
    return wide, k


def _places(dofs: Any) -> np.ndarray:
    return np.arange(dofs.start, dofs.stop) if isinstance(dofs, slice) else dofs
