"""Constraint embedding: how the joints of a cluster move together (Loops Sec. II-C and III).

The equations K v = 0 and K v̇ = k of a cluster's loops give, for chosen independent velocities ẏ, the explicit form
v = G ẏ and v̇ = G ÿ + g (Loops Eq. 2 to 4). A cluster that stands on several bodies of another answers to their motions V and
accelerations α too: v = G ẏ + Γ V and v̇ = G ÿ + Γ α + g.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from linkwork.ir.interpret import interpret
from linkwork.ir.program import Program
from linkwork.ir.symbol import Symbol
from linkwork.ir.trace import trace
from linkwork.joints.closure import Row
from linkwork.model.bodies import Ground, MovingBody
from linkwork.model.described import plainly
from linkwork.model.loops import Closure, Constraint, Coupling, End, Loop
from linkwork.passes.differentiate import jacobian, jacobian_of, jvp_of
from linkwork.passes.expand import expand
from linkwork.spatial import Pose, cross
from linkwork.spatial.solve import solve

if TYPE_CHECKING:
    from linkwork.model.clusters import Cluster
    from linkwork.model.model import Model
    from linkwork.model.standing import Standing


class Motion:
    """How a cluster's bodies stand and move as seen from the one body below, all in that body's axes.

    A cluster with several `feet` stands on bodies of another one, and is seen from where that one, `below`, is seen from. The
    motions of its feet, six components each in their own axes, then count like those of joints: their columns are the last.
    """

    v: np.ndarray  # of its joints, (size,), once an embedding has said it

    def __init__(self, bodies: Mapping[int, MovingBody], below: Motion | None = None, feet: Sequence[int] = ()) -> None:
        self.bodies, self.below, self.feet = bodies, below, feet
        self.columns: dict[int, slice] = {}  # places of each joint's velocities, one body after the other
        self.size = 0
        for k, body in bodies.items():
            self.columns[k] = slice(self.size, self.size + body.joint.nv)
            self.size += body.joint.nv
        self.width = self.size
        self.pose: dict[int, Pose] = {}
        self._known = dict(bodies)
        if below:
            for k in feet:
                self.columns[k] = slice(self.width, self.width + 6)
                self.width += 6
                self.pose[k], self._known[k] = below.pose[k], below.bodies[k]
        index = {body: k for k, body in self._known.items()}
        self.on: dict[int, int | None] = {k: index.get(body.on) for k, body in bodies.items()}  # type: ignore[arg-type]
        for k, body in bodies.items():
            on = self.on[k]
            self.pose[k] = body.X if on is None else self.pose[on].then(body.X)
        self.seen_from: Ground | MovingBody = below.seen_from if below else next(iter(bodies.values())).on
        self._speeds: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def frame(self, end: End) -> Pose:
        """The pose of a loop's end."""
        if end.body in self._known:
            return self.pose[end.body].then(self._known[end.body].C.inverse()).then(end.place)
        return self.seen_from.C.inverse().then(end.place)

    def path(self, end: End) -> list[int]:
        """The bodies that move a loop's end, from its own down."""
        found: list[int] = []
        k: int | None = end.body if end.body in self._known else None
        while k is not None:
            found.append(k)
            k = self.on.get(k)
        return found

    def velocity(self, end: End, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Jacobians of the angular velocity of a loop's end, and of the velocity of its point that is `at`, (3, width)."""
        w = np.zeros((3, self.width), dtype=object)
        v = np.zeros((3, self.width), dtype=object)
        for k in self.path(end):
            T, where = self.pose[k], self.columns[k]
            S = self.bodies[k].joint_map if k in self.bodies else np.eye(6)
            turning = T.R @ S[:3]
            w[:, where] = turning
            v[:, where] = T.R @ S[3:] + cross(turning, np.reshape(at - T.p, (3, 1)) * np.ones((1, S.shape[1])))
        return w, v

    def drift(self, end: End, at: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, ...]:
        """w and v of a loop's end at a point, and their rates where no joint and no foot accelerates, (3,) each."""
        p, w, u = np.zeros(3), np.zeros(3), np.zeros(3)
        dw, du = np.zeros(3), np.zeros(3)
        for k in reversed(self.path(end)):
            T = self.pose[k]
            if k in self.feet:
                p, (w, u, dw, du) = T.p, self._standing(k)
                continue
            body, own = self.bodies[k], v[self.columns[k]]
            J, rate = body.joint_map @ own, body.joint_bias(own)
            d, wJ, uJ = T.p - p, T.R @ J[:3], T.R @ J[3:]
            du = du + cross(dw, d) + cross(w, cross(w, d)) + 2.0 * cross(w, uJ) + cross(wJ, uJ) + T.R @ rate[3:]
            u = u + cross(w, d) + uJ
            dw = dw + cross(w, wJ) + T.R @ rate[:3]
            w, p = w + wJ, T.p
        d = at - p
        return w, u + cross(w, d), dw, du + cross(dw, d) + cross(w, cross(w, d))

    def speed(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        """w and v of a body's frame, (3,) each."""
        if k in self.feet and self.below:
            return self.below.speed(k)
        if k not in self._speeds:
            on, T = self.on[k], self.pose[k]
            J = self.bodies[k].joint_map @ self.v[self.columns[k]]
            w, u, p = (np.zeros(3), np.zeros(3), np.zeros(3)) if on is None else (*self.speed(on), self.pose[on].p)
            self._speeds[k] = w + T.R @ J[:3], u + cross(w, T.p - p) + T.R @ J[3:]
        return self._speeds[k]

    def _standing(self, k: int) -> tuple[np.ndarray, ...]:
        """w and v of a foot, and their rates where it has no acceleration as seen from outside: only what turning adds."""
        (w, u), turning = self.speed(k), self.seen_from.w
        return w, u, -cross(turning, w), -cross(turning, cross(turning, self.pose[k].p) + 2.0 * u)

    def feet_motion(self) -> np.ndarray:
        """The motions of all feet in their own axes, (width - size,)."""
        return np.concatenate([np.zeros(0), *(self.pose[k].R.T @ x for k in self.feet for x in self.speed(k))])


def cluster_motion(
    model: Model, bodies: Sequence[int], q: np.ndarray, below: Motion | None = None, feet: Sequence[int] = ()
) -> Motion:
    """How a cluster's bodies stand in one state, q (nq,), seen from the body below."""
    made: dict[int, MovingBody] = dict(below.bodies) if below else {}
    ground = Ground()
    for k in bodies:
        joint = model.joints[k]
        on = made.get(joint.parent, ground)
        made[k] = MovingBody(on, joint, plainly(joint, on.C, model.bodies[k].inertia), q[joint.q_slice])
    return Motion({k: made[k] for k in bodies}, below, feet)


def loop_rows(
    motion: Motion | Standing, loop: Loop, rows: Sequence[Row], v: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """K, (rows, width), and k, (rows,), of a loop joint's equations."""
    P, F = motion.frame(loop.predecessor), motion.frame(loop.successor)
    r = F.p - P.p
    (wP, vP), (wF, vF) = motion.velocity(loop.predecessor, F.p), motion.velocity(loop.successor, F.p)
    w, u = wF - wP, vF - vP  # of the successor's frame, seen from the predecessor
    K = np.zeros((len(rows), motion.width), dtype=object)
    k: Any = np.zeros(len(rows), dtype=object)
    if v is not None:
        assert isinstance(motion, Motion)
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


def loop_error(motion: Motion | Standing, loop: Loop, rows: Sequence[Row]) -> np.ndarray:
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


def closure_rows(motion: Motion | Standing, closure: Closure, v: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """K, (rows, width), and k, (rows,), of a function of joint coordinates; by the tracer."""
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
    K = np.zeros((len(value), motion.width), dtype=object)
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


def equations(
    motion: Motion | Standing, constraint: Constraint, v: np.ndarray | None = None, rows: Sequence[Row] | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """K and k of a constraint, for the velocities v of the cluster's joints, (size,); `rows` of a loop, if they are known."""
    if isinstance(constraint, Loop):
        return loop_rows(motion, constraint, constraint.kind.closure() if rows is None else rows, v)
    if isinstance(constraint, Closure):
        return closure_rows(motion, constraint, v)
    K = np.zeros((1, motion.width), dtype=object)
    for joint, component, coefficient in constraint.terms:
        K[0, motion.columns[joint].start + component] = coefficient
    return K, np.zeros(1, dtype=object)


def error(motion: Motion | Standing, constraint: Constraint, rows: Sequence[Row] | None = None) -> np.ndarray:
    """φ of a constraint, zero where it holds; `rows` of a loop, where they are known."""
    if isinstance(constraint, Loop):
        return loop_error(motion, constraint, constraint.kind.closure() if rows is None else rows)
    if isinstance(constraint, Closure):
        q = np.concatenate([motion.bodies[j].q for j in constraint.joints])
        return constraint.phi(q)
    total: Any = -constraint.offset
    for joint, component, coefficient in constraint.terms:
        total = total + coefficient * motion.bodies[joint].q[component]
    return np.array([total])


def turned_over(motion: Motion | Standing, constraint: Constraint, rows: Sequence[Row] | None = None) -> list[Any]:
    """Above zero where directions that a loop joint's two frames share do not point the same way: its equations allow that."""
    if not isinstance(constraint, Loop):
        return []
    R = motion.frame(constraint.predecessor).R.T @ motion.frame(constraint.successor).R
    shared = {row.along: np.array(row.along) for row in rows or constraint.kind.closure() if row.faces}
    return [0.5 - along @ (R @ along) for along in shared.values()]


def all_equations(
    motion: Motion, constraints: Sequence[Constraint], v: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """K and k of several constraints, one under the other."""
    found = [equations(motion, constraint, v) for constraint in constraints]
    return np.concatenate([K for K, _ in found]), np.concatenate([k for _, k in found])


def tree_equations(model: Model, cluster: Cluster, q: np.ndarray, v: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """K, (rows, nv_spanning), and k of a cluster's constraints, for the velocities v of all joints of the tree."""
    bodies = cluster.family
    own = np.concatenate([np.arange(model.nv_spanning)[model.joints[k].v_slice] for k in bodies])
    K, k = all_equations(cluster_motion(model, bodies, q), cluster.constraints, None if v is None else v[own])
    wide = np.zeros((len(K), model.nv_spanning), dtype=object)
    wide[:, own] = K
    return wide, k


class Embedding:
    """v = G ẏ + Γ V and v̇ = G ÿ + Γ α + g (Loops Eq. 3) of a cluster's joints, for its velocities `dy`, (m,).

    V and α are those of its several feet, in a cluster whose embedding is `below`; most clusters have one, and no Γ. `dofs` is
    the place of ẏ in v.
    """

    def __init__(self, motion: Motion, cluster: Cluster, dofs: slice, dy: np.ndarray, below: Embedding | None = None) -> None:
        self.motion, self.dofs, self.below = motion, dofs, below
        constraints, rows, independent, dependent = cluster.constraints, cluster.rows, cluster.independent, cluster.dependent
        K = all_equations(motion, constraints)[0][list(rows)]
        G = np.zeros((motion.size, len(independent)), dtype=object)
        Gamma = np.zeros((motion.size, motion.width - motion.size), dtype=object)
        G[list(independent)] = np.eye(len(independent))
        answer = -solve(K[:, dependent], K[:, [*independent, *range(motion.size, motion.width)]])
        G[dependent], Gamma[dependent] = answer[:, : len(independent)], answer[:, len(independent) :]
        self.v = G @ dy + Gamma @ motion.feet_motion() if motion.feet else G @ dy
        g: Any = np.zeros(motion.size, dtype=object)
        if not all(isinstance(constraint, Coupling) for constraint in constraints):
            g[dependent] = solve(K[:, dependent], all_equations(motion, constraints, self.v)[1][list(rows)])
        self.G, self.g, self.Gamma = G, g, Gamma
        motion.v = self.v
        for k, body in motion.bodies.items():
            body.belong(partial(self._share, k))
            body.move(self.v[motion.columns[k]], None if motion.feet else dy)
        self._jacobians: dict[int, np.ndarray] = {}
        self._alphas: dict[int, np.ndarray] = {}

    def _share(self, k: int) -> tuple[Any, np.ndarray, np.ndarray]:
        (dofs, G, g), own = self.whole, self.motion.columns[k]
        return dofs, G[own], g[own]

    @cached_property
    def whole(self) -> tuple[Any, np.ndarray, np.ndarray]:
        """Which velocities of the mechanism move its joints, those of the clusters below among them; and their G and g."""
        if self.below is None:
            return self.dofs, self.G, self.g
        J = np.concatenate([self.below.jacobian(k) for k in self.motion.feet])
        alpha = np.concatenate([self.below.alpha(k) for k in self.motion.feet])
        dofs = np.concatenate([_places(self.below.whole[0]), _places(self.dofs)])
        return dofs, np.hstack([self.Gamma @ J, self.G]), self.g + self.Gamma @ alpha

    def jacobian(self, k: int) -> np.ndarray:
        """What all these velocities do to a body, seen from where its motion is seen from, (6, velocities)."""
        if k not in self._jacobians:
            body, on = self.motion.bodies[k], self.motion.on[k]
            J = body.S
            if on is not None and self.below and on in self.motion.feet:
                J = J + body.X.scatter(np.hstack([self.below.jacobian(on), np.zeros((6, self.G.shape[1]))]))
            elif on is not None:
                J = J + body.X.scatter(self.jacobian(on))
            self._jacobians[k] = J
        return self._jacobians[k]

    def alpha(self, k: int) -> np.ndarray:
        """The acceleration of a body where none of these velocities changes, nor what it is seen from accelerates, (6,)."""
        if k not in self._alphas:
            body, on = self.motion.bodies[k], self.motion.on[k]
            inner = self.below if self.below and on in self.motion.feet else self
            self._alphas[k] = body.accelerate(np.zeros(6) if on is None else inner.alpha(on), body.g)
        return self._alphas[k]


def _places(dofs: Any) -> np.ndarray:
    return np.arange(dofs.start, dofs.stop) if isinstance(dofs, slice) else dofs
