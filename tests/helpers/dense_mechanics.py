"""Dense mechanics of any model from first principles, in batches of states: an oracle for all functions of a
model.

Poses come from the joints' definitions. Jacobians are complex-step derivatives of poses, exact to rounding;
rates of Jacobians are differences of fourth order along the motion, exact to about 1e-12 of the speed. Loops are solved
from all of their equations at once, by pseudo-inverses. Nothing of the library is used but what a model says
of its parts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from linkwork.joints import (
    Cylindrical,
    Fixed,
    Free,
    Gimbal,
    Helical,
    Joint,
    Planar,
    PointOnLine,
    Prismatic,
    Revolute,
    Rod,
    Spherical,
    Universal,
)
from linkwork.joints.deformation import ModeShape
from linkwork.mechanism import Coupling, Loop
from linkwork.model import GROUND, Model

Array = np.ndarray
Poses = list[tuple[Array, Array]]  # of the bodies: rotations (b, 3, 3) and origins (b, 3)
STEP = 1e-30  # of complex steps
STENCIL = ((1.0, 8.0 / 12.0), (-1.0, -8.0 / 12.0), (2.0, -1.0 / 12.0), (-2.0, 1.0 / 12.0))
WIDTH = 1e-3  # of differences [rad, m]: their error grows with its fourth power, whatever the speed
RANK_TOL = 1e-8  # relative, of singular values of loop equations


def hat(a: Array) -> Array:
    """Return [a], (..., 3, 3), with [a] b = a × b."""
    x = a[..., 0]
    y = a[..., 1]
    z = a[..., 2]
    zero = np.zeros_like(x)
    return np.stack([zero, -z, y, z, zero, -x, -y, x, zero], axis=-1).reshape(*a.shape[:-1], 3, 3)


def vee(W: Array) -> Array:
    """Return the vector of the skew part of matrices, (..., 3): the inverse of `hat`."""
    return 0.5 * np.stack(
        [W[..., 2, 1] - W[..., 1, 2], W[..., 0, 2] - W[..., 2, 0], W[..., 1, 0] - W[..., 0, 1]], axis=-1
    )


def unit(axis: Any) -> Array:
    """Return an axis with length 1."""
    a = np.asarray(axis, dtype=float)
    return a / np.linalg.norm(a)


def turn(axis: Any, angle: Array) -> Array:
    """Return rotations about a constant axis, (b, 3, 3) (Rodrigues)."""
    H = hat(unit(axis))
    s = np.sin(angle)[:, None, None]
    c = np.cos(angle)[:, None, None]
    return np.eye(3) + s * H + (1.0 - c) * (H @ H)


def of_quaternion(q: Array) -> Array:
    """Return rotations of quaternions xyzw of any length, (b, 3, 3)."""
    x, y, z, w = q.T
    s = 2.0 / (x * x + y * y + z * z + w * w)
    rows = [
        1 - s * (y * y + z * z), s * (x * y - w * z), s * (x * z + w * y),
        s * (x * y + w * z), 1 - s * (x * x + z * z), s * (y * z - w * x),
        s * (x * z - w * y), s * (y * z + w * x), 1 - s * (x * x + y * y),
    ]  # fmt: skip
    return np.stack(rows, axis=-1).reshape(-1, 3, 3)


def apply(R: Array, p: Array) -> Array:
    """Return R p for batches of either."""
    return (R @ p[..., None])[..., 0]


def joint_pose(kind: Joint, q: Array) -> tuple[Array, Array]:
    """Return the pose of a child's frame in its joint's frame, from the definition of the joint."""
    n, (x, y, z) = len(q), np.eye(3)
    none = np.zeros((n, 3), dtype=q.dtype)
    eye = np.broadcast_to(np.eye(3), (n, 3, 3))
    match kind:
        case Revolute():
            return turn(kind.axis, q[:, 0]), none
        case Prismatic():
            return eye, unit(kind.axis) * q
        case Helical():
            return turn(kind.axis, q[:, 0]), unit(kind.axis) * q * kind.pitch
        case Cylindrical():
            return turn(kind.axis, q[:, 0]), unit(kind.axis) * q[:, 1:]
        case Universal():
            return turn(x, q[:, 0]) @ turn(y, q[:, 1]), none
        case Gimbal():
            return turn(z, q[:, 0]) @ turn(y, q[:, 1]) @ turn(x, q[:, 2]), none
        case Spherical():
            return of_quaternion(q), none
        case Free():
            return of_quaternion(q[:, 3:]), q[:, :3]
        case Planar() if tuple(kind.axis) == (0.0, 0.0, 1.0):
            return turn(z, q[:, 2]), np.concatenate([q[:, :2], np.zeros((n, 1))], axis=1)
        case Fixed():
            return eye, none
    if kind.elastic:
        return eye, none
    raise NotImplementedError(f"{type(kind).__name__}")


def joint_rate(kind: Joint, q: Array, v: Array) -> Array:
    """Return q̇ of a joint for its velocities."""

    def half(p: Array, w: Array) -> Array:
        vector = p[:, 3:] * w + np.cross(p[:, :3], w)
        return 0.5 * np.concatenate([vector, -(p[:, :3] * w).sum(1, keepdims=True)], axis=1)

    match kind:
        case Spherical():
            return half(q, v)
        case Free():
            return np.concatenate(
                [apply(of_quaternion(q[:, 3:]), v[:, 3:]), half(q[:, 3:], v[:, :3])], axis=1
            )
        case Planar():
            moved = turn((0, 0, 1), q[:, 2])[:, :2, :2]
            return np.concatenate([apply(moved, v[:, :2]), v[:, 2:]], axis=1)
    return v


def loop_rows(loop: Loop, R: Array, p: Array) -> Array:
    """Return residuals of a loop joint, (b, rows), zero where its frames' relative pose (R, p) is one of the
    joint's.

    There may be more rows than needed: all equations are used, and rank is a matter of singular values.
    """
    kind = loop.kind
    axis = unit(getattr(kind, "axis", (0.0, 0.0, 1.0)))
    match kind:
        case Spherical() | Gimbal():
            return p
        case Rod():
            return ((p * p).sum(1, keepdims=True) - kind.length**2) / (2.0 * kind.length)
        case PointOnLine():
            return np.cross(axis, p)
        case Revolute():
            return np.concatenate([p, np.cross(axis, apply(R, axis))], axis=1)
        case Cylindrical():
            return np.concatenate([np.cross(axis, p), np.cross(axis, apply(R, axis))], axis=1)
        case Planar():
            return np.concatenate([(p @ axis)[:, None], np.cross(axis, apply(R, axis))], axis=1)
        case Universal():
            return np.concatenate([p, R[:, :1, 1]], axis=1)
    skew = vee(R)
    match kind:
        case Fixed():
            return np.concatenate([p, skew], axis=1)
        case Prismatic():
            return np.concatenate([np.cross(axis, p), skew], axis=1)
    raise NotImplementedError(f"{type(kind).__name__}")


def solve_rows(K: Array, right: Array) -> Array:
    """Return the least-squares solutions of least norm of K x = right, over batches."""
    if not K.shape[1]:
        return np.zeros((len(K), K.shape[2], *right.shape[2:]))
    return np.linalg.pinv(K, rcond=RANK_TOL) @ right


class Dense:
    """A model in a batch of states q (b, nq) and v (b, nv): everything that functions of models compute, by
    dense algebra.

    `clouds` are the mass points of flexible bodies, by the index of the body. Spanning quantities end in
    `_s`; `G` and `g` are v_s = G v and a_s = G a + g; `M` and `h` those of M a + h = tau, without constraint
    forces.
    """

    def __init__(
        self, model: Model, q: Array, v: Array | None = None, clouds: Mapping[int, Any] | None = None
    ) -> None:
        self.model, self.q, self.clouds = model, np.atleast_2d(np.asarray(q, dtype=float)), dict(clouds or {})
        self.b = len(self.q)
        self.n = model.nv_spanning
        names = [name for joint in model.joints for name in joint.v_names]
        self.free = [names.index(name) for name in model.v_names]
        self.bound = [k for k in range(self.n) if k not in self.free]
        self.gravity = np.array(model.gravity, dtype=float)
        self.poses = self.kinematics(self.q)
        self.K = self.equations(self.q, model.embedded)[1]
        self.G = self._map(self.K)
        v = np.zeros((self.b, model.nv)) if v is None else np.atleast_2d(np.asarray(v, dtype=float))
        self.v, self.v_s = v, apply(self.G, v)
        self.qdot = self.rate(self.q, self.v_s)
        self.w, self.p = self.jacobians(self.q)
        self.M_s = self._inertia(self.q)
        self.M = self.G.transpose(0, 2, 1) @ self.M_s @ self.G

    # kinematics

    def rate(self, q: Array, v_s: Array) -> Array:
        """Return q̇ for velocities of the spanning tree."""
        parts = [joint_rate(j.kind, q[:, j.q_slice], v_s[:, j.v_slice]) for j in self.model.joints]
        return np.concatenate([np.zeros((len(q), 0)), *parts], axis=1)

    def kinematics(self, q: Array) -> Poses:
        """Return the poses of all bodies in the world."""
        out: Poses = []
        for joint in self.model.joints:
            if isinstance(joint.kind, ModeShape):
                R, p = self._mode_shape(joint, q)
            else:
                R, p = joint_pose(joint.kind, q[:, joint.q_slice])
            R = joint.place.R.astype(float) @ R
            p = apply(joint.place.R.astype(float), p) + joint.place.p.astype(float)
            if joint.parent != GROUND:
                above = out[joint.parent]
                R = above[0] @ R
                p = apply(above[0], p) + above[1]
            out.append((R, p))
        return out

    def _mode_shape(self, joint: Any, q: Array) -> tuple[Array, Array]:
        eta = q[:, self.model.joints[joint.follows].q_slice]
        shape: Any = joint.kind
        p = eta @ np.asarray(shape.shape, dtype=float).T
        if np.any(shape.short):
            p = p + 0.5 * np.einsum("bj,jkx,bk->bx", eta, np.asarray(shape.short, dtype=float), eta)
        A = hat(eta @ np.asarray(shape.slope, dtype=float).T) / 2.0
        return np.linalg.solve(np.eye(3) - A, np.eye(3) + A), p

    def place(self, body: int, pose: Any, poses: Poses | None = None) -> tuple[Array, Array]:
        """Return the pose in the world of a frame on a body."""
        R = np.asarray(pose.R, dtype=float)
        p = np.asarray(pose.p, dtype=float)
        if body == GROUND:
            return np.broadcast_to(R, (self.b, 3, 3)), np.broadcast_to(p, (self.b, 3))
        above = (poses or self.poses)[body]
        return above[0] @ R, apply(above[0], np.broadcast_to(p, above[1].shape)) + above[1]

    def directions(self, q: Array) -> list[Array]:
        """Return q̇ for each unit velocity of the spanning tree."""
        return [self.rate(q, np.broadcast_to(e, (len(q), self.n))) for e in np.eye(self.n)]

    def derivative(self, function: Callable[[Array], Array], q: Array) -> Array:
        """Return the derivative of an analytic function of q along each velocity of the tree, on the last
        axis.
        """
        found = [function(q + 1j * STEP * d).imag / STEP for d in self.directions(q)]
        return np.stack(found, axis=-1) if found else np.zeros((*function(q).shape, 0))

    def along(self, function: Callable[[Array], Array]) -> Array:
        """Return the rate of a function of q along the motion, to fourth order."""
        step = WIDTH / np.maximum(np.abs(self.qdot).max(axis=1, initial=0.0), 1.0)[:, None]
        total = sum(weight * function(self.q + s * step * self.qdot) for s, weight in STENCIL)
        return total / step.reshape(-1, *[1] * (total.ndim - 1))

    def turned(self, R: Callable[[Array], Array], q: Array) -> Array:
        """Return angular velocities in the world of rotations R(q), (b, 3, n)."""
        at = R(q)
        rates = [R(q + 1j * STEP * d).imag / STEP @ at.transpose(0, 2, 1) for d in self.directions(q)]
        return np.stack([vee(W) for W in rates], axis=-1)

    def jacobians(self, q: Array) -> tuple[list[Array], list[Array]]:
        """Return angular and linear Jacobians of all bodies' frames in the world, each (b, 3, n)."""
        at = self.kinematics(q)
        angular: list[list[Array]] = [[] for _ in at]
        linear: list[list[Array]] = [[] for _ in at]
        for d in self.directions(q):
            for k, (R, p) in enumerate(self.kinematics(q + 1j * STEP * d)):
                angular[k].append(vee((R.imag / STEP) @ at[k][0].transpose(0, 2, 1)))
                linear[k].append(np.broadcast_to(p.imag / STEP, (len(q), 3)))
        return [np.stack(x, axis=-1) for x in angular], [np.stack(x, axis=-1) for x in linear]

    # loops

    def equations(self, q: Array, loops: Any) -> tuple[Array, Array]:
        """Return the residuals of all equations, (b, rows), and their derivatives, (b, rows, n)."""
        if not loops:
            return np.zeros((len(q), 0)), np.zeros((len(q), 0, self.n))
        return self.residual(q, loops), self.derivative(lambda x: self.residual(x, loops), q)

    def residual(self, q: Array, loops: Any) -> Array:
        """Return the residuals of all equations of some loops, (b, rows)."""
        rows = []
        poses = self.kinematics(q)
        for loop in loops:
            if isinstance(loop, Coupling):
                total = (
                    sum(c * q[:, self.model.joints[k].q_start + i] for k, i, c in loop.terms) - loop.offset
                )
                rows.append(total[:, None])
                continue
            (RP, pP), (RF, pF) = (self.place(end.body, end.place, poses) for end in loop.ends)
            rows.append(loop_rows(loop, RP.transpose(0, 2, 1) @ RF, apply(RP.transpose(0, 2, 1), pF - pP)))
        return np.concatenate(rows, axis=1)

    def _map(self, K: Array) -> Array:
        G = np.zeros((len(K), self.n, len(self.free)))
        G[:, self.free] = np.eye(len(self.free))
        G[:, self.bound] = -solve_rows(K[:, :, self.bound], K[:, :, self.free])
        return G

    @property
    def g(self) -> Array:
        """Return Ġ v, (b, n)."""
        out = np.zeros((self.b, self.n))
        if self.bound:
            drift = apply(self.along(lambda q: self.equations(q, self.model.embedded)[1]), self.v_s)
            out[:, self.bound] = -solve_rows(self.K[:, :, self.bound], drift[..., None])[..., 0]
        return out

    # inertia and forces

    def _masses(self, poses: Poses) -> list[tuple[int, float, Any, Any]]:
        """Return body, mass, centre and moment of the rigid bodies that have mass."""
        return [
            (k, body.mass, np.asarray(body.center, dtype=float), np.asarray(body.moment, dtype=float))
            for k, body in enumerate(self.model.bodies)
            if k not in self.clouds and (body.mass or np.any(body.moment))
        ]

    def centers(self, q: Array) -> Array:
        """Return the positions of all masses, (b, masses, 3)."""
        poses = self.kinematics(q)
        found = [
            poses[k][1] + apply(poses[k][0], np.broadcast_to(c, poses[k][1].shape))
            for k, _, c, _ in self._masses(poses)
        ]
        for k, cloud in self.clouds.items():
            eta = q[:, self.model.joints[k].q_slice]
            at = cloud.points + np.einsum("pxj,bj->bpx", cloud.shapes, eta)
            at = at + 0.5 * np.einsum("bj,pjkx,bk->bpx", eta, cloud.short, eta)
            R, p = poses[k]
            found += list(np.moveaxis(at @ R.transpose(0, 2, 1) + p[:, None], 1, 0))
        return np.stack(found, axis=1) if found else np.zeros((len(q), 0, 3))

    @property
    def masses(self) -> Array:
        """Return the masses at `centers`."""
        found = [m for _, m, _, _ in self._masses(self.poses)]
        return np.array(found + [m for cloud in self.clouds.values() for m in cloud.masses])

    def center_jacobian(self, q: Array) -> Array:
        """Return the Jacobians of `centers`, (b, masses, 3, n)."""
        return self.derivative(self.centers, q)

    def _inertia(self, q: Array) -> Array:
        Jc = self.center_jacobian(q)
        w = self.jacobians(q)[0]
        poses = self.kinematics(q)
        M = np.einsum("m,bmxi,bmxj->bij", self.masses, Jc, Jc)
        for k, _, _, moment in self._masses(poses):
            R = poses[k][0]
            M = M + w[k].transpose(0, 2, 1) @ (R @ moment @ R.transpose(0, 2, 1)) @ w[k]
        diagonal = [x for joint in self.model.joints for x in joint.armature]
        return M + np.diag(np.array(diagonal, dtype=float))

    @property
    def gravity_s(self) -> Array:
        """Return the forces on the tree that hold it against gravity, (b, n)."""
        out = -np.einsum("m,bmxi,x->bi", self.masses, self.center_jacobian(self.q), self.gravity)
        if self.compensated:
            m = np.array([mass for _, mass, _ in self.compensated])
            out += np.einsum(
                "m,bmxi,x->bi", m, self.derivative(self._compensated_points, self.q), self.gravity
            )
        return out

    @property
    def compensated(self) -> list[tuple[int, float, Array]]:
        """Return body, mass and centre of what gravity does not act on."""
        result = []
        for each in self.model.weight_compensations:
            body = self.model.bodies[each.body]
            if each.mass is None:
                result.append((each.body, each.fraction * body.mass, np.asarray(body.center, dtype=float)))
            else:
                result.append((each.body, each.mass, np.array(each.first_moment) / each.mass))
        return result

    def _compensated_points(self, q: Array) -> Array:
        poses = self.kinematics(q)
        return np.stack([poses[k][1] + poses[k][0] @ center for k, _, center in self.compensated], axis=1)

    def tendon_lengths(self, q: Array) -> Array:
        """Return the lengths of all spatial tendons, (b, tendons), an analytic function of q."""
        poses = self.kinematics(q)

        def at(body: int, x: Any) -> Array:
            return np.array(x) if body == GROUND else poses[body][1] + poses[body][0] @ np.array(x)

        lengths = []
        for tendon in self.model.tendons:
            total = np.zeros(len(q))
            for divisor, points in tendon.branches:
                places = [np.broadcast_to(at(*point), (len(q), 3)) for point in points]
                gaps = [second - first for first, second in pairwise(places)]
                total = total + sum(np.sqrt((d * d).sum(axis=1)) for d in gaps) / divisor
            lengths.append(total)
        return np.stack(lengths, axis=1)

    def _stretches(self) -> Array:
        L = self.tendon_lengths(self.q)
        low, high = (np.array([tendon.rest[k] for tendon in self.model.tendons]) for k in (0, 1))
        return np.maximum(L - high, 0.0) + np.minimum(L - low, 0.0)

    @property
    def _tendons_s(self) -> Array:
        J = self.derivative(self.tendon_lengths, self.q)
        k, d = (np.array([getattr(t, word) for t in self.model.tendons]) for word in ("stiffness", "damping"))
        return apply(J.transpose(0, 2, 1), k * self._stretches() + d * apply(J, self.v_s))

    @property
    def velocity_s(self) -> Array:
        """Return the Coriolis and centrifugal forces of the tree, for accelerations of its joints, (b, n)."""
        Jc = self.center_jacobian(self.q)
        w = self.w
        dJc = self.along(self.center_jacobian)
        out = np.einsum("m,bmxi,bmxj,bj->bi", self.masses, Jc, dJc, self.v_s)
        masses = self._masses(self.poses)
        if masses:
            dw = self.along(lambda q: np.stack(self.jacobians(q)[0], axis=1))
        for k, _, _, moment in masses:
            R = self.poses[k][0]
            world = R @ moment @ R.transpose(0, 2, 1)
            omega = apply(w[k], self.v_s)
            torque = apply(world, apply(dw[:, k], self.v_s)) + np.cross(omega, apply(world, omega))
            out = out + apply(w[k].transpose(0, 2, 1), torque)
        return out

    def _deflection(self, joint: Any) -> Array:
        """Return how far a joint's springs are deflected, (b, nv): by a rotation vector where it has a
        quaternion.
        """
        q = self.q[:, joint.q_slice]
        if not isinstance(joint.kind, (Spherical, Free)):
            return q - np.array(joint.rest)
        w = q[:, -1:]
        xyz = q[:, -4:-1]
        length = np.linalg.norm(xyz, axis=1, keepdims=True)
        angle = 2.0 * np.arctan2(length, np.abs(w)) * np.sign(np.where(w == 0.0, 1.0, w))
        return angle * xyz / np.where(length == 0.0, 1.0, length)

    @property
    def passive_s(self) -> Array:
        """Return what springs and dampers take, (b, n)."""
        return self.joints_passive_s + self._tendons_s if self.model.tendons else self.joints_passive_s

    @property
    def joints_passive_s(self) -> Array:
        """Return what springs and dampers of joints take, (b, n)."""
        out = np.zeros((self.b, self.n))
        for joint in self.model.joints:
            own = joint.v_slice
            out[:, own] += np.array(joint.damping, dtype=float) * self.v_s[:, own] if joint.nv else 0.0
            if any(joint.stiffness):
                out[:, own] += np.array(joint.stiffness) * self._deflection(joint)
            if joint.kind.elastic:
                out[:, own] += self.q[:, joint.q_slice] @ np.asarray(joint.kind.stiffness, dtype=float)
                out[:, own] += self.v_s[:, own] @ np.asarray(joint.kind.damping, dtype=float)
        return out

    def external_s(self, f_ext: Array) -> Array:
        """Return the generalised forces of wrenches in the bodies' frames, (b, bodies, 6), on the tree."""
        out = np.zeros((self.b, self.n))
        for k, (R, _) in enumerate(self.poses):
            out += apply(self.w[k].transpose(0, 2, 1), apply(R, f_ext[:, k, :3]))
            out += apply(self.p[k].transpose(0, 2, 1), apply(R, f_ext[:, k, 3:]))
        return out

    def project(self, force_s: Array) -> Array:
        """Return generalised forces on v of forces on the tree."""
        return apply(self.G.transpose(0, 2, 1), force_s)

    def inverse_dynamics_s(self, a_s: Array, f_ext: Array | None = None) -> Array:
        """Return the forces of the tree's joints for accelerations of these."""
        out = apply(self.M_s, a_s) + self.velocity_s + self.gravity_s + self.passive_s
        return out if f_ext is None else out - self.external_s(f_ext)

    def inverse_dynamics(self, a: Array, f_ext: Array | None = None) -> Array:
        """Return tau of M a + h = tau."""
        return self.project(self.inverse_dynamics_s(apply(self.G, a) + self.g, f_ext))

    def forward_dynamics(
        self, tau: Array, f_ext: Array | None = None, J: Array | None = None, bias: Array | None = None
    ) -> Array:
        """Return accelerations; under constraints J a + bias = 0 those of least squares, with the model's
        constrained loops.
        """
        h = self.inverse_dynamics(np.zeros_like(tau), f_ext)
        rows, drift = self.held()
        if J is not None:
            rows = np.concatenate([rows, J], axis=1)
            drift = np.concatenate([drift, bias], axis=1)
        return self.constrained(tau - h, rows, drift)[0]

    def held(self) -> tuple[Array, Array]:
        """Return J and J̇ v of the model's constrained loops, with all of their equations."""
        K = self.equations(self.q, self.model.constrained_loops)[1]
        if not K.shape[1]:
            return K @ self.G, np.zeros((self.b, 0))
        drift = apply(self.along(lambda q: self.equations(q, self.model.constrained_loops)[1]), self.v_s)
        return K @ self.G, drift + apply(K, self.g)

    def constrained(self, force: Array, J: Array, bias: Array) -> tuple[Array, Array]:
        """Return the accelerations and the least-norm forces of M a = force + Jᵀ f, J a + bias = 0."""
        free = np.linalg.solve(self.M, force[..., None])
        if not J.shape[1]:
            return free[..., 0], np.zeros((self.b, 0))
        response = np.linalg.solve(self.M, J.transpose(0, 2, 1))
        D = J @ response
        f = np.linalg.pinv(D, rcond=RANK_TOL, hermitian=True) @ -(J @ free + bias[..., None])
        return (free + response @ f)[..., 0], f[..., 0]

    # energy and momentum

    @property
    def kinetic_energy(self) -> Array:
        return 0.5 * np.einsum("bi,bij,bj->b", self.v_s, self.M_s, self.v_s)

    @property
    def weight_energy(self) -> Array:
        """Return the potential energy of gravity."""
        total = -np.einsum("m,bmx,x->b", self.masses, self.centers(self.q), self.gravity)
        if self.compensated:
            m = np.array([mass for _, mass, _ in self.compensated])
            total = total + np.einsum("m,bmx,x->b", m, self._compensated_points(self.q), self.gravity)
        return total

    @property
    def potential_energy(self) -> Array:
        total = self.weight_energy
        if self.model.tendons:
            k = np.array([tendon.stiffness for tendon in self.model.tendons])
            total = total + 0.5 * self._stretches() ** 2 @ k
        for joint in self.model.joints:
            at = self.q[:, joint.q_slice]
            if any(joint.stiffness):
                total = total + 0.5 * (self._deflection(joint) ** 2) @ np.array(joint.stiffness)
            if joint.kind.elastic:
                total = total + 0.5 * np.einsum(
                    "bi,ij,bj->b", at, np.asarray(joint.kind.stiffness, dtype=float), at
                )
        return total

    def centroidal_map_s(self, q: Array) -> Array:
        """Return the map from velocities of the tree to angular and linear momentum about the centre of mass,
        (b, 6, n).
        """
        Jc = self.center_jacobian(q)
        at = self.centers(q)
        w = self.jacobians(q)[0]
        poses = self.kinematics(q)
        m = self.masses
        center = np.einsum("m,bmx->bx", m, at) / m.sum()
        linear = np.einsum("m,bmxi->bxi", m, Jc)
        angular = np.einsum("m,bmxy,bmyi->bxi", m, hat(at - center[:, None]), Jc)
        for k, _, _, moment in self._masses(poses):
            R = poses[k][0]
            angular = angular + R @ moment @ R.transpose(0, 2, 1) @ w[k]
        return np.concatenate([angular, linear], axis=1)

    @property
    def center_of_mass(self) -> Array:
        return np.einsum("m,bmx->bx", self.masses, self.centers(self.q)) / self.masses.sum()

    def momentum_rate(self, a: Array) -> Array:
        """Return the rate of momentum in a motion with accelerations a, (b, 6)."""
        A = self.centroidal_map_s(self.q)
        return apply(A, apply(self.G, a) + self.g) + apply(self.along(self.centroidal_map_s), self.v_s)

    # frames

    def frame_pose(self, name: str, q: Array | None = None) -> tuple[Array, Array]:
        frame = self.model.frame(name)
        return self.place(frame.body, frame.place, None if q is None else self.kinematics(q))

    def frame_jacobian_s(self, name: str, q: Array) -> Array:
        """Return the Jacobian of a frame in the world's axes at its own origin, (b, 6, n), angular first."""
        w = self.turned(lambda x: self.frame_pose(name, x)[0], q)
        return np.concatenate([w, self.derivative(lambda x: self.frame_pose(name, x)[1], q)], axis=1)

    def frame_acceleration(self, name: str, a: Array) -> Array:
        """Return the rates of angular velocity and of the velocity of a frame's origin, in the world, (b, 6)."""
        J = self.frame_jacobian_s(name, self.q)
        drift = apply(self.along(lambda q: self.frame_jacobian_s(name, q)), self.v_s)
        return apply(J, apply(self.G, a) + self.g) + drift
