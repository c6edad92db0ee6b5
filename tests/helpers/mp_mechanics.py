"""Mechanics of spanning trees and loops from first principles, in floats or in any number of digits: an
oracle for loops.

Poses come from the joints' definitions, velocities from body Jacobians, accelerations and the rates of loop
equations from differences along the motion, which are exact to half the digits. Nothing of the library is
used but what a model says.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import mpmath
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
from linkwork.mechanism import Coupling, Loop
from linkwork.model import GROUND, Model

DIGITS = 110  # of which differences leave more than 40
STEP = mpmath.mpf(10) ** -25
Place = tuple[Any, Any]  # rotation, (3, 3), and origin, (3,)


def exact(x: Any) -> np.ndarray:
    """Floats as numbers of many digits."""
    return (
        np.vectorize(mpmath.mpf, otypes=[object])(np.asarray(x, dtype=float))
        if np.size(x)
        else np.zeros(np.shape(x), object)
    )


def rounded(x: Any) -> np.ndarray:
    return np.asarray(x, dtype=float)


def _cross(a: Any, b: Any) -> np.ndarray:
    """a × b over the first axis."""
    return np.array([a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]])


def _hat(a: Any) -> np.ndarray:
    zero = 0 * a[0]
    return np.array([[zero, -a[2], a[1]], [a[2], zero, -a[0]], [-a[1], a[0], zero]])


@dataclass
class Arithmetic:
    """Sine and cosine, and the numbers that they take."""

    sin: Any = np.sin
    cos: Any = np.cos
    number: Any = rounded

    def turn(self, axis: Any, angle: Any) -> np.ndarray:
        """The rotation about an axis of any length (Rodrigues)."""
        a = self.number(axis)
        square = a @ a
        u = a / (mpmath.sqrt(square) if self.number is exact else np.sqrt(square))
        H = _hat(u)
        return self.number(np.eye(3)) + self.sin(angle) * H + (1 - self.cos(angle)) * (H @ H)

    def unit(self, axis: Any) -> np.ndarray:
        a = self.number(axis)
        return a / (mpmath.sqrt(a @ a) if self.number is exact else np.sqrt(a @ a))

    def quaternion(self, q: Any) -> np.ndarray:
        x, y, z, w = q
        s = 2 / (x * x + y * y + z * z + w * w)
        return np.array([
            [1 - s * (y * y + z * z), s * (x * y - w * z), s * (x * z + w * y)],
            [s * (x * y + w * z), 1 - s * (x * x + z * z), s * (y * z - w * x)],
            [s * (x * z - w * y), s * (y * z + w * x), 1 - s * (x * x + y * y)],
        ])  # fmt: skip

    def joint(self, kind: Joint, q: Any) -> Place:
        """A child's frame in its parent's, by the definition of the joint."""
        none = self.number(np.zeros(3))
        eye = self.number(np.eye(3))
        x, y, z = np.eye(3)
        if isinstance(kind, Revolute):
            return self.turn(kind.axis, q[0]), none
        if isinstance(kind, Prismatic):
            return eye, self.unit(kind.axis) * q[0]
        if isinstance(kind, Helical):
            return self.turn(kind.axis, q[0]), self.unit(kind.axis) * (q[0] * kind.pitch)
        if isinstance(kind, Cylindrical):
            return self.turn(kind.axis, q[0]), self.unit(kind.axis) * q[1]
        if isinstance(kind, Universal):
            return self.turn(x, q[0]) @ self.turn(y, q[1]), none
        if isinstance(kind, Gimbal):
            return self.turn(z, q[0]) @ self.turn(y, q[1]) @ self.turn(x, q[2]), none
        if isinstance(kind, Spherical):
            return self.quaternion(q), none
        if isinstance(kind, Free):
            return self.quaternion(q[3:]), np.asarray(q[:3])
        assert isinstance(kind, Planar) and kind.axis == (0.0, 0.0, 1.0)
        return self.turn(z, q[2]), np.array([q[0], q[1], 0 * q[2]])

    def rate(self, kind: Joint, q: Any, v: Any) -> np.ndarray:
        """q̇ of the joint's velocities."""

        def half(p: Any, w: Any) -> list[Any]:
            x, y, z, s = p
            turned = _cross(p[:3], w)
            return [*((s * np.asarray(w) + turned) / 2), -(x * w[0] + y * w[1] + z * w[2]) / 2]

        if isinstance(kind, Spherical):
            return np.array(half(q, v))
        if isinstance(kind, Free):
            return np.array([*(self.quaternion(q[3:]) @ v[3:]), *half(q[3:], v[:3])])
        if isinstance(kind, Planar):
            s, c = self.sin(q[2]), self.cos(q[2])
            return np.array([c * v[0] - s * v[1], s * v[0] + c * v[1], v[2]])
        return np.asarray(v)


FLOATS = Arithmetic()
MANY = Arithmetic(mpmath.sin, mpmath.cos, exact)


class Tree:
    """A model's spanning tree at coordinates q: the poses and Jacobians of its bodies."""

    def __init__(self, model: Model, q: Any, *, over: Arithmetic = FLOATS, jacobians: bool = True) -> None:
        self.model = model
        self.over = over
        self.q = q
        number = over.number
        self.places: dict[int, Place] = {GROUND: (number(np.eye(3)), number(np.zeros(3)))}
        n = model.nv_spanning
        still = number(np.zeros((3, n)))
        self.J: dict[int, tuple[Any, Any]] = {
            GROUND: (still, still)
        }  # of the origin, in the world's axes: angular, linear
        for k, joint in enumerate(model.joints):
            R, p = self._then(self.places[joint.parent], (number(joint.place.R), number(joint.place.p)))
            at = q[joint.q_slice]
            here = self.places[k] = self._then((R, p), over.joint(joint.kind, at))
            if jacobians:
                w, v = self.J[joint.parent]
                w, v = w.copy(), v + _cross(w, np.reshape(here[1] - self.places[joint.parent][1], (3, 1)))
                w[:, joint.v_slice], v[:, joint.v_slice] = (
                    here[0] @ part for part in self._subspace(joint.kind, at)
                )
                self.J[k] = w, v

    @staticmethod
    def _then(a: Place, b: Place) -> Place:
        return a[0] @ b[0], a[0] @ b[1] + a[1]

    def _subspace(self, kind: Joint, q: Any) -> tuple[Any, Any]:
        """The child's angular and linear velocity in its own axes for each velocity of a joint, (3, nv) each."""
        over = self.over
        h = STEP if self.over is MANY else 1e-6
        q = np.asarray(q)
        R = over.joint(kind, q)[0]
        angular = []
        linear = []
        for e in over.number(np.eye(kind.nv)):
            step = h * over.rate(kind, q, e)
            (Ra, pa), (Rb, pb) = over.joint(kind, q + step), over.joint(kind, q - step)
            W = R.T @ (Ra - Rb) / (2 * h)
            angular.append([(W[2, 1] - W[1, 2]) / 2, (W[0, 2] - W[2, 0]) / 2, (W[1, 0] - W[0, 1]) / 2])
            linear.append(R.T @ (pa - pb) / (2 * h))
        return np.array(angular).T, np.array(linear).T

    # loops

    def ends(self, loop: Loop) -> tuple[Place, Place]:
        number = self.over.number
        return tuple(  # type: ignore[return-value]
            self._then(self.places[end.body], (number(end.place.R), number(end.place.p))) for end in loop.ends
        )

    def _moving(self, loop: Loop) -> tuple[Any, Any, Any, Any]:
        """The relative pose (R, p) of a loop's ends, and its derivative for each velocity: (3, 3, n) and (3,
        n).
        """
        (RP, pP), (RF, pF) = self.ends(loop)
        found = []
        for end, at in zip(loop.ends, (pP, pF)):
            w, v = self.J[end.body]
            found.append((w, v + _cross(w, np.reshape(at - self.places[end.body][1], (3, 1)))))
        (wP, vP), (wF, vF) = found
        r = pF - pP
        dp = RP.T @ (vF - vP - _cross(wP, np.reshape(r, (3, 1))))
        w = RP.T @ (wF - wP)
        R = RP.T @ RF
        dR = np.stack([_cross(w, np.reshape(R[:, j], (3, 1))) for j in range(3)], axis=1)
        return R, RP.T @ r, dR, dp

    def misses(self, constraints: Any, size: float) -> float:
        """How far loops are from closed, relative to a size [m], or in radians."""
        worst = 0.0
        for c in constraints:
            if isinstance(c, Coupling):
                shares = [x * self.q[self.model.joints[k].q_slice][i] for k, i, x in c.terms]
                worst = max(worst, abs(sum(shares) - c.offset))
                continue
            (RP, pP), (RF, pF) = self.ends(c)
            R = RP.T @ RF
            p = RP.T @ (pF - pP)
            for of_R, of_p, less in self._rows(c.kind, p):
                row = (of_R * R).sum() + of_p @ p - less
                unit = 1.0 if of_R.any() else size * (c.kind.length if isinstance(c.kind, Rod) else 1.0)
                worst = max(worst, abs(row / unit))
        return worst

    def equations(self, constraints: Any, size: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
        """φ, (rows,), and K, (rows, nv_spanning), of loops, in radians and sizes, with more rows than are
        needed.
        """
        phi: list[Any] = []
        K: list[Any] = []
        for c in constraints:
            if isinstance(c, Coupling):
                row = self.over.number(np.zeros(self.model.nv_spanning))
                for k, i, x in c.terms:
                    row[self.model.joints[k].v_start + i] += x
                phi.append(sum(x * self.q[self.model.joints[k].q_slice][i] for k, i, x in c.terms) - c.offset)
                K.append(row)
            else:
                R, p, dR, dp = self._moving(c)
                for of_R, of_p, less in self._rows(c.kind, p):
                    length = isinstance(c.kind, Rod)
                    unit = self.over.number(1.0 if of_R.any() else size * (c.kind.length if length else 1.0))
                    phi.append(((of_R * R).sum() + of_p @ p - less) / unit)
                    K.append((np.tensordot(of_R, dR, axes=2) + of_p @ dp * (2 if length else 1)) / unit)
        return np.array(phi), np.array(K)

    def _rows(self, kind: Joint, p: Any) -> list[tuple[Any, Any, Any]]:
        """What vanishes where a joint of this kind can have a pose (R, p): of_R · R + of_p · p - less."""
        number = self.over.number
        nothing = number(np.zeros((3, 3)))
        none = number(np.zeros(3))
        axis = self.over.unit(getattr(kind, "axis", (0.0, 0.0, 1.0)))

        def stays(u: Any) -> list[tuple[Any, Any, Any]]:  # R u = u
            return [(np.outer(number(e), u), none, u[i]) for i, e in enumerate(np.eye(3))]

        points = [(nothing, number(e), 0) for e in np.eye(3)]
        across = [_cross(axis, number(e)) for e in np.eye(3)]  # one too many: none is chosen
        off_axis = [(nothing, e, 0) for e in across]
        turned = [row for e in np.eye(3) for row in stays(number(e))]
        if isinstance(kind, (Spherical, Gimbal)):
            return points
        if isinstance(kind, Rod):
            return [(nothing, p / 2, number(kind.length) ** 2 / 2)]
        if isinstance(kind, PointOnLine):
            return off_axis
        if isinstance(kind, Fixed):
            return points + turned
        if isinstance(kind, Revolute):
            return points + stays(axis)
        if isinstance(kind, Prismatic):
            return off_axis + turned
        if isinstance(kind, Cylindrical):
            return off_axis + stays(axis)
        if isinstance(kind, Planar):
            return [(nothing, axis, 0), *stays(axis)]
        assert isinstance(kind, Universal), kind
        x, y, _ = np.eye(3)
        return [*points, (number(np.outer(x, y)), none, 0)]

    # dynamics

    def centers(self) -> list[tuple[Any, Any, Any, Any]]:
        """For each body: its mass, its moment of inertia in the world's axes, and its Jacobians at the centre
        of mass.
        """
        number = self.over.number
        out = []
        for k, body in enumerate(self.model.bodies):
            R, _ = self.places[k]
            w, v = self.J[k]
            m = number(body.mass)
            c = number(body.center)
            arm = R @ c
            out.append((m, R @ number(body.moment) @ R.T, w, v + _cross(w, np.reshape(arm, (3, 1)))))
        return out


@dataclass(frozen=True)
class Solution:
    """The spanning velocity and acceleration of a closed mechanism in floats, and what their computation may
    cost.
    """

    v: np.ndarray
    a: np.ndarray
    # of the KKT system, or of what gives all velocities from the independent ones; rows and columns scaled
    condition: float
    scale: np.ndarray  # √M_ii: what makes accelerations comparable


def refined(A: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The solution of A x = b with many digits: solved in floats, residuals in many digits."""
    from numpy.linalg import inv

    rows = np.array([mpmath.mpf(2) ** -int(mpmath.frexp(max(abs(x) for x in row))[1]) for row in A])
    A = A * rows[:, None]
    b = b * rows
    columns = np.array(
        [mpmath.mpf(2) ** -int(mpmath.frexp(max(abs(x) for x in column))[1]) for column in A.T]
    )
    A = A * columns
    inverse = inv(A.astype(float))
    x = exact(np.zeros(len(b)))
    residual = b
    size = max((abs(r) for r in b), default=mpmath.mpf(0))
    for _ in range(60):
        scale = max(abs(r) for r in residual)
        if scale <= size * mpmath.mpf(10) ** -45:
            break
        x = x + scale * exact(inverse @ (residual / scale).astype(float))
        residual = b - A @ x
    else:
        raise ArithmeticError("too ill-conditioned to be refined")
    return x * columns


def independent_rows(K: np.ndarray, rank: int) -> list[int]:
    """So many rows of K, which are of comparable size, as independent as a greedy choice finds them."""
    left = K
    chosen: list[int] = []
    for _ in range(rank):
        k = int(np.argmax(np.linalg.norm(left, axis=1)))
        chosen.append(k)
        u = left[k] / np.linalg.norm(left[k])
        left = left - np.outer(left @ u, u)
        left[chosen] = 0.0
    return sorted(chosen)


def constrained_motion(
    model: Model, q: np.ndarray, v: np.ndarray, tau: np.ndarray, independent: np.ndarray, size: float = 1.0
) -> Solution:
    """How a closed mechanism of some size [m] moves under forces tau on the spanning tree, (nv_spanning,),
    with 40 digits.

    v are the velocities at `independent` places of the spanning velocity.
    """
    with mpmath.workdps(DIGITS):
        return _constrained_motion(model, q, v, tau, independent, size)


def _constrained_motion(model: Model, q: Any, v: Any, tau: Any, independent: Any, size: float) -> Solution:
    n = model.nv_spanning
    q = exact(q)
    v = exact(v)
    loops = model.embedded
    here = Tree(model, q, over=MANY)
    K = here.equations(loops, size)[1]
    weight = np.sqrt(np.maximum(_diagonal(here), 1e-300))
    rows = independent_rows(K.astype(float) / (weight / weight.mean()), n - len(independent))
    K = K[rows]
    pick = exact(np.eye(n)[independent])
    vs = refined(np.concatenate([K, pick]), np.concatenate([exact(np.zeros(len(rows))), v]))
    M = _inertia(here)
    bias = exact(np.zeros(n))
    rate = _rate(model, q, vs)
    ahead, behind = (Tree(model, q + s * STEP * rate, over=MANY) for s in (1, -1))
    gravity = exact(model.gravity)
    for (m, I, Jw, Jc), (_, _, wa, ca), (_, _, wb, cb) in zip(
        here.centers(), ahead.centers(), behind.centers()
    ):
        alpha, acceleration = ((x - y) @ vs / (2 * STEP) for x, y in ((wa, wb), (ca, cb)))
        w = Jw @ vs
        bias = bias + Jc.T @ (m * (acceleration - gravity)) + Jw.T @ (I @ alpha + _cross(w, I @ w))
    for joint in model.joints:
        for i, place in enumerate(range(joint.v_start, joint.v_start + joint.nv)):
            bias[place] += joint.damping[i] * vs[place]
            if joint.stiffness[i]:
                bias[place] += joint.stiffness[i] * (q[joint.q_start + i] - joint.rest[i])
    k = exact(np.zeros(len(rows)))
    if rows:
        k = -((ahead.equations(loops, size)[1] - behind.equations(loops, size)[1])[rows] @ vs) / (2 * STEP)
    system = np.concatenate(
        [np.concatenate([M, K.T], axis=1), np.concatenate([K, exact(np.zeros((len(rows),) * 2))], axis=1)]
    )
    a = refined(system, np.concatenate([exact(tau) - bias, k]))[:n]
    scaled = K.astype(float) / weight
    scaled = scaled / np.maximum(np.linalg.norm(scaled, axis=1, keepdims=True), 1e-300)
    even = np.block(
        [[M.astype(float) / np.outer(weight, weight), scaled.T], [scaled, np.zeros((len(rows),) * 2)]]
    )
    choice = np.concatenate([scaled, np.eye(n)[independent]])
    condition = max(float(np.linalg.cond(x)) for x in (even, choice))
    return Solution(vs.astype(float), a.astype(float), condition, weight)


def _rate(model: Model, q: Any, v: Any) -> np.ndarray:
    return np.concatenate([MANY.rate(j.kind, q[j.q_slice], v[j.v_slice]) for j in model.joints])


def _inertia(tree: Tree) -> np.ndarray:
    """The mass matrix, (n, n), summed over bodies only where they move."""
    n = tree.model.nv_spanning
    M = exact(np.zeros((n, n)))
    for k, (m, I, Jw, Jc) in enumerate(tree.centers()):
        on = _columns(tree.model, k)
        Jw = Jw[:, on]
        Jc = Jc[:, on]
        M[np.ix_(on, on)] += m * (Jc.T @ Jc) + Jw.T @ I @ Jw
    for joint in tree.model.joints:
        for i, place in enumerate(range(joint.v_start, joint.v_start + joint.nv)):
            M[place, place] += joint.armature[i]
    return M


def _columns(model: Model, k: int) -> list[int]:
    """The velocities that move a body."""
    found: list[int] = []
    while k != GROUND:
        joint = model.joints[k]
        found += range(joint.v_start, joint.v_start + joint.nv)
        k = joint.parent
    return sorted(found)


def _diagonal(tree: Tree) -> np.ndarray:
    out = np.zeros(tree.model.nv_spanning)
    for m, I, Jw, Jc in tree.centers():
        w = Jw.astype(float)
        c = Jc.astype(float)
        out += float(m) * (c * c).sum(axis=0) + ((I.astype(float) @ w) * w).sum(axis=0)
    for joint in tree.model.joints:
        out[joint.v_slice] += joint.armature
    return out
