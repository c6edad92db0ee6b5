"""Inverse dynamics, mass matrix and forward dynamics of four real robots, to measure the compiler with.

Written for this bench on plain lists of bodies (`robots.json`: placements, masses and axes read from the robots' URDFs).
The library's own algorithms, on any mechanism, do not live here.

Spatial vectors are angular first. A rigid or articulated inertia is kept as its blocks (A, B, D) of [[A, B], [Bᵀ, D]].
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import linkwork as lw

GRAVITY = 9.81
ROBOTS: dict[str, Any] = json.loads((Path(__file__).parent / "robots.json").read_text())


def skew(r: np.ndarray) -> np.ndarray:
    return np.array([[0.0, -r[2], r[1]], [r[2], 0.0, -r[0]], [-r[1], r[0], 0.0]])


def cross(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.array([a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]])


def cross_motion(v: np.ndarray, m: np.ndarray) -> np.ndarray:
    return np.concatenate([cross(v[:3], m[:3]), cross(v[3:], m[:3]) + cross(v[:3], m[3:])])


def cross_force(v: np.ndarray, f: np.ndarray) -> np.ndarray:
    return np.concatenate([cross(v[:3], f[:3]) + cross(v[3:], f[3:]), cross(v[:3], f[3:])])


class Transform:
    """From parent to child coordinates: rotate by E after moving the origin by r (in the parent)."""

    def __init__(self, E: np.ndarray, r: np.ndarray) -> None:
        self.E, self.r = E, r

    def motion(self, m: np.ndarray) -> np.ndarray:
        return np.concatenate([self.E @ m[:3], self.E @ (m[3:] - cross(self.r, m[:3]))])

    def force_back(self, f: np.ndarray) -> np.ndarray:
        n, l = self.E.T @ f[:3], self.E.T @ f[3:]
        return np.concatenate([n + cross(self.r, l), l])

    def inertia_back(self, inertia: Inertia) -> Inertia:
        """Xᵀ I X, each symmetric block computed once."""
        E, rx = self.E, skew(self.r)
        A, B, D = congruence(E, inertia.A), E.T @ (inertia.B @ E), congruence(E, inertia.D)
        B2 = B + rx @ D
        Y, Z = rx @ B.T, rx @ B2.T
        return Inertia(symmetric(lambda i, j: A[i, j] + Y[j, i] + Z[i, j]), B2, D)


class Inertia:
    def __init__(self, A: np.ndarray, B: np.ndarray, D: np.ndarray) -> None:
        self.A, self.B, self.D = A, B, D

    def __add__(self, other: Inertia) -> Inertia:
        return Inertia(self.A + other.A, self.B + other.B, self.D + other.D)

    def __matmul__(self, m: np.ndarray) -> np.ndarray:
        return np.concatenate([self.A @ m[:3] + self.B @ m[3:], self.B.T @ m[:3] + self.D @ m[3:]])

    def column(self, k: int) -> np.ndarray:
        return np.concatenate([self.A[:, k], self.B[k, :]])

    def dense(self) -> np.ndarray:
        return np.block([[self.A, self.B], [self.B.T, self.D]])

    def without_axis(self, k: int, U: np.ndarray, d: Any) -> Inertia:
        """I - U d Uᵀ with U = I s_k and d = 1 / U_k: row and column k are exactly zero, so they are left out."""
        W = U * d
        keep = lambda i, j, value: 0.0 if k in (i, j) else value  # noqa: E731
        A = symmetric(lambda i, j: keep(i, j, self.A[i, j] - U[i] * W[j]))
        B = np.array([[keep(i, -1, self.B[i, j] - W[i] * U[3 + j]) for j in range(3)] for i in range(3)])
        return Inertia(A, B, symmetric(lambda i, j: self.D[i, j] - U[3 + i] * W[3 + j]))


def symmetric(entry: Callable[[int, int], Any]) -> np.ndarray:
    M = np.empty((3, 3), dtype=object)
    for i in range(3):
        for j in range(i, 3):
            M[i, j] = M[j, i] = entry(i, j)
    return M


def congruence(E: np.ndarray, A: np.ndarray) -> np.ndarray:
    AE = A @ E
    return symmetric(lambda i, j: E[:, i] @ AE[:, j])


class Body:
    """One body of `robots.json` with what the recursions need, for one state (symbols or numbers)."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.parent: int = spec["parent"]
        self.axis: int | None = None if spec["axis"] is None else "xyz".index(spec["axis"])
        self.E0, self.r = np.array(spec["R"], dtype=float).T, np.array(spec["p"], dtype=float)
        m, cx = spec["mass"], skew(np.array(spec["com"], dtype=float))
        self.I = Inertia(np.array(spec["inertia"]) + m * cx @ cx.T, m * cx, m * np.eye(3))

    def joint(self, q: np.ndarray) -> Transform:
        if self.axis is None:
            x, y, z, w = q[3:]
            E = np.array([
                [1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y + w * z), 2.0 * (x * z - w * y)],
                [2.0 * (x * y - w * z), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z + w * x)],
                [2.0 * (x * z + w * y), 2.0 * (y * z - w * x), 1.0 - 2.0 * (x * x + y * y)],
            ])  # fmt: skip
            return Transform(E, q[:3])
        s, c = lw.sincos(q[0])
        a, b = (self.axis + 1) % 3, (self.axis + 2) % 3
        R = np.eye(3).astype(object)
        R[a, a], R[a, b], R[b, a], R[b, b] = c, s, -s, c
        return Transform(R @ self.E0, self.r)


class State:
    """Transforms, velocities and velocity products of all bodies."""

    def __init__(self, robot: str, q: np.ndarray, v: np.ndarray | None = None) -> None:
        self.bodies = [Body(spec) for spec in ROBOTS[robot]["bodies"]]
        self.X: list[Transform] = []
        self.v: list[np.ndarray] = []
        self.c: list[np.ndarray] = []
        self.dofs: list[slice] = []
        iq = iv = 0
        for b in self.bodies:
            nq, nv = (7, 6) if b.axis is None else (1, 1)
            self.dofs.append(slice(iv, iv + nv))
            X = b.joint(q[iq : iq + nq])
            self.X.append(X)
            if v is not None:
                vJ = v[iv : iv + nv] if b.axis is None else on_axis(b.axis, v[iv])
                free = b.parent < 0
                self.v.append(vJ if free else X.motion(self.v[b.parent]) + vJ)
                self.c.append(np.zeros(6) if free else cross_motion(self.v[-1], vJ))
            iq, iv = iq + nq, iv + nv

    def base_acceleration(self, k: int, a: list[Any]) -> np.ndarray:
        """The parent's acceleration in the child's frame; gravity enters as the acceleration of the ground."""
        b = self.bodies[k]
        return self.X[k].motion(a[b.parent] if b.parent >= 0 else np.array([0.0, 0, 0, 0, 0, GRAVITY]))


def on_axis(k: int, x: Any) -> np.ndarray:
    out = np.zeros(6, dtype=object)
    out[k] = x
    return out


def inverse_dynamics(robot: str) -> Callable[..., Any]:
    def rnea(q: np.ndarray, v: np.ndarray, a: np.ndarray) -> np.ndarray:
        s = State(robot, q, v)
        acc, f, tau = [], [], np.empty(ROBOTS[robot]["nv"], dtype=object)
        for k, b in enumerate(s.bodies):
            aJ = a[s.dofs[k]] if b.axis is None else on_axis(b.axis, a[s.dofs[k]][0])
            acc.append(s.base_acceleration(k, acc) + s.c[k] + aJ)
            f.append(b.I @ acc[k] + cross_force(s.v[k], b.I @ s.v[k]))
        for k, b in reversed(list(enumerate(s.bodies))):
            tau[s.dofs[k]] = f[k] if b.axis is None else f[k][b.axis]
            if b.parent >= 0:
                f[b.parent] = f[b.parent] + s.X[k].force_back(f[k])
        return tau

    return rnea


def mass_matrix(robot: str) -> Callable[..., Any]:
    def crba(q: np.ndarray) -> np.ndarray:
        s = State(robot, q)
        nv = ROBOTS[robot]["nv"]
        M = np.zeros((nv, nv), dtype=object)
        Ic = [b.I for b in s.bodies]
        for k, b in reversed(list(enumerate(s.bodies))):
            if b.parent >= 0:
                Ic[b.parent] = Ic[b.parent] + s.X[k].inertia_back(Ic[k])
            if b.axis is None:
                M[s.dofs[k], s.dofs[k]] = Ic[k].dense()
                continue
            F, j, i = Ic[k].column(b.axis), k, s.dofs[k].start
            M[i, i] = F[b.axis]
            while s.bodies[j].parent >= 0:
                F, j = s.X[j].force_back(F), s.bodies[j].parent
                axis = s.bodies[j].axis
                M[i, s.dofs[j]] = M[s.dofs[j], i] = F if axis is None else F[axis]
        return M

    return crba


def forward_dynamics(robot: str) -> Callable[..., Any]:
    def aba(q: np.ndarray, v: np.ndarray, tau: np.ndarray) -> np.ndarray:
        s = State(robot, q, v)
        n = len(s.bodies)
        IA = [b.I for b in s.bodies]
        pA = [cross_force(s.v[k], b.I @ s.v[k]) for k, b in enumerate(s.bodies)]
        U, d, u = [None] * n, [None] * n, [None] * n
        for k, b in reversed(list(enumerate(s.bodies))):
            if b.axis is None:
                continue
            U[k] = IA[k].column(b.axis)
            d[k] = 1.0 / U[k][b.axis]
            u[k] = tau[s.dofs[k]][0] - pA[k][b.axis]
            if b.parent >= 0:
                Ia = IA[k].without_axis(b.axis, U[k], d[k])
                pa = pA[k] + Ia @ s.c[k] + U[k] * (u[k] * d[k])
                IA[b.parent] = IA[b.parent] + s.X[k].inertia_back(Ia)
                pA[b.parent] = pA[b.parent] + s.X[k].force_back(pa)
        acc, out = [], np.empty(ROBOTS[robot]["nv"], dtype=object)
        for k, b in enumerate(s.bodies):
            a0 = s.base_acceleration(k, acc) + s.c[k]
            if b.axis is None:
                x = ldl_solve(IA[k].dense(), tau[s.dofs[k]] - pA[k])
                out[s.dofs[k]] = x - a0
                acc.append(x)
            else:
                x = (u[k] - U[k] @ a0) * d[k]
                out[s.dofs[k]] = x
                acc.append(a0 + on_axis(b.axis, x))
        return out

    return aba


def ldl_solve(M: np.ndarray, r: np.ndarray) -> np.ndarray:
    """x of M x = r for a small symmetric positive definite M."""
    n = len(r)
    L, D, inv = np.zeros((n, n), dtype=object), np.empty(n, dtype=object), np.empty(n, dtype=object)
    for j in range(n):
        LD = L[j, :j] * D[:j]
        D[j] = M[j, j] - (L[j, :j] @ LD if j else 0.0)
        inv[j] = 1.0 / D[j]
        for i in range(j + 1, n):
            L[i, j] = (M[i, j] - (L[i, :j] @ LD if j else 0.0)) * inv[j]
    x = np.array(r, dtype=object)
    for i in range(1, n):
        x[i] = x[i] - L[i, :i] @ x[:i]
    x = x * inv
    for i in reversed(range(n - 1)):
        x[i] = x[i] - L[i + 1 :, i] @ x[i + 1 :]
    return x


def programs(robot: str) -> dict[str, lw.Program]:
    """The three traced programs of a robot."""
    nq, nv = ROBOTS[robot]["nq"], ROBOTS[robot]["nv"]
    return {
        "inverse dynamics": lw.trace(inverse_dynamics(robot), {"q": nq, "v": nv, "a": nv}),
        "mass matrix": lw.trace(mass_matrix(robot), {"q": nq}),
        "forward dynamics": lw.trace(forward_dynamics(robot), {"q": nq, "v": nv, "tau": nv}),
    }
