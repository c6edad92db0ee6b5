"""Constrained dynamics near states in which the rank of the constraints drops, against dense algebra with
singular values of the constraint Jacobian in the metric of the inertia.

The error that rounding explains is that of the accelerations' condition, the inverse of the conditioning c.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import linkwork as lw
from linkwork.joints import Revolute
from linkwork.model import Model
from planar_bars import parallelograms

METHODS = ("caba", "pv", "pv_early", "ltls", "ltl")
BENDS = 10.0 ** -np.arange(0.0, 8.5, 0.5)
Y = Revolute((0.0, 1.0, 0.0))


def arm(mass: float = 1.0, length: float = 1.0, time: float = 1.0) -> Model:
    """Four unequal links in a plane, in these units."""
    builder = lw.ModelBuilder("arm")
    parent = "world"
    for k in range(4):
        inertia = mass * length**2 * (0.02 + 0.01 * k)
        builder.add_body(
            f"link{k}",
            mass=mass * (1.0 + 0.3 * k),
            center=(0.0, 0.0, 0.4 * length),
            inertia=inertia * np.eye(3),
        )
        builder.add_joint(f"joint{k}", Y, parent=parent, child=f"link{k}", xyz=(0.0, 0.0, length * (k > 0)))
        parent = f"link{k}"
    builder.add_frame("tip", body="link3", xyz=(0.0, 0.0, 0.8 * length))
    return replace(builder.build(), gravity=(0.0, 0.0, -9.81 * length / time**2), kernels={})


def nearly_straight() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Configurations, velocities and forces without units; the direction along the arm is nearly lost."""
    q = np.array([[0.4, x, -0.3 * x, 0.2 * x] for x in BENDS])
    return q, np.tile([0.5, -0.3, 0.4, 1.0], (len(q), 1)), np.tile([0.3, -0.2, 0.5, 0.1], (len(q), 1))


def by_singular_values(
    model: Model, q: Any, v: Any, tau: Any, cut: float = 1e-11, **how: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Return the accelerations of a batch and the conditioning of the constraints, (n,)."""
    M = lw.mass_matrix(model, q)
    J = lw.constraint_jacobian(model, q, **how)
    bias = lw.constraint_bias(model, q, v, **how)
    force = tau - lw.bias_force(model, q, v)
    found = []
    conditioning = []
    for M_, J_, bias_, force_ in zip(M, J, bias, force):
        L = np.linalg.cholesky(M_)
        half = np.linalg.solve(L, J_.T)
        U, s, Vt = np.linalg.svd(half.T, full_matrices=False)
        s = s[s > cut * s[0]]
        free = np.linalg.solve(L, force_)
        y = Vt[: len(s)].T @ ((U.T @ (-bias_ - half.T @ free))[: len(s)] / s)
        found.append(np.linalg.solve(L.T, free + y))
        conditioning.append(s[-1] / s[0])
    return np.array(found), np.array(conditioning)


def relative(found: Any, right: np.ndarray) -> np.ndarray:
    return np.asarray(np.abs(np.asarray(found, dtype=float) - right).max(axis=1) / np.abs(right).max(axis=1))


ROWS = {
    "independent": lw.Hold("tip", "x z"),
    "redundant": (lw.Hold("tip", "x z"), lw.Hold("tip", "x z")),
    "contradictory": (lw.Hold("tip", "x z"), lw.Hold("tip", "x z"), lw.Hold("link3", "x y z")),
}
CASES = [
    (method, rows, dtype)
    for method in METHODS
    for rows in ROWS
    for dtype in ("float64", "float32")
    if rows != "redundant" or method == "caba"
]


@pytest.mark.parametrize(("method", "rows", "dtype"), CASES)
def test_accelerations_lose_no_more_digits_than_the_conditioning(method: str, rows: str, dtype: str) -> None:
    """Results that could not be reached are NaN, and only where rounding leaves no digits."""
    model = arm()
    q, v, tau = (x.astype(dtype) for x in nearly_straight())
    how: dict[str, Any] = {"constraints": ROWS[rows], "method": method, "dtype": dtype}
    right, c = by_singular_values(model, *(x.astype(float) for x in (q, v, tau)), constraints=ROWS[rows])
    a, forces = lw.constrained_dynamics(model, q, v, tau, **how)
    *_, converged = lw.constrained_dynamics(model, q, v, tau, **how, details=True)
    found = np.isfinite(a).all(axis=1)
    assert (found == (converged > 0.5)).all() and (found == np.isfinite(forces).all(axis=1)).all()
    eps = float(np.finfo(dtype).eps)
    certain = c > 128.0 * eps  # else a singular value may be taken for zero
    base = 3e-4 if dtype == "float32" else 2e-9
    assert found[c > 1e3 * eps].all()
    assert (relative(a, right) < base + 32.0 * eps / c)[found & certain].all()


@pytest.mark.parametrize("units", [(1e6, 1e-6, 1.0), (1e-6, 1e6, 1.0), (1.0, 1e6, 1e-3)])
def test_units_change_nothing_near_singular_states(units: tuple[float, float, float]) -> None:
    mass, length, time = units
    q, v, tau = nearly_straight()
    model = arm(*units)
    how: dict[str, Any] = {"constraints": ROWS["contradictory"]}
    right, c = by_singular_values(arm(), q, v, tau, **how)
    a, _ = lw.constrained_dynamics(model, q, v / time, tau * mass * (length / time) ** 2, **how)
    assert (relative(a * time**2, right) < 2e-9 + 32.0 * np.finfo(float).eps / c).all()


def test_impacts_and_hybrid_dynamics_near_singular_states() -> None:
    """As the nearest velocities in the metric of the inertia; and with one acceleration prescribed."""
    model = arm()
    q, v, tau = (x[:-2] for x in nearly_straight())
    how: dict[str, Any] = {"constraints": ROWS["independent"]}
    after, _ = lw.impact(model, q, v, **how)
    J = lw.constraint_jacobian(model, q, **how)
    M = lw.mass_matrix(model, q)
    bound = 1e-9 + 32.0 * np.finfo(float).eps / by_singular_values(model, q, v, tau, **how)[1]
    for k in range(len(q)):
        L = np.linalg.cholesky(M[k])
        half = np.linalg.solve(L, J[k].T)
        free = np.linalg.svd(half.T)[2][2:].T  # velocities that rows allow
        right = np.linalg.solve(L.T, free @ (free.T @ (L.T @ v[k])))
        assert np.abs(after[k] - right).max() < bound[k] * np.abs(right).max()
    right = by_singular_values(model, q, v, tau, **how)[0]
    a, _, _ = lw.hybrid_dynamics(model, q, v, right, tau, prescribed=["joint0"], **how)
    assert (relative(a, right) < 16.0 * bound).all()


@pytest.mark.parametrize(("count", "smallest"), [(1, 1e-7), (3, 1e-5)])
def test_constrained_loops_near_bifurcations(count: int, smallest: float) -> None:
    """Each parallelogram with all bars nearly in line adds a direction in which forces move little."""
    embedded = parallelograms(count)
    model = embedded.with_loops(constrain=[loop.name for loop in embedded.loops])
    cranks = np.array([name.startswith("crank") for name in model.v_names])
    q = np.array([np.where(cranks, 1.0, -1.0) * (np.pi / 2 - bend) for bend in BENDS if bend > smallest])
    speeds = np.tile(np.where(cranks, 1.0, -1.0), (len(q), 1))
    tau = np.tile(np.random.default_rng(0).normal(size=model.nv), (len(q), 1))
    right, c = by_singular_values(model, q, speeds, tau, cut=1e-13, constraints=())
    a = lw.forward_dynamics(model, q, speeds, tau)
    assert (relative(a, right) < 1e-10 + 1e3 * np.finfo(float).eps / c).all()
    assert relative(lw.forward_dynamics(model, q[:1], speeds[:1], tau[:1]), a[:1]) == 0.0


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_derivatives_are_right_or_nan_near_singular_states(dtype: str) -> None:
    """The derivative by joint forces is the inverse inertia among the velocities that rows allow."""
    model = arm()
    q, v, tau = (x.astype(dtype) for x in nearly_straight())
    how: dict[str, Any] = {"constraints": ROWS["independent"]}
    found = lw.constrained_dynamics_derivatives(model, q, v, tau, **how, dtype=dtype)[2]
    M = lw.mass_matrix(model, q.astype(float))
    J = lw.constraint_jacobian(model, q.astype(float), **how)
    finite = np.isfinite(found).all(axis=(1, 2))
    eps = float(np.finfo(dtype).eps)
    for k, c in enumerate(by_singular_values(model, *(x.astype(float) for x in (q, v, tau)), **how)[1]):
        assert finite[k] or c < (5e-3 if dtype == "float32" else 1e-5)
        L = np.linalg.cholesky(M[k])
        free = np.linalg.solve(L.T, np.linalg.svd(np.linalg.solve(L, J[k].T).T)[2][2:].T)
        right = free @ free.T
        assert not finite[k] or np.abs(found[k] - right).max() < 32.0 * eps / c**2 * np.abs(right).max()


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_derivatives_of_bars_nearly_in_line_are_right_or_nan(dtype: str) -> None:
    """Along its motion G, a moving parallelogram has the derivatives of G a = G (Gᵀ τ - Gᵀ h) / (Gᵀ M G)."""
    embedded = parallelograms(1)
    model, bars = (
        embedded.with_loops(constrain=[loop.name for loop in embedded.loops]),
        embedded.spanning_tree(),
    )
    G = np.where([name.startswith("crank") for name in model.v_names], 1.0, -1.0)
    tau = np.array([0.3, 0.1, -0.2])
    bends = np.geomspace(1e-1, 1e-12, 23)

    def at(angle: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.multiply.outer(angle, G), np.tile(3.0 * G, (len(angle), 1))

    def along_motion(angle: np.ndarray) -> np.ndarray:
        q, v = at(angle)
        return (tau - lw.bias_force(bars, q, v)) @ G / np.einsum("i,kij,j->k", G, lw.mass_matrix(bars, q), G)

    angles = np.pi / 2 - bends
    right = (along_motion(angles + 1e-5) - along_motion(angles - 1e-5)) / 2e-5
    q, v = (x.astype(dtype) for x in at(angles))
    dq = lw.forward_dynamics_derivatives(model, q, v, tau.astype(dtype), dtype=dtype)[0].astype(float) @ G
    finite = np.isfinite(dq).all(axis=1)
    assert finite[bends > (2e-2 if dtype == "float32" else 1e-4)].all()
    assert np.abs(dq - right[:, None] * G)[finite].max() < 1e-2 * np.abs(right).max()
