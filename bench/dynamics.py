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
from linkwork.ir.symbol import Symbol

GRAVITY = 9.81
ROBOTS: dict[str, Any] = json.loads((Path(__file__).parent / "robots.json").read_text())


def skew(r: np.ndarray) -> np.ndarray:
    return np.array([[0.0, -r[2], r[1]], [r[2], 0.0, -r[0]], [-r[1], r[0], 0.0]])


def cross(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.array([a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]])


class Transform:
    """From parent to child coordinates: rotate by E after moving the origin by r (in the parent).

    `turn` = (axis, cosine, sine, E0) says that E is a turn about a coordinate axis after a constant E0.
    """

    def __init__(self, E: np.ndarray, r: np.ndarray, turn: tuple | None = None) -> None:
        self.E, self.r = E, r
        self.turn = turn if turn is not None and np.all(np.isin(turn[3], (-1.0, 0.0, 1.0))) else None

    def motion(self, m: np.ndarray) -> np.ndarray:
        return np.concatenate([self.E @ m[:3], self.E @ (m[3:] - cross(self.r, m[:3]))])

    def force_back(self, f: np.ndarray) -> np.ndarray:
        n, l = self.E.T @ f[:3], self.E.T @ f[3:]
        return np.concatenate([n + cross(self.r, l), l])

    def inertia_back(self, inertia: Inertia) -> Inertia:
        """Xᵀ I X, each symmetric block computed once."""
        E, rx = self.E, skew(self.r)
        if inertia.mass is not None:  # a rigid body stays one: D = m 1 and B = skew(h)
            m, r = inertia.mass, self.r
            A, h = self.turned_back(inertia.A, symmetric_only=True), E.T @ axial(inertia.B)
            hx = skew(h + 0.5 * m * r)  # A' = A - rx hx - hx rx with the mean of h and h + m r
            Y = rx @ hx
            return Inertia(symmetric(lambda i, j: A[i, j] - Y[i, j] - Y[j, i]), skew(h + m * r), inertia.D, m)
        A, D = (self.turned_back(M, symmetric_only=True) for M in (inertia.A, inertia.D))
        B = self.turned_back(inertia.B)
        B2 = B + rx @ D
        Y, Z = rx @ B.T, rx @ B2.T
        return Inertia(symmetric(lambda i, j: A[i, j] + Y[j, i] + Z[i, j]), B2, D)

    def turned_back(self, M: np.ndarray, *, symmetric_only: bool = False) -> np.ndarray:
        """Eᵀ M E. A turn about an axis needs only the double angle: half the work of two products."""
        if self.turn is None:
            return congruence(self.E, M) if symmetric_only else self.E.T @ (M @ self.E)
        k, c, s, E0 = self.turn
        a, b = (k + 1) % 3, (k + 2) % 3
        w = s * (M[a, a] - M[b, b]) + c * (M[a, b] + M[b, a])
        T = np.empty((3, 3), dtype=object)
        T[k, k] = M[k, k]
        T[a, a], T[b, b] = M[a, a] - s * w, M[b, b] + s * w
        T[a, b], T[b, a] = c * w - M[b, a], c * w - M[a, b]
        T[a, k], T[b, k] = c * M[a, k] - s * M[b, k], s * M[a, k] + c * M[b, k]
        T[k, a], T[k, b] = c * M[k, a] - s * M[k, b], s * M[k, a] + c * M[k, b]
        return E0.T @ (T @ E0)


class Inertia:
    """[[A, B], [Bᵀ, D]]; of a rigid body with known mass, B is the skew matrix of h = mass * centre and D = mass * 1."""

    def __init__(self, A: np.ndarray, B: np.ndarray, D: np.ndarray, mass: float | None = None) -> None:
        self.A, self.B, self.D, self.mass = A, B, D, mass

    def __add__(self, other: Inertia) -> Inertia:
        mass = None if self.mass is None or other.mass is None else self.mass + other.mass
        return Inertia(self.A + other.A, self.B + other.B, self.D + other.D, mass)

    def force(self, a: np.ndarray, W: np.ndarray) -> np.ndarray:
        """Of a rigid body, what makes its points at r accelerate by a + W r."""
        h = axial(self.B)
        J = 0.5 * np.trace(self.A) * np.eye(3) - self.A  # second moments of the mass
        moment = [W[i] @ J[:, j] - W[j] @ J[:, i] for i, j in ((2, 1), (0, 2), (1, 0))]
        return np.concatenate([moment + cross(h, a), self.mass * a + W @ h])

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


def axial(B: np.ndarray) -> np.ndarray:
    """The vector of a skew matrix."""
    return np.array([B[2, 1], B[0, 2], B[1, 0]])


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
        self.I = Inertia(np.array(spec["inertia"]) + m * cx @ cx.T, m * cx, m * np.eye(3), m)

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
        return Transform(R @ self.E0, self.r, (self.axis, c, s, self.E0))


class State:
    """Transforms of all bodies and, where velocities are given, what these add to accelerations and forces.

    Accelerations are those of body points as seen from outside, so no linear velocity is needed but the free base's own:
    a body's points at r accelerate by a + W r, of which skew(w) skew(w) is the part that velocities cause.
    """

    def __init__(self, robot: str, q: np.ndarray, v: np.ndarray | None = None) -> None:
        self.bodies = [Body(spec) for spec in ROBOTS[robot]["bodies"]]
        self.nv: int = ROBOTS[robot]["nv"]
        self.X: list[Transform] = []
        self.dofs: list[slice] = []
        self.spin: list[np.ndarray] = []  # skew(w) skew(w) of each body
        self.c: list[np.ndarray] = []  # acceleration that velocities cause across the joint
        w: list[np.ndarray] = []
        iq = iv = 0
        for b in self.bodies:
            nq, nv = (7, 6) if b.axis is None else (1, 1)
            X = b.joint(q[iq : iq + nq])
            self.X.append(X)
            self.dofs.append(slice(iv, iv + nv))
            if v is not None:
                vJ = v[iv : iv + nv] if b.axis is None else on_axis(b.axis, v[iv])
                came = X.E @ w[b.parent] if b.parent >= 0 else np.zeros(3)
                linear = X.E @ (self.spin[b.parent] @ X.r) if b.parent >= 0 else np.zeros(3)
                w.append(came + vJ[:3])
                self.spin.append(skew(w[-1]) @ skew(w[-1]))
                self.c.append(np.concatenate([cross(came, vJ[:3]), linear + cross(vJ[:3], vJ[3:])]))
            iq, iv = iq + nq, iv + nv

    def carried(self, k: int, a: list[Any]) -> np.ndarray:
        """The parent's acceleration in the child's frame; gravity enters as the acceleration of the ground."""
        b = self.bodies[k]
        return self.X[k].motion(a[b.parent] if b.parent >= 0 else np.array([0.0, 0, 0, 0, 0, GRAVITY]))


def on_axis(k: int, x: Any) -> np.ndarray:
    out = np.zeros(6, dtype=object)
    out[k] = x
    return out


def inverse_dynamics(robot: str) -> Callable[..., Any]:
    def rnea(q: np.ndarray, v: np.ndarray, a: np.ndarray) -> np.ndarray:
        s = State(robot, q)
        ground = (np.zeros(3), np.zeros(3), np.array([0.0, 0.0, GRAVITY]), np.zeros((3, 3)))
        motion, f, tau = [], [], np.empty(s.nv, dtype=object)
        for k, b in enumerate(s.bodies):
            w, dw, acc, W = motion[b.parent] if b.parent >= 0 else ground
            E, r, vJ, aJ = s.X[k].E, s.X[k].r, v[s.dofs[k]], a[s.dofs[k]]
            w, dw, acc = E @ w, E @ dw, E @ (acc + W @ r)
            if b.axis is None:
                w, dw, acc = vJ[:3], aJ[:3], acc + aJ[3:] + cross(vJ[:3], vJ[3:])
            else:
                spin = on_axis(b.axis, vJ[0])[:3]
                w, dw = w + spin, dw + cross(w, spin) + on_axis(b.axis, aJ[0])[:3]
            W = skew(dw) + skew(w) @ skew(w)
            motion.append((w, dw, acc, W))
            f.append(b.I.force(acc, W))
        for k, b in reversed(list(enumerate(s.bodies))):
            tau[s.dofs[k]] = f[k] if b.axis is None else f[k][b.axis]
            if b.parent >= 0:
                f[b.parent] = f[b.parent] + s.X[k].force_back(f[k])
        return tau

    return rnea


def mass_matrix(robot: str, *, packed: bool = False) -> Callable[..., Any]:
    """The full matrix, or only the entries of its upper triangle that are not zero by structure."""

    def crba(q: np.ndarray) -> np.ndarray:
        s = State(robot, q)
        nv = s.nv
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
        return np.array([x for x in M[np.triu_indices(nv)] if isinstance(x, Symbol) or x != 0.0]) if packed else M

    return crba


def forward_dynamics(robot: str) -> Callable[..., Any]:
    def aba(q: np.ndarray, v: np.ndarray, tau: np.ndarray) -> np.ndarray:
        s = State(robot, q, v)
        n = len(s.bodies)
        IA = [b.I for b in s.bodies]
        pA = [b.I.force(np.zeros(3), spin) for b, spin in zip(s.bodies, s.spin)]
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
        acc, out = [], np.empty(s.nv, dtype=object)
        for k, b in enumerate(s.bodies):
            a0 = s.carried(k, acc) + s.c[k]
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
        "mass matrix": lw.trace(mass_matrix(robot, packed=True), {"q": nq}),
        "full mass matrix": lw.trace(mass_matrix(robot), {"q": nq}),
        "forward dynamics": lw.trace(forward_dynamics(robot), {"q": nq, "v": nv, "tau": nv}),
    }
