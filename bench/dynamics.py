"""Inverse dynamics, mass matrix and forward dynamics of four real robots, to measure the compiler with.

Written for this bench on plain lists of bodies (`robots.json`: placements, masses and axes read from the robots' URDFs).
The library's own algorithms, on any mechanism, do not live here.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import linkwork as lw
from linkwork.ir.symbol import Symbol
from linkwork.spatial import Inertia, Pose, cross, skew

GRAVITY = 9.81
ROBOTS: dict[str, Any] = json.loads((Path(__file__).parent / "robots.json").read_text())


class Body:
    """One body of `robots.json` with what the recursions need, for one state (symbols or numbers)."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.parent: int = spec["parent"]
        self.axis: int | None = None if spec["axis"] is None else "xyz".index(spec["axis"])
        self.place = Pose(np.array(spec["R"], dtype=float), np.array(spec["p"], dtype=float))
        self.I = Inertia.rigid(spec["mass"], np.array(spec["com"]), np.array(spec["inertia"]))

    def joint(self, q: np.ndarray) -> Pose:
        if self.axis is None:
            return Pose(Pose.from_quaternion(q[3:]).R, q[:3])
        return self.place.then(Pose.turned(self.axis, q[0]))


class State:
    """Transforms of all bodies and, where velocities are given, what these add to accelerations and forces.

    Accelerations are those of body points as seen from outside, so no linear velocity is needed but the free base's own:
    a body's points at r accelerate by a + W r, of which skew(w) skew(w) is the part that velocities cause.
    """

    def __init__(self, robot: str, q: np.ndarray, v: np.ndarray | None = None) -> None:
        self.bodies = [Body(spec) for spec in ROBOTS[robot]["bodies"]]
        self.nv: int = ROBOTS[robot]["nv"]
        self.X: list[Pose] = []
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
                came = X.R.T @ w[b.parent] if b.parent >= 0 else np.zeros(3)
                linear = X.R.T @ (self.spin[b.parent] @ X.p) if b.parent >= 0 else np.zeros(3)
                w.append(came + vJ[:3])
                self.spin.append(skew(w[-1]) @ skew(w[-1]))
                self.c.append(np.concatenate([cross(came, vJ[:3]), linear + cross(vJ[:3], vJ[3:])]))
            iq, iv = iq + nq, iv + nv

    def carried(self, k: int, a: list[Any]) -> np.ndarray:
        """The parent's acceleration in the child's frame; gravity enters as the acceleration of the ground."""
        b = self.bodies[k]
        return self.X[k].scatter(a[b.parent] if b.parent >= 0 else np.array([0.0, 0, 0, 0, 0, GRAVITY]))


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
            E, r, vJ, aJ = s.X[k].R.T, s.X[k].p, v[s.dofs[k]], a[s.dofs[k]]
            w, dw, acc = E @ w, E @ dw, E @ (acc + W @ r)
            if b.axis is None:
                w, dw, acc = vJ[:3], aJ[:3], acc + aJ[3:] + cross(vJ[:3], vJ[3:])
            else:
                spin = on_axis(b.axis, vJ[0])[:3]
                w, dw = w + spin, dw + cross(w, spin) + on_axis(b.axis, aJ[0])[:3]
            W = skew(dw) + skew(w) @ skew(w)
            motion.append((w, dw, acc, W))
            f.append(b.I.point_force(acc, W))
        for k, b in reversed(list(enumerate(s.bodies))):
            tau[s.dofs[k]] = f[k] if b.axis is None else f[k][b.axis]
            if b.parent >= 0:
                f[b.parent] = f[b.parent] + s.X[k].gather(f[k])
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
                Ic[b.parent] = Ic[b.parent] + s.X[k].congruence(Ic[k])
            if b.axis is None:
                M[s.dofs[k], s.dofs[k]] = Ic[k].dense()
                continue
            F, j, i = Ic[k].column(b.axis), k, s.dofs[k].start
            M[i, i] = F[b.axis]
            while s.bodies[j].parent >= 0:
                F, j = s.X[j].gather(F), s.bodies[j].parent
                axis = s.bodies[j].axis
                M[i, s.dofs[j]] = M[s.dofs[j], i] = F if axis is None else F[axis]
        return np.array([x for x in M[np.triu_indices(nv)] if isinstance(x, Symbol) or x != 0.0]) if packed else M

    return crba


def forward_dynamics(robot: str) -> Callable[..., Any]:
    def aba(q: np.ndarray, v: np.ndarray, tau: np.ndarray) -> np.ndarray:
        s = State(robot, q, v)
        n = len(s.bodies)
        IA = [b.I for b in s.bodies]
        pA = [b.I.point_force(np.zeros(3), spin) for b, spin in zip(s.bodies, s.spin)]
        U, d, u = [None] * n, [None] * n, [None] * n
        for k, b in reversed(list(enumerate(s.bodies))):
            if b.axis is None:
                continue
            U[k] = IA[k].column(b.axis)
            d[k] = 1.0 / U[k][b.axis]
            u[k] = tau[s.dofs[k]][0] - pA[k][b.axis]
            if b.parent >= 0:
                Ia = IA[k].without((U[k]*d[k])[:,None], U[k][:,None], (b.axis,))
                pa = pA[k] + Ia @ s.c[k] + U[k] * (u[k] * d[k])
                IA[b.parent] = IA[b.parent] + s.X[k].congruence(Ia)
                pA[b.parent] = pA[b.parent] + s.X[k].gather(pa)
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
