"""Constrained dynamics in any units, in single precision, and with rows that are redundant or contradict each
other.

The oracle is dense algebra: pseudo-inverses of the Delassus matrix, from Jacobians and mass matrices in
float64.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import linkwork as lw
from linkwork.algorithms.constrained.row_mobility import row_mobilities
from linkwork.joints import Joint, Prismatic, Revolute
from linkwork.model import Model

METHODS = ("caba", "pv", "pv_early", "ltls", "ltl")
FEET = tuple(lw.Connect(f"{leg}_foot") for leg in ("front_left", "front_right", "rear_left", "rear_right"))
GAINS = lw.Gains(stiffness=100.0, damping=20.0)


class Oracle:
    """Accelerations and least forces of a batch, rows counted in units of the square roots of their typical
    mobilities.
    """

    def __init__(self, model: Model, q: Any, v: Any, tau: Any, constraints: Any) -> None:
        self.J = lw.constraint_jacobian(model, q, constraints=constraints)
        self.k = -lw.constraint_bias(model, q, v, constraints=constraints)
        self.M, self.free = lw.mass_matrix(model, q), tau - lw.bias_force(model, q, v)
        W = np.linalg.solve(self.M, self.J.swapaxes(1, 2))
        scale = np.sqrt(row_mobilities(model, tuple(constraints)))
        self.delassus = self.J @ W
        lack = self.k - (W.swapaxes(1, 2) @ self.free[..., None])[..., 0]
        relative = np.linalg.pinv(self.delassus / np.outer(scale, scale), rcond=1e-9)
        self.f = (relative @ (lack / scale)[..., None])[..., 0] / scale
        self.a = np.linalg.solve(
            self.M, (self.free + (self.J.swapaxes(1, 2) @ self.f[..., None])[..., 0])[..., None]
        )[..., 0]


def error(found: Any, right: np.ndarray) -> float:
    """The largest error of any row, relative to that row's largest entry."""
    return float(
        (np.abs(np.asarray(found, dtype=float) - right).max(axis=1) / np.abs(right).max(axis=1)).max()
    )


def states(model: Model, count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    q = lw.integrate(model, np.tile(model.neutral(), (count, 1)), 0.7 * rng.normal(size=(count, model.nv)))
    return q, rng.normal(size=(count, model.nv)), 5.0 * rng.normal(size=(count, model.nv))


def single(*arrays: np.ndarray) -> list[np.ndarray]:
    return [x.astype(np.float32) for x in arrays]


@pytest.mark.parametrize("method", [None, *METHODS])
def test_single_precision(method: str | None) -> None:
    """Four feet, with what is chosen by default; the loss by stiffened inertias is bounded."""
    model = lw.robots.quadruped()
    how = {} if method is None else {"method": method}
    q, v, tau = states(model, 30)
    right = Oracle(model, q, v, tau, FEET)
    accurate = 5e-4 if method in ("caba", "ltls") else 1e-4
    a, f, violation, _, imbalance, converged = lw.constrained_dynamics(
        model, *single(q, v, tau), constraints=FEET, dtype="float32", details=True, **how
    )
    assert error(a, right.a) < accurate and error(f, right.f) < accurate and converged.all()
    a = a.astype(float)
    f = f.astype(float)
    missed = np.abs((right.J @ a[..., None])[..., 0] - right.k).max(axis=1)
    lacking = (right.M @ a[..., None] - right.J.swapaxes(1, 2) @ f[..., None])[..., 0] - right.free
    assert violation.max() < 5e-3 and np.all(violation < missed + 2e-3) and np.all(missed < violation + 2e-3)
    assert np.all(np.abs(imbalance - np.abs(lacking).max(axis=1)) < 1e-2 * np.abs(right.free).max())


def test_impacts_and_delassus_matrices_in_single_precision() -> None:
    model = lw.robots.quadruped()
    q, v, tau = states(model, 30)
    right = Oracle(model, q, v, tau, FEET)
    after, _, violation, _, _, converged = lw.impact(
        model, *single(q, v), constraints=FEET, dtype="float32", details=True
    )
    J = right.J
    M = right.M
    impulses = np.linalg.solve(right.delassus, -J @ v[..., None])
    wanted = v + np.linalg.solve(M, J.swapaxes(1, 2) @ impulses)[..., 0]
    assert error(after, wanted) < 1e-4 and violation.max() < 1e-3 and converged.all()
    for R in (1e-6, 0.1):
        wanted = np.linalg.inv(right.delassus + R * np.eye(12)).reshape(30, -1)
        found = lw.damped_delassus_inverse(model, *single(q), constraints=FEET, compliance=R, dtype="float32")
        assert error(found.reshape(30, -1), wanted) < 1e-3
    R = 2.0**-7 * np.diag(row_mobilities(model, FEET))
    wanted = np.linalg.inv(right.delassus + R).reshape(30, -1)
    for choice in ({}, {"method": "caba"}):
        found = lw.damped_delassus_inverse(model, *single(q), constraints=FEET, dtype="float32", **choice)
        assert error(found.reshape(30, -1), wanted) < 1e-3
    how: dict[str, Any] = {"constraints": FEET, "compliance": 1e-6, "dtype": "float32"}
    for call in (
        lambda: lw.damped_delassus_inverse(model, *single(q), method="caba", **how),
        lambda: lw.damped_delassus_product(model, *single(q, tau[:, :12]), **how),
        lambda: lw.constrained_dynamics(model, *single(q, v, tau), method="ltls", **how),
    ):
        with pytest.raises(lw.ModelError, match=r"compliance 1.0e-06 of row 0 is too small for float32"):
            call()


def test_derivatives_with_redundant_rows_in_single_precision() -> None:
    model, constraints = lw.robots.quadruped(), [*FEET[:2], FEET[0], lw.Hold("front_left_foot", "x z")]
    q, v, tau = states(model, 10)
    right = lw.constrained_dynamics_derivatives(model, q, v, tau, constraints=constraints)
    found = lw.constrained_dynamics_derivatives(
        model, *single(q, v, tau), constraints=constraints, dtype="float32"
    )
    for x, y in zip(found[:3], right[:3]):
        assert error(x.reshape(10, -1), y.reshape(10, -1)) < 2e-3


def chain(mass: float, length: float, time: float) -> Model:
    """Seven links of about a unit of mass and length, and gravity in units of length and time."""
    rng = np.random.default_rng(0)
    builder = lw.ModelBuilder("chain")
    parent = "world"
    for k in range(7):
        A = rng.normal(size=(3, 3))
        axis = rng.normal(size=3)
        own = mass * (1.0 + rng.random())
        center = length * (0.1 * rng.normal(size=3) + [0, 0, -0.5])
        inertia = 0.002 * A @ A.T + 0.05 * np.eye(3)
        builder.add_body(f"link{k}", mass=own, center=center, inertia=own * length**2 * inertia)
        axis = axis / np.linalg.norm(axis)
        builder.add_joint(
            f"joint{k}",
            lw.joints.Revolute(axis),
            parent=parent,
            child=f"link{k}",
            xyz=(0, 0, -length if k else 0.0),
        )
        parent = f"link{k}"
    model = builder.add_frame("tip", body=parent, xyz=(0, 0, -length)).build()
    return replace(model, gravity=(0.0, 0.0, -9.81 * length / time**2), kernels={})


UNITS = ((1e5, 6.0, 1.0), (1e-9, 1e-3, 1.0), (1e6, 100.0, 1e-3), (1e-9, 1.0, 1e3))


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("method", ["caba", "ltl"])
def test_results_do_not_depend_on_units(units: tuple[float, float, float], method: str) -> None:
    (mass, length, time), constraints = units, [lw.Weld("tip"), lw.Hold("link3", "wx")]
    rng = np.random.default_rng(1)
    q, v, tau = rng.normal(size=(3, 4, 7))
    right = Oracle(chain(1.0, 1.0, 1.0), q, v, 5.0 * tau, constraints)
    model = chain(mass, length, time)
    force = mass * length / time**2
    a, f, *_, converged = lw.constrained_dynamics(
        model, q, v / time, 5.0 * tau * force * length, constraints=constraints, method=method, details=True
    )
    counted = np.array([force * length] * 3 + [force] * 3 + [force * length])
    assert converged.all() and error(a * time**2, right.a) < 1e-8
    free = np.linalg.matrix_rank(right.delassus[0]) == 7
    assert not free or error(f / counted, right.f) < 1e-7
    after, _ = lw.impact(model, q, v / time, constraints=constraints, method=method)
    assert (
        np.abs(lw.constraint_jacobian(model, q, constraints=constraints) @ after[..., None]).max()
        < 1e-8 * length / time * 10
    )


def test_masses_that_are_inputs() -> None:
    """A mechanism a million times as heavy by its parameters moves as one that was built so."""
    model = chain(1.0, 1.0, 1.0)
    constraints = [lw.Connect("tip")]
    q, v, tau = np.random.default_rng(1).normal(size=(3, 4, 7))
    own = model.parameters()
    heavy = {name: 1e6 * own[name] for name in ("mass", "inertia")}
    a, _, *_, converged = lw.constrained_dynamics(
        model, q, v, 1e6 * tau, constraints=constraints, parameters=heavy, details=True
    )
    assert (
        converged.all()
        and error(a, lw.constrained_dynamics(model, q, v, tau, constraints=constraints)[0]) < 1e-8
    )


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("method", METHODS)
def test_least_forces_of_redundant_and_contradicting_rows(method: str, dtype: str) -> None:
    """Cold, and after many calls that begin with the forces of the last one."""
    model = lw.robots.humanoid()
    q, v, tau = states(model, 2)
    q[:, :7] = model.neutral()[:7]
    red = [lw.Weld("left_sole", at=q[0], gains=GAINS), lw.Connect("left_sole", at=q[0], gains=GAINS)]
    against = [lw.Weld("left_sole", at=q[0], gains=GAINS), lw.Weld("left_sole", at=q[1], gains=GAINS)]
    arrays = (q, 0.1 * v, 0.0 * tau)
    given = [x.astype(dtype) for x in arrays]
    for constraints, tight in (
        (red, 5e-3 if dtype == "float32" else 1e-6),
        (against, 0.1 if dtype == "float32" else 1e-4),
    ):
        right, how = (
            Oracle(model, *arrays, constraints),
            {"constraints": constraints, "method": method, "dtype": dtype},
        )
        a, f = lw.constrained_dynamics(model, *given, **how)
        assert error(a, right.a) < (2e-3 if dtype == "float32" else 1e-8) and error(f, right.f) < tight
        warm = f + 100.0 * np.random.default_rng(0).normal(size=f.shape).astype(dtype)
        for _ in range(30):
            a, warm = lw.constrained_dynamics(model, *given, warm_start=warm, **how)
        assert error(a, right.a) < (2e-3 if dtype == "float32" else 1e-8) and error(warm, right.f) < tight


def test_soft_constraints_have_their_own_gradients() -> None:
    """One iteration with a compliance is not the rigid solution, whatever the tolerance is; its derivative is
    not either.
    """
    model = lw.robots.quadruped()
    q, v, tau = (x[0] for x in states(model, 1))
    M = lw.mass_matrix(model, q)
    J = lw.constraint_jacobian(model, q, constraints=FEET)
    soft = np.linalg.inv(J @ np.linalg.solve(M, J.T) + 0.1 * np.eye(12))
    f_by_tau = -soft @ J @ np.linalg.inv(M)
    a_by_tau = np.linalg.solve(M, np.eye(18) + J.T @ f_by_tau)
    how: dict[str, Any] = {"constraints": FEET, "iterations": 1, "compliance": 0.1}
    for more in ({}, {"tolerance": 1e-10}, {"tolerance": None}):
        found = lw.jacobian(lw.constrained_dynamics, model, wrt="tau", **how, **more)(q, v, tau)
        for x, y in zip(found, (a_by_tau, f_by_tau)):
            assert np.abs(np.squeeze(x) - y).max() < 1e-8 * np.abs(y).max()


def test_details_of_constrained_loops() -> None:
    """`forward_dynamics` tells them with constrained loops, and refuses the option without."""
    model = lw.robots.four_bar()
    held = model.with_loops(constrain=[loop.name for loop in model.loops])
    q, v = held.random_state(3)
    a, violation, iterations, imbalance, converged = lw.forward_dynamics(
        held, q, v, np.ones(held.nv), details=True
    )
    assert (
        a.shape == (held.nv,)
        and converged == 1.0
        and iterations >= 2.0
        and violation < 1e-9
        and imbalance < 1e-7
    )
    with pytest.raises(lw.ModelError, match="details= requires constrained loops"):
        lw.forward_dynamics(model, q, v[: model.nv], np.ones(model.nv), details=True)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("method", METHODS)
def test_converged_near_singular_states_means_that_rows_are_met(method: str, dtype: str) -> None:
    """The nearer an arm is to straight, the slower proximal iterations converge, and the less rows seem to
    change.
    """
    model = lw.robots.chain(4, joint=Revolute((0.0, 1.0, 0.0)))
    bends = 10.0 ** -np.linspace(0.5, 6.0, 23)
    q = np.array([[0.4, 1.0 * x, -0.3 * x, 0.2] for x in bends])
    v, tau = (np.tile(x, (len(bends), 1)) for x in ([0.5, -0.3, 0.4, 1.0], [0.3, -0.2, 0.5, 0.1]))
    held = lw.Hold(model.bodies[-1].name, "x z")
    a, _, violation, _, _, converged = lw.constrained_dynamics(
        model,
        *(x.astype(dtype) for x in (q, v, tau)),
        constraints=held,
        method=method,
        dtype=dtype,
        details=True,
    )
    met = violation < (1e-5 if dtype == "float32" else 1e-13) * np.abs(a).max(axis=1)
    assert converged[: 12 if dtype == "float32" else len(bends)].all()
    assert met[converged > 0.5].all()


def arm_in_tilted_plane(first: Joint) -> tuple[Model, list[lw.Constraint]]:
    """A planar arm on a first joint, and the plane of its motions."""
    builder = lw.ModelBuilder("planar arm in a tilted plane")
    for k in range(3):
        builder.add_body(f"link{k}", mass=1.0, center=(0.1, 0.02, 0.03), inertia=(0.01, 0.01, 0.01))
        place: Any = {"xyz": (0.3, 0, 0)} if k else {"rpy": (0.5, 0, 0)}
        kind = Revolute() if k else first
        builder.add_joint(
            f"joint{k}", kind, parent=f"link{k - 1}" if k else "world", child=f"link{k}", **place
        )
    builder.add_frame("tip", body="link2", xyz=(0.2, 0.1, 0.3))
    return builder.build(), [lw.OnPlane("tip", normal=(0.0, -np.sin(0.5), np.cos(0.5)))]


def test_rows_across_the_plane_of_free_motions_exert_no_force() -> None:
    """Only the first joint, which slides along the normal, moves the constraint's row."""
    arm, plane = arm_in_tilted_plane(Prismatic())
    q, v = arm.random_state(0)
    a, tau = np.array([0.3, 0.1, -0.2]), np.array([0.1, 0.2, 0.3])
    needed = lw.inverse_dynamics(arm, q, v, a)
    found = lw.constrained_inverse_dynamics(
        arm, q, v, a, constraints=plane, actuators=["joint0"], minimize="constraint_force"
    )
    for one, other in zip(found, (needed[:1], [0.0], [0.0, *needed[1:]])):
        assert np.allclose(one, other, atol=1e-10)
    given = (arm, q, v, a, tau)
    held = lw.hybrid_dynamics_derivatives(*given, prescribed=["joint0"], constraints=plane)
    free = lw.hybrid_dynamics_derivatives(*given, prescribed=["joint0"])
    for one, other in zip(held[:3], free):
        assert np.allclose(one, other, atol=1e-9)


@pytest.mark.parametrize("inputs", [(), ("placement",)])
def test_rows_across_the_plane_of_all_motions_exert_no_force(inputs: tuple[str, ...]) -> None:
    """A rounded normal gives rows of 1e-17, on which an unknown force must not divide."""
    arm, plane = arm_in_tilted_plane(Revolute())
    q, v = arm.random_state(0)
    tau = np.array([0.1, 0.2, 0.3])
    free = lw.forward_dynamics(arm, q, v, tau)
    values = {"parameters": {name: arm.parameters()[name] for name in inputs}}
    for method in METHODS:
        a, f = lw.constrained_dynamics(arm, q, v, tau, constraints=plane, method=method, **values)
        assert np.allclose(a, free, rtol=1e-12) and abs(f[0]) < 1e-9
    assert np.allclose(lw.impact(arm, q, v, constraints=plane, **values)[0], v, rtol=1e-12)
    found = lw.constrained_inverse_dynamics(arm, q, v, free, constraints=plane, **values)[0]
    assert np.allclose(found, tau, atol=1e-12)
    found = lw.constrained_dynamics_derivatives(arm, q, v, tau, constraints=plane, **values)[:3]
    for one, other in zip(found, lw.forward_dynamics_derivatives(arm, q, v, tau)):
        assert np.allclose(one, other, atol=1e-9)
