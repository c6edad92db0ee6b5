"""Constraint embedding: how the joints of a cluster move together (Loops Sec. II-C and III).

The equations K v = 0 and K v̇ = k of a cluster's loops give, for chosen independent velocities ẏ, the explicit form
v = G ẏ and v̇ = G ÿ + g (Loops Eq. 2 to 4).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from linkwork.ir.interpret import interpret
from linkwork.ir.program import Program
from linkwork.ir.symbol import Symbol
from linkwork.ir.trace import trace
from linkwork.joints.closure import Row
from linkwork.model.bodies import Ground, MovingBody
from linkwork.model.loops import Closure, Constraint, Coupling, End, Loop
from linkwork.passes.differentiate import jacobian, jacobian_of, jvp_of
from linkwork.passes.expand import expand
from linkwork.spatial import Pose, cross
from linkwork.spatial.solve import solve

if TYPE_CHECKING:
    from linkwork.model.clusters import Cluster
    from linkwork.model.model import Model


class Motion:
    """How a cluster's bodies stand and move as seen from the body below it: all in that body's axes."""

    def __init__(self, bodies: Mapping[int, MovingBody]) -> None:
        self.bodies = bodies
        self.columns: dict[int, slice] = {}  # places of each joint's velocities, one body after the other
        self.size = 0
        for k, body in bodies.items():
            self.columns[k] = slice(self.size, self.size + body.joint.nv)
            self.size += body.joint.nv
        self.pose: dict[Any, Pose] = {}
        index = {body: k for k, body in bodies.items()}
        self.below: dict[int, int | None] = {k: index.get(body.on) for k, body in bodies.items()}  # type: ignore[arg-type]
        for k, body in bodies.items():
            below = self.below[k]
            self.pose[k] = body.X if below is None else self.pose[below].then(body.X)
        self._foot = next(iter(bodies.values())).on  # the first stands on the body below

    def frame(self, end: End) -> Pose:
        """The pose of a loop's end."""
        if end.body in self.bodies:
            return self.pose[end.body].then(self.bodies[end.body].C.inverse()).then(end.place)
        return self._foot.C.inverse().then(end.place)

    def path(self, end: End) -> list[int]:
        """The bodies that move a loop's end, from its own down."""
        found: list[int] = []
        k: int | None = end.body if end.body in self.bodies else None
        while k is not None:
            found.append(k)
            k = self.below[k]
        return found

    def velocity(self, end: End, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Jacobians of the angular velocity of a loop's end, and of the velocity of its point that is `at`, (3, size)."""
        w = np.zeros((3, self.size), dtype=object)
        v = np.zeros((3, self.size), dtype=object)
        for k in self.path(end):
            T, S, where = self.pose[k], self.bodies[k].joint_map, self.columns[k]
            turning = T.R @ S[:3]
            w[:, where] = turning
            v[:, where] = T.R @ S[3:] + cross(turning, np.reshape(at - T.p, (3, 1)) * np.ones((1, S.shape[1])))
        return w, v

    def drift(self, end: End, at: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, ...]:
        """w and v of a loop's end at a point, and their rates where no joint accelerates, (3,) each."""
        p, w, u = np.zeros(3), np.zeros(3), np.zeros(3)
        dw, du = np.zeros(3), np.zeros(3)
        for k in reversed(self.path(end)):
            body, T = self.bodies[k], self.pose[k]
            own = v[self.columns[k]]
            J, rate = body.joint_map @ own, body.joint_bias(own)
            d, wJ, uJ = T.p - p, T.R @ J[:3], T.R @ J[3:]
            du = du + cross(dw, d) + cross(w, cross(w, d)) + 2.0 * cross(w, uJ) + cross(wJ, uJ) + T.R @ rate[3:]
            u = u + cross(w, d) + uJ
            dw = dw + cross(w, wJ) + T.R @ rate[:3]
            w, p = w + wJ, T.p
        d = at - p
        return w, u + cross(w, d), dw, du + cross(dw, d) + cross(w, cross(w, d))


def cluster_motion(model: Model, bodies: Sequence[int], q: np.ndarray) -> Motion:
    """How a cluster's bodies stand in one state, q (nq,), seen from the body below."""
    below = Ground()
    made: dict[int, MovingBody] = {}
    for k in bodies:
        joint = model.joints[k]
        on = made.get(joint.parent, below)
        made[k] = MovingBody(on, joint, model.bodies[k].inertia, q[joint.q_slice], None)
    return Motion(made)


def loop_rows(motion: Motion, loop: Loop, rows: Sequence[Row], v: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """K, (rows, size), and k, (rows,), of a loop joint's equations."""
    P, F = motion.frame(loop.predecessor), motion.frame(loop.successor)
    r = F.p - P.p
    (wP, vP), (wF, vF) = motion.velocity(loop.predecessor, F.p), motion.velocity(loop.successor, F.p)
    w, u = wF - wP, vF - vP  # of the successor's frame, seen from the predecessor
    K = np.zeros((len(rows), motion.size), dtype=object)
    k: Any = np.zeros(len(rows), dtype=object)
    if v is not None:
        a, b = motion.drift(loop.predecessor, F.p, v), motion.drift(loop.successor, F.p, v)
        W, U = b[0] - a[0], b[1] - a[1]
        dW = b[2] - a[2] - cross(a[0], W)
        dU = b[3] - a[3] - 2.0 * cross(a[0], U)
    for i, row in enumerate(rows):
        if row.length is not None:
            K[i] = r @ u
            k[i] = 0.0 if v is None else -(r @ dU + U @ U)
        elif row.across is None:
            n = P.R @ np.array(row.along)
            K[i] = n @ u
            k[i] = 0.0 if v is None else -(n @ dU)
        else:
            n, m = P.R @ np.array(row.across), F.R @ np.array(row.along)
            K[i] = cross(m, n) @ w
            k[i] = 0.0 if v is None else -(cross(m, n) @ dW + n @ cross(W, cross(W, m)))
    return K, k


def loop_error(motion: Motion, loop: Loop, rows: Sequence[Row]) -> np.ndarray:
    """φ of a loop joint's equations, (rows,)."""
    P, F = motion.frame(loop.predecessor), motion.frame(loop.successor)
    p, R = P.R.T @ (F.p - P.p), P.R.T @ F.R
    out = []
    for row in rows:
        if row.length is not None:
            out.append(0.5 * (p @ p - row.length**2))
        elif row.across is None:
            out.append(np.array(row.along) @ p)
        else:
            out.append(np.array(row.across) @ (R @ np.array(row.along)))
    return np.array(out)


def closure_rows(motion: Motion, closure: Closure, v: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """K, (rows, size), and k, (rows,), of a function of joint coordinates; by the tracer."""
    members = [motion.bodies[j] for j in closure.joints]
    q = np.concatenate([body.q for body in members])
    places = np.cumsum([0, *(body.joint.nq for body in members)])

    def rate(q: np.ndarray, own: Sequence[np.ndarray]) -> np.ndarray:
        shares = [q[a:b] for a, b in pairwise(places)]
        return np.concatenate([body.joint.kind.rate(x, y) for body, x, y in zip(members, shares, own)])

    if any(isinstance(x, Symbol) for x in q):
        value, J = jacobian_of(closure.phi, q)
    else:
        value, J = interpret(_traced(closure, len(q)), q.astype(float))
    K = np.zeros((len(value), motion.size), dtype=object)
    for j, body in zip(closure.joints, members):
        for column in range(body.joint.nv):
            own = [np.eye(b.joint.nv)[column] if b is body else np.zeros(b.joint.nv) for b in members]
            K[:, motion.columns[j].start + column] = J @ rate(q, own)
    if v is None:
        return K, np.zeros(len(value), dtype=object)
    own = [v[motion.columns[j]] for j in closure.joints]

    def speed(x: np.ndarray) -> np.ndarray:
        return jvp_of(closure.phi, x, rate(x, own))[1]

    return K, -jvp_of(speed, q, rate(q, own))[1]


@lru_cache(maxsize=256)
def _traced(closure: Closure, size: int) -> Program:
    """The function of a closure and its Jacobian, for coordinates that are numbers; traced once."""
    return expand(jacobian(trace(closure.phi, {"q": size}), "out", "q"))


def equations(motion: Motion, constraint: Constraint, v: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """K and k of a constraint, for the velocities v of the cluster's joints, (size,)."""
    if isinstance(constraint, Loop):
        return loop_rows(motion, constraint, constraint.kind.closure(), v)
    if isinstance(constraint, Closure):
        return closure_rows(motion, constraint, v)
    K = np.zeros((1, motion.size), dtype=object)
    for joint, component, coefficient in constraint.terms:
        K[0, motion.columns[joint].start + component] = coefficient
    return K, np.zeros(1, dtype=object)


def error(motion: Motion, constraint: Constraint) -> np.ndarray:
    """φ of a constraint, zero where it holds."""
    if isinstance(constraint, Loop):
        return loop_error(motion, constraint, constraint.kind.closure())
    if isinstance(constraint, Closure):
        q = np.concatenate([motion.bodies[j].q for j in constraint.joints])
        return constraint.phi(q)
    total: Any = -constraint.offset
    for joint, component, coefficient in constraint.terms:
        total = total + coefficient * motion.bodies[joint].q[component]
    return np.array([total])


def turned_over(motion: Motion, constraint: Constraint) -> list[Any]:
    """Above zero where directions that a loop joint's two frames share do not point the same way: its equations allow that."""
    if not isinstance(constraint, Loop):
        return []
    R = motion.frame(constraint.predecessor).R.T @ motion.frame(constraint.successor).R
    shared = {row.along: np.array(row.along) for row in constraint.kind.closure() if row.faces}
    return [0.5 - along @ (R @ along) for along in shared.values()]


def all_equations(
    motion: Motion, constraints: Sequence[Constraint], v: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """K and k of several constraints, one under the other."""
    found = [equations(motion, constraint, v) for constraint in constraints]
    return np.concatenate([K for K, _ in found]), np.concatenate([k for _, k in found])


def embed(motion: Motion, cluster: Cluster, dy: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """G, (size, m), and g, (size,), of Loops Eq. 3, for a cluster's independent velocities dy, (m,)."""
    constraints, rows, independent, dependent = cluster.constraints, cluster.rows, cluster.independent, cluster.dependent
    K = all_equations(motion, constraints)[0][list(rows)]
    G = np.zeros((motion.size, len(independent)), dtype=object)
    G[list(independent)] = np.eye(len(independent))
    G[dependent] = -solve(K[:, dependent], K[:, list(independent)])
    g: Any = np.zeros(motion.size, dtype=object)
    if not all(isinstance(constraint, Coupling) for constraint in constraints):
        k = all_equations(motion, constraints, G @ dy)[1][list(rows)]
        g[dependent] = solve(K[:, dependent], k)
    return G, g
